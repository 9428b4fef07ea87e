"""The frontier as this worker sees it: its last reply, what it holds, and the sample from Redis, as metric families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from crawler.frontier import Scheduler
    from crawler.metrics.memory import Bloom
    from crawler.metrics.sample import Sample

WIDE = " Frontier-wide: the same from each worker, so take the max."

# name → help, label
GAUGES: dict[str, tuple[str, str]] = {
    "crawler_redis_up": ("1 when the last exchange with the frontier got through, else 0.", ""),
    "crawler_frontier_queued": ("Requests waiting in the frontier." + WIDE, ""),
    "crawler_frontier_leased": ("Requests that workers hold." + WIDE, ""),
    "crawler_frontier_dead": ("Dead letters kept (at most FRONTIER_DEAD_MAX)." + WIDE, ""),
    "crawler_frontier_paused": ("1 while `scrapy frontier pause` is in force." + WIDE, ""),
    "crawler_frontier_finished": ("1 once the run is over." + WIDE, ""),
    "crawler_frontier_oldest_seconds": (
        "How long the request that could have started first has waited for a worker beyond its time." + WIDE,
        "",
    ),
    "crawler_frontier_hosts": (
        "Hosts by state: due and waiting have queued requests, busy ones (with a delay) are being asked; waiting ones "
        "are also backing_off if they may be asked only in more than a minute (or two ordinary delays)." + WIDE,
        "state",
    ),
    "crawler_frontier_workers": (
        "Workers heard of in the last 10 s (live), or silent since then without a good-bye, for 15 min (lost)." + WIDE,
        "state",
    ),
    "crawler_frontier_seeds": ("Seeds that wait to be taken." + WIDE, ""),
    "crawler_worker_requests": (
        "Requests in this worker: held (all leases), running (in Scrapy's engine), unsettled (done, not confirmed), "
        "outbox (on their way to the frontier).",
        "state",
    ),
    "crawler_bloom_elements": ("Elements in the Bloom filter." + WIDE, ""),
    "crawler_bloom_fill_ratio": ("Share of the Bloom filter's room that is taken; a new layer adds room." + WIDE, ""),
    "crawler_bloom_bytes": ("Size of the Bloom filter's bits." + WIDE, ""),
    "crawler_bloom_estimated_error_rate": ("Share of new pages that the filter takes for seen by now." + WIDE, ""),
    "crawler_bloom_configured_error_rate": ("BLOOM_ERROR_RATE of the stored filter." + WIDE, ""),
    "crawler_redis_memory_bytes": ("Memory that Redis uses." + WIDE, ""),
    "crawler_redis_memory_max_bytes": ("Redis's maxmemory; 0: no limit." + WIDE, ""),
    "crawler_redis_evicted_keys_total": ("Keys that Redis gave up for want of memory: lost pages." + WIDE, ""),
}

Values = Mapping[str, float]  # label value → number; the label value is "" where there is no label


def families(scheduler: Scheduler, sample: Sample | None, labels: Mapping[str, str]) -> Iterator[Metric]:
    """Every family that can be told now; what Redis would have to be asked for is left out without a `sample`."""
    for name, values in _values(scheduler, sample):
        text, label = GAUGES[name]
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(name, text, labels=[*labels, *filter(None, [label])])
        for value, number_ in values.items():
            family.add_metric([*labels.values(), *filter(None, [value])], number_)
        yield family


def _values(scheduler: Scheduler, sample: Sample | None) -> Iterator[tuple[str, Values]]:
    link, worker = scheduler.link, scheduler.worker
    if link is not None:
        yield "crawler_redis_up", _one(link.up)
    if worker is not None:
        ledger = worker.ledger
        yield (
            "crawler_worker_requests",
            {
                "held": len(ledger),
                "running": ledger.running,
                "unsettled": ledger.unsettled,
                "outbox": len(worker.outbox),
            },
        )
        if (reply := worker.reply) is not None:
            yield "crawler_frontier_queued", _one(reply.queued)
            yield "crawler_frontier_leased", _one(reply.leased)
            yield "crawler_frontier_dead", _one(reply.dead)
            yield "crawler_frontier_paused", _one(reply.paused)
            yield "crawler_frontier_finished", _one(reply.state == "finished")
    if sample is not None:
        yield "crawler_frontier_oldest_seconds", _one(sample.oldest)
        yield "crawler_frontier_hosts", sample.hosts
        yield "crawler_frontier_workers", sample.workers
        yield "crawler_frontier_seeds", _one(sample.seeds)
        if sample.bloom is not None:
            yield from _bloom(sample.bloom)
        if (server := sample.server) is not None:
            yield "crawler_redis_memory_bytes", _one(server.used)
            yield "crawler_redis_memory_max_bytes", _one(server.most)
            yield "crawler_redis_evicted_keys_total", _one(server.evicted)


def _bloom(bloom: Bloom) -> Iterator[tuple[str, Values]]:
    yield "crawler_bloom_elements", _one(bloom.elements)
    yield "crawler_bloom_fill_ratio", _one(bloom.fill)
    yield "crawler_bloom_bytes", _one(bloom.size)
    yield "crawler_bloom_estimated_error_rate", _one(bloom.error)
    yield "crawler_bloom_configured_error_rate", _one(bloom.configured)


def _one(value: float) -> Values:
    return {"": float(value)}
