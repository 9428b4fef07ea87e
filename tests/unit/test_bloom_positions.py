"""Golden positions: a change here means that stored filters would be read wrongly. Raise the layout version instead."""

from __future__ import annotations

from collections import Counter

import mmh3
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.dedup import positions
from crawler.dedup.sizing import Shape

GOLDEN = {
    (b"", Shape(1, 1)): "00000000000000",
    (b"a", Shape(12, 1)): "897859f665551010020d22150d012b072c19",
    (b"a", Shape(15, 2)): "897859f665552021051b442a1b02570f593354081b",
    (
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13",
        Shape(15, 2),
    ): "4b95365770534e2d2e0d0b230c14060d3e1c315d23",
    (
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f",
        Shape(32, 2),
    ): "0f502fb62290291e4929010f10520948112d254e00532d0d04452f34240739512a4f5f2e342c",
}


@pytest.mark.parametrize(("fingerprint", "shape"), GOLDEN)
def test_golden(fingerprint: bytes, shape: Shape) -> None:
    assert positions.encode(fingerprint, shape).hex() == GOLDEN[fingerprint, shape]


def test_layout_version() -> None:
    assert positions.LAYOUT == 2


shapes = st.builds(Shape, st.integers(1, 31), st.integers(1, 2))


@given(st.binary(max_size=40), shapes)
def test_the_table_in_the_docstring_is_what_is_computed(fingerprint: bytes, shape: Shape) -> None:
    stream = b"".join(mmh3.mmh3_x64_128_digest(fingerprint, seed) for seed in range(9))
    draws = [int.from_bytes(stream[6 + 2 * lane : 8 + 2 * lane]) for lane in range(shape.lanes)]
    values = bytes(draw * 48 * shape.lane_words >> 16 for draw in draws)
    assert positions.encode(fingerprint, shape) == stream[:6] + values


@given(st.lists(st.binary(max_size=40), max_size=300), shapes)
def test_a_batch_is_encoded_as_its_elements_are(fingerprints: list[bytes], shape: Shape) -> None:
    one_by_one = [positions.encode(fingerprint, shape) for fingerprint in fingerprints]
    assert positions.encode_many(fingerprints, shape) == one_by_one
    assert msgpack.unpackb(positions.pack_many(fingerprints, shape), raw=True) == one_by_one


@given(st.lists(st.binary(max_size=40), max_size=300))
def test_a_compact_batch_is_packed_as_its_elements_are(fingerprints: list[bytes]) -> None:
    packed = positions.pack_compact(fingerprints)
    assert msgpack.unpackb(packed, raw=True) == positions.encode_compact(fingerprints)


@given(st.binary(max_size=40), shapes)
def test_every_position_is_inside_its_lane(fingerprint: bytes, shape: Shape) -> None:
    item = positions.encode(fingerprint, shape)
    assert len(item) == positions.HASH_BYTES + shape.lanes
    found = positions.bits(item, shape.lane_words)
    assert [bit // (48 * shape.lane_words) for bit in found] == list(range(shape.lanes))
    assert 0 <= positions.block(item, 97) < 97


@given(st.binary(max_size=40), shapes)
def test_more_lanes_never_move_the_first_ones(fingerprint: bytes, shape: Shape) -> None:
    few, many = (positions.encode(fingerprint, Shape(lanes, shape.lane_words)) for lanes in (shape.lanes, 32))
    assert many.startswith(few)


def drawn(lanes: int) -> list[list[int]]:
    return [positions.bits(positions.encode(b"%d" % number, Shape(lanes, 2)), 2) for number in range(20_000)]


def test_positions_are_uniform() -> None:
    """Chi-square of 96 positions over 20,000 elements in the first, middle and last lane; the limit is 5 sigma."""
    some = drawn(32)
    for lane in (0, 15, 31):
        counts = Counter(bits[lane] % 96 for bits in some)
        chi_square = sum((counts[bit] - 20_000 / 96) ** 2 / (20_000 / 96) for bit in range(96))
        assert chi_square < 95 + 5 * (2 * 95) ** 0.5


def test_lanes_are_independent() -> None:
    """Triples of neighbouring lanes repeat no more often than chance (double hashing would fail this)."""
    triples = len({tuple(bits) for bits in drawn(3)})
    expected_repeats = 20_000**2 / 2 / 96**3
    assert 20_000 - triples < expected_repeats + 5 * expected_repeats**0.5
