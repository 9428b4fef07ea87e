"""The arithmetic of the Bloom filter, checked against simulation and closed forms."""

from __future__ import annotations

import math
import random

import pytest

from crawler.dedup import sizing
from crawler.dedup.sizing import (
    MAX_LAYERS,
    SEGMENT_BYTES,
    WORD_BITS,
    CompactSizing,
    Shape,
    Sizing,
    block_error,
    block_load,
    choose_shape,
    layer_error,
    minimum_bits,
)

ERRORS = [0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7]


def test_minimum_bits_is_the_textbook_value() -> None:
    assert minimum_bits(0.01) == pytest.approx(9.585, abs=1e-3)
    assert minimum_bits(1e-6) == pytest.approx(28.755, abs=1e-3)


@pytest.mark.parametrize(("load", "shape"), [(20, Shape(4, 1)), (60, Shape(5, 2))])
def test_block_error_matches_a_simulation(load: float, shape: Shape) -> None:
    chance = random.Random(1)
    blocks, rate, bits = 1000, 0.0, shape.lane_words * WORD_BITS
    held = [0] * blocks
    for _ in range(int(load * blocks)):
        held[chance.randrange(blocks)] += 1
    for count in held:
        rate += math.prod(len({chance.randrange(bits) for _ in range(count)}) / bits for _ in range(shape.lanes))
    assert block_error(load, shape) == pytest.approx(rate / blocks, rel=0.08)


@pytest.mark.parametrize("error", ERRORS)
def test_block_load_is_the_largest_that_holds(error: float) -> None:
    shape = choose_shape(error)
    load = block_load(error, shape)
    assert block_error(load, shape) <= error < block_error(load * 1.002, shape)


@pytest.mark.parametrize("error", ERRORS)
def test_the_first_layer_is_near_the_theoretical_minimum(error: float) -> None:
    sizing = Sizing(1_000_000, error)
    assert sizing.layer_bytes(0) * 8 / 1_000_000 <= 1.22 * minimum_bits(error)


@pytest.mark.parametrize("error", ERRORS)
def test_layer_errors_never_add_up_to_the_configured_one(error: float) -> None:
    assert sum(layer_error(error, index) for index in range(MAX_LAYERS)) < error


@pytest.mark.parametrize("error", [1e-2, 1e-6])
@pytest.mark.parametrize("elements", [0, 1, 1000, 1001, 3000, 3001, 50_000, 1_000_000])
def test_the_estimate_stays_within_the_configured_error_through_all_growth(error: float, elements: int) -> None:
    estimate = Sizing(1000, error).estimated_error(elements)
    assert 0 <= estimate <= error
    assert (estimate > 0) == (elements > 0)


def test_an_overfilled_layer_would_be_far_worse() -> None:
    sizing = Sizing(1000, 1e-4)
    assert block_error(3000 / sizing.blocks(0), sizing.shape) > 100 * 1e-4


@pytest.mark.parametrize(
    ("elements", "layers"), [(0, 1), (1000, 1), (1001, 2), (3000, 2), (3001, 3), (7000, 3), (7001, 4)]
)
def test_layers_in_use(elements: int, layers: int) -> None:
    assert Sizing(1000, 1e-3).layers_for(elements) == layers


@pytest.mark.parametrize("error", [0.5, *ERRORS, 1e-9, 1e-12])
def test_keys_stay_under_their_allocator_class(error: float) -> None:
    sizing = Sizing(1000, error)
    assert 0.97 * SEGMENT_BYTES <= sizing.slots * sizing.block_bytes <= SEGMENT_BYTES < 2 * 1024 * 1024 - 64


@pytest.mark.parametrize(("capacity", "error"), [(0, 0.1), (-1, 0.1), (1, 0), (1, 1), (1, 1.5)])
def test_nonsense_is_refused(capacity: int, error: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        Sizing(capacity, error)


def test_sizes_are_a_stored_format() -> None:
    """Stored filters are read with these: another value needs another layout version."""
    shapes = [tuple(Sizing(1, error).shape) for error in ERRORS]
    assert shapes == [(4, 2), (6, 1), (9, 1), (13, 1), (12, 2), (15, 2), (19, 2)]
    assert [Sizing(1, error).slots for error in (1e-2, 1e-4, 1e-6)] == [225, 104, 45]
    assert [Sizing(1_000_000, 1e-6).blocks(index) for index in range(4)] == [23850, 55680, 120701, 255184]


@pytest.mark.parametrize("error", [1e-4, 1e-6, 1e-7])
@pytest.mark.parametrize("index", [0, 3, 8])
def test_compact_sets_keep_the_error_and_the_cheap_encoding(error: float, index: int) -> None:
    sizing = CompactSizing(1_000_000, error)
    assert sizing.load(index) / 2**32 <= layer_error(error, index)
    assert sizing.load(index) + 5 * sizing.load(index) ** 0.5 < 512
    assert sizing.sets(index) * sizing.load(index) >= 1_000_000 << index


def halved(error: float, shape: Shape) -> float:
    """The load that halving finds: what stored layers were sized by."""
    low, high = 0.0, WORD_BITS * 80.0
    while high - low > low * 1e-5 + 1e-18:
        middle = (low + high) / 2
        low, high = (low, middle) if block_error(middle, shape) > error else (middle, high)
    return float(f"{low * (1 - 5e-4):.4g}")


@pytest.mark.parametrize("error", [0.9, 0.1, 1e-2, 1e-4, 1e-6, 1e-9, 1e-15])
@pytest.mark.parametrize("shape", [Shape(1, 1), Shape(4, 1), Shape(15, 2), Shape(32, 2)])
def test_the_load_is_the_one_that_stored_layers_have(error: float, shape: Shape) -> None:
    for index in (0, 1, 5, 23):
        share = layer_error(error, index)
        assert sizing.block_load.__wrapped__(share, shape) == halved(share, shape)


def test_a_worker_that_starts_does_not_stop_to_calculate(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def counted(load: float, shape: Shape) -> float:
        asked.append(load)
        return block_error(load, shape)

    monkeypatch.setattr(sizing, "block_error", counted)
    sizing.block_load.cache_clear()
    for index in range(MAX_LAYERS):
        Sizing(1_000_000, 1e-6).load(index)
    sizing.block_load.cache_clear()
    assert len(asked) < 300  # halving: 624, which is 70 ms
