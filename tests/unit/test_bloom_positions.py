"""Golden positions: a change here means that stored filters would be read wrongly. Raise the layout version instead."""

from __future__ import annotations

from collections import Counter

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.dedup import positions

GOLDEN = {
    (b"", 1): "00000000000000",
    (b"a", 10): "897859f6655533164d54141e1f155404",
    (b"a", 15): "897859f6655533164d54141e1f1554043939264b06",
    (
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13",
        15,
    ): "4b95365770533a021518504a2d2543073d21265746",
    (
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f",
        32,
    ): "0f502fb6229006031246412901231e121f442541332f4b54314425531a0d0c50100e02503001",
}


@pytest.mark.parametrize(("fingerprint", "lanes"), GOLDEN)
def test_golden(fingerprint: bytes, lanes: int) -> None:
    assert positions.encode(fingerprint, lanes).hex() == GOLDEN[fingerprint, lanes]


def test_layout_version() -> None:
    assert positions.LAYOUT == 1


@given(st.binary(max_size=40), st.integers(1, 32))
def test_the_table_in_the_docstring_is_what_is_computed(fingerprint: bytes, lanes: int) -> None:
    stream = b"".join(mmh3.mmh3_x64_128_digest(fingerprint, seed) for seed in range(9))
    draws = [int.from_bytes(stream[9 + 4 * lane : 12 + 4 * lane]) for lane in range(lanes)]
    assert positions.encode(fingerprint, lanes) == stream[:6] + bytes(draw * 96 >> 24 for draw in draws)


@given(st.binary(max_size=40), st.integers(1, 32))
def test_every_position_is_inside_its_lane(fingerprint: bytes, lanes: int) -> None:
    item = positions.encode(fingerprint, lanes)
    assert len(item) == positions.HASH_BYTES + lanes
    assert [bit // 96 for bit in positions.bits(item)] == list(range(lanes))
    assert 0 <= positions.block(item, 97) < 97


@given(st.binary(max_size=40), st.integers(1, 31))
def test_more_lanes_never_move_the_first_ones(fingerprint: bytes, lanes: int) -> None:
    few, many = (positions.bits(positions.encode(fingerprint, count)) for count in (lanes, 32))
    assert many[:lanes] == few


def test_positions_are_uniform() -> None:
    """Chi-square of 96 positions over 20,000 elements in the first, middle and last lane; the limit is 5 sigma."""
    drawn = [positions.bits(positions.encode(b"%d" % number, 32)) for number in range(20_000)]
    for lane in (0, 15, 31):
        counts = Counter(bits[lane] % 96 for bits in drawn)
        chi_square = sum((counts[bit] - (20_000 / 96)) ** 2 / (20_000 / 96) for bit in range(96))
        assert chi_square < 95 + 5 * (2 * 95) ** 0.5


def test_lanes_are_independent() -> None:
    """Pairs of neighbouring lanes repeat no more often than chance (double hashing would fail this)."""
    drawn = [positions.bits(positions.encode(b"%d" % number, 3)) for number in range(20_000)]
    triples = len({tuple(bits) for bits in drawn})
    expected_repeats = 20_000**2 / 2 / 96**3
    assert 20_000 - triples < expected_repeats + 5 * expected_repeats**0.5
