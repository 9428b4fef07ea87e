"""Golden positions: a change here means that stored filters would be read wrongly. Raise the layout version instead."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.dedup import positions

GOLDEN = {
    (b"", 1): "0000000000000710",
    (b"a", 10): "85555565f659080b0208080910010c0110404001081010804040",
    (b"a", 14): "85555565f659080b0208080910010c01020b030e1040400108101080404020012040",
    (
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13",
        14,
    ): "a3d253705736060101080f0209100c04080d0f081002100802040820200110101004",
    (
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f",
        24,
    ): "c66d9022b62f0d090d0c040c030a0b030e0a100e0f020a090f1004020502020208202004080440404080020404100480202080010120",
}


@pytest.mark.parametrize(("fingerprint", "lanes"), GOLDEN)
def test_golden(fingerprint: bytes, lanes: int) -> None:
    assert positions.encode(fingerprint, lanes).hex() == GOLDEN[fingerprint, lanes]


def test_layout_version() -> None:
    assert positions.LAYOUT == 1


@given(st.binary(max_size=40), st.integers(1, 24))
def test_every_position_is_inside_its_lane(fingerprint: bytes, lanes: int) -> None:
    item = positions.encode(fingerprint, lanes)
    assert len(item) == positions.HASH_BYTES + 2 * lanes
    assert [bit // 128 for bit in positions.bits(item)] == list(range(lanes))
    assert 0 <= positions.block(item, 97) < 97


@given(st.binary(max_size=40), st.integers(1, 23))
def test_more_lanes_never_move_the_first_ones(fingerprint: bytes, lanes: int) -> None:
    few, many = (positions.bits(positions.encode(fingerprint, count)) for count in (lanes, 24))
    assert many[:lanes] == few


def test_positions_are_uniform() -> None:
    """Chi-square of 128 positions over 20,000 elements in the first, middle and last lane; the limit is 5 sigma."""
    drawn = [positions.bits(positions.encode(b"%d" % number, 24)) for number in range(20_000)]
    for lane in (0, 12, 23):
        counts = Counter(bits[lane] % 128 for bits in drawn)
        chi_square = sum((counts[bit] - 156.25) ** 2 / 156.25 for bit in range(128))
        assert chi_square < 127 + 5 * (2 * 127) ** 0.5


def test_lanes_are_independent() -> None:
    """Pairs of neighbouring lanes repeat no more often than chance (double hashing would fail this)."""
    drawn = [positions.bits(positions.encode(b"%d" % number, 3)) for number in range(20_000)]
    triples = len({tuple(bits) for bits in drawn})
    expected_repeats = 20_000**2 / 2 / 128**3
    assert 20_000 - triples < expected_repeats + 5 * expected_repeats**0.5
