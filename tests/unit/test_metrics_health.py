"""Probes tell the truth about the exchange, and the memory's fill is arithmetic on its metadata."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawler.dedup.sizing import CompactSizing, Sizing
from crawler.dedup.stored import Stored
from crawler.metrics.health import SILENT, Health
from crawler.metrics.memory import bloom_of, over_shards


def test_silence_is_not_healthy_and_one_exchange_heals() -> None:
    health = Health(100, shared=True)
    assert health.healthy(100 + SILENT).ok
    silent = health.healthy(101 + SILENT)
    assert not silent.ok
    assert "no exchange with the frontier for 11 s" in silent.text
    assert not health.ready(101 + SILENT).ok
    health.exchanged(102 + SILENT)
    assert health.healthy(102 + SILENT).ok
    assert health.ready(102 + SILENT).ok


def test_silence_is_seen_in_time() -> None:
    assert SILENT < 15


def test_a_closing_worker_is_healthy_but_takes_no_work() -> None:
    health = Health(0, shared=True)
    health.closing = True
    assert health.healthy(1000).ok
    assert not health.ready(0).ok


def test_without_a_shared_frontier_there_is_nothing_to_hear_from() -> None:
    assert Health(0, shared=False).healthy(1e6).ok


def bitmap(count: int, blocks: str = "", capacity: int = 1000, error: float = 1e-3) -> Stored:
    lanes, lane_words = Sizing(capacity, error).shape
    fields = {"kind": "bitmap", "error_rate": repr(error), "capacity": str(capacity), "lanes": str(lanes)}
    fields["lane_words"] = str(lane_words)
    return Stored("base", {**fields, "blocks": blocks, "count": str(count)})


def test_fill_is_of_the_layers_there_are() -> None:
    sizing = Sizing(1000, 1e-3)
    one = bloom_of([bitmap(900, str(sizing.blocks(0)))])
    two = bloom_of([bitmap(1500, f"{sizing.blocks(0)},{sizing.blocks(1)}")])
    assert one is not None
    assert two is not None
    assert (one.elements, one.room, one.fill) == (900, 1000, 0.9)
    assert (two.elements, two.room, two.fill) == (1500, 3000, 0.5)
    assert one.size == sizing.layer_bytes(0)
    assert two.size == sizing.layer_bytes(0) + sizing.layer_bytes(1)
    assert one.error == sizing.estimated_error(900)
    assert one.error < two.error < two.configured == 1e-3


def test_an_empty_memory_errs_never() -> None:
    empty = bloom_of([bitmap(0)])
    assert empty is not None
    assert (empty.fill, empty.error, empty.size, empty.room) == (0.0, 0.0, 0, 1000)


def test_generations_of_a_window_count_together() -> None:
    window = Stored("base", {"kind": "window/bitmap", "length": "1", "generations": "1"})
    found = bloom_of([window, bitmap(900), bitmap(300)])
    assert found is not None
    assert found.configured == 2e-3, "each of the two has half of BLOOM_ERROR_RATE"
    assert (found.elements, found.room) == (1200, 2000)
    assert found.error == pytest.approx(Sizing(1000, 1e-3).estimated_error(900), rel=0.2)


def test_a_window_of_full_generations_errs_as_configured_at_most() -> None:
    window = Stored("base", {"kind": "window/bitmap", "length": "1", "generations": "4"})
    full, young = bloom_of([window, *[bitmap(1000)] * 5]), bloom_of([window, bitmap(10)])
    assert full is not None
    assert young is not None
    assert 1e-3 < full.error <= full.configured == young.configured == 5e-3


def test_the_fill_of_a_window_is_that_of_its_newest_generation() -> None:
    window = Stored("base", {"kind": "window/bitmap", "length": "1", "generations": "1"})
    old, new = (replace(bitmap(count), role=f"generation {n}") for n, count in ((9, 950), (10, 20)))
    found = bloom_of([window, old, new])
    assert found is not None
    assert (found.fill, found.elements) == (0.02, 970)
    full = bloom_of([window, replace(old, role="generation 10"), replace(new, role="generation 9")])
    assert full is not None
    assert full.fill == 0.95


def test_shards_count_together_and_the_fullest_one_counts() -> None:
    full, empty = bloom_of([bitmap(900)]), bloom_of([bitmap(100)])
    assert full is not None
    found = over_shards([full, None, empty])
    assert found is not None
    assert (found.elements, found.room, found.fill) == (1000, 2000, 0.9)
    assert 0.9 * full.error <= found.error < full.error, "most pages are in the full one"
    assert over_shards([None, None]) is None


def test_an_exact_memory_has_no_fill() -> None:
    assert bloom_of([Stored("base", {"kind": "exact", "id": "1"})]) is None
    assert bloom_of([]) is None


def test_a_compact_memory_that_is_full_errs_as_configured_at_most() -> None:
    fields = {"kind": "compact", "capacity": "100000", "error_rate": "1e-07", "count": "100000"}
    sets = str(CompactSizing(100_000, 1e-7).sets(0))
    found = bloom_of([Stored("base", {**fields, "sets": sets})])
    assert found is not None
    assert found.fill == 1.0
    assert 1e-8 < found.error <= 1e-7
