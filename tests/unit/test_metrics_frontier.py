"""Each figure of the frontier under its own name: no two of them can be mixed up."""

from __future__ import annotations

from types import SimpleNamespace as Some
from typing import Any

from crawler.metrics.frontier import GAUGES, families
from crawler.metrics.memory import Bloom
from crawler.metrics.sample import Sample, Server

LABELS = {"spider": "books"}


def worker(**reply: Any) -> Any:
    ledger = type("Ledger", (), {"__len__": lambda _: 1, "running": 2, "unsettled": 3})()
    defaults = {"queued": 5, "leased": 6, "dead": 7, "paused": False, "state": "running"}
    return Some(ledger=ledger, outbox="four", reply=Some(**{**defaults, **reply}))


SAMPLE = Sample(
    oldest=8.5,
    hosts={"due": 9, "waiting": 10, "busy": 11, "backing_off": 12},
    workers={"live": 13, "lost": 14},
    seeds=15,
    bloom=Bloom(elements=16, room=17, fill=0.18, size=19, error=2e-7, configured=2.1e-6),
    server=Server(used=22, most=23, evicted=24),
)


def shown(scheduler: Any, sample: Sample | None) -> dict[str, float]:
    """``name`` or ``name label`` → value."""
    found = {}
    for family in families(scheduler, sample, LABELS):
        for one in family.samples:
            assert one.labels.pop("spider") == "books"
            found[" ".join([one.name, *one.labels.values()])] = one.value
    return found


def test_each_name_has_its_value() -> None:
    values = shown(Some(link=Some(up=True), worker=worker()), SAMPLE)
    assert {name.removeprefix("crawler_"): value for name, value in values.items()} == {
        "redis_up": 1,
        "worker_requests held": 1,
        "worker_requests running": 2,
        "worker_requests unsettled": 3,
        "worker_requests outbox": 4,
        "frontier_queued": 5,
        "frontier_leased": 6,
        "frontier_dead": 7,
        "frontier_paused": 0,
        "frontier_finished": 0,
        "frontier_oldest_seconds": 8.5,
        "frontier_hosts due": 9,
        "frontier_hosts waiting": 10,
        "frontier_hosts busy": 11,
        "frontier_hosts backing_off": 12,
        "frontier_workers live": 13,
        "frontier_workers lost": 14,
        "frontier_seeds": 15,
        "bloom_elements": 16,
        "bloom_fill_ratio": 0.18,
        "bloom_bytes": 19,
        "bloom_estimated_error_rate": 2e-7,
        "bloom_configured_error_rate": 2.1e-6,
        "redis_memory_bytes": 22,
        "redis_memory_max_bytes": 23,
        "redis_evicted_keys_total": 24,
    }
    assert {name.split()[0] for name in values} == set(GAUGES)


def test_a_run_that_is_paused_or_over_says_so() -> None:
    values = shown(Some(link=Some(up=False), worker=worker(paused=True, state="finished")), None)
    assert values["crawler_redis_up"] == 0
    assert values["crawler_frontier_paused"] == values["crawler_frontier_finished"] == 1
    assert "crawler_frontier_oldest_seconds" not in values, "without a sample nothing is told of what Redis alone knows"
