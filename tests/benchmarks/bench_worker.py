"""One worker against its peers: CPU and pages per second on 2,000 local pages of 7 links, with Redis near and far.

Interleaved, medians; the ratios are the result, the figures only show where they come from.
`python -m tests.benchmarks.bench_worker --runs 5 --json worker.json` prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.site.options import Options
from tests.site.server import SiteProcess
from tests.support.server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODES = ["memory", "ours", "compact", "scrapy-redis", "bloomfilter"]
PEERS = ["scrapy-redis", "bloomfilter"]


def plain_site(pages: int) -> Options:
    """Every scheduler does the same on it: one spelling per page, no redirects, no failures; about 7 links a page."""
    return Options(pages=pages, spellings=0, redirects=0, refreshes=0, moved=0, slow=0, flaky=0, robots=0)


@contextmanager
def far(port: int, milliseconds: float) -> Iterator[int]:
    """The port of a proxy that delays the server's replies; the server's own for 0 ms."""
    if not milliseconds:
        yield port
        return
    command = [sys.executable, "-m", "tests.benchmarks.delay", str(port), str(milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def begin(mode: str, start: str, port: int, **environment: str) -> subprocess.Popen[str]:
    """One worker in a process of its own."""
    # Bytecode is kept as for any user; where the environment forbids it, our modules would be compiled at each start.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"REDIS_URL": f"redis://127.0.0.1:{port}", "CRAWLER_ENV_FILE": "", "METRICS_PORT": "0"}
    env |= {"BENCH_BORN": str(time.time())} | environment
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.worker_job", mode, start]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def figures_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a worker prints when it is done."""
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-2000:]
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures


def crawl(mode: str, start: str, port: int, workers: int) -> dict[str, float]:
    """One crawl by some workers together: pages over the time from the first page to the last."""
    rows = [figures_of(process) for process in [begin(mode, start, port) for _ in range(workers)]]
    came = sorted(moment for row in rows for moment in row["came"])
    pages = len(came)
    return {
        "pages": pages,
        "pages_per_second": rows[0]["pages_per_second"] if workers == 1 else (pages - 1) / (came[-1] - came[0]),
        "cpu_ms_per_page": sum(row["cpu_ms_per_page"] * row["pages"] for row in rows) / pages,
        "held_ms": max(row["held_ms"] for row in rows),
        "first_request_ms": min(row["first_request_ms"] for row in rows),
    }


def reads(client: Any) -> int:
    """How often the server has read from a client: once per round trip, however many commands came with it."""
    return int(client.info("stats")["total_reads_processed"])


Key = tuple[str, float, int]  # mode, milliseconds to Redis, workers


def measure(
    pages: int, runs: int, delays: list[float], modes: list[str], workers: Sequence[int] = (1,)
) -> dict[Key, dict[str, float]]:
    """Medians, all modes in turn in each run; Scrapy alone knows no second worker.

    `pace` and `cost` are pages per second and CPU per page as multiples of Scrapy's alone in the same run, so that a
    machine that changes its pace between runs changes no ratio. Peers that are far from Redis get a tenth of the pages:
    they would take most of an hour.
    """
    found: dict[Key, list[dict[str, float]]] = defaultdict(list)
    with (
        RedisServer() as server, server.client() as client,
        SiteProcess(plain_site(pages)) as whole, SiteProcess(plain_site(max(100, pages // 10))) as tenth,
    ):  # fmt: skip
        for _, delay, count, mode in product(range(runs), delays, workers, modes):
            if mode in ("memory", "compact") and (count > 1 or delay):
                continue
            site = tenth if delay and mode in PEERS else whole
            with far(server.port, delay) as port:
                client.flushall()
                client.config_resetstat()
                before = reads(client)
                figures = crawl(mode, site.start, port, count)
                stats: Any = client.info("commandstats")
                script = sum(row["usec"] for name, row in stats.items() if name.startswith("cmdstat_eval"))
                figures["calls_per_page"] = (reads(client) - before - 2) / figures["pages"]
                figures["script_us_per_page"] = script / figures["pages"]
                found[mode, delay, count].append(figures)
    for rows in found.values():
        for row, alone in zip(rows, found["memory", 0, 1], strict=False):
            row["pace"] = row["pages_per_second"] / alone["pages_per_second"]
            row["cost"] = row["cpu_ms_per_page"] / alone["cpu_ms_per_page"]
    return {
        key: {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}
        for key, rows in found.items()
    }


def measure_start(runs: int) -> list[dict[str, Any]]:
    """Milliseconds from the making of a worker's process to its first request, in turns with Scrapy alone."""
    found: dict[str, list[float]] = {"memory": [], "lean": [], "ours": []}
    with RedisServer() as server, server.client() as client, SiteProcess(plain_site(20)) as site:
        for _ in range(runs):
            for mode, row in found.items():
                client.flushall()
                row.append(crawl(mode, site.start, server.port, 1)["first_request_ms"])
    return [{"mode": mode, "least": min(row), "median": statistics.median(row)} for mode, row in found.items()]


def start_table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| scheduler | first request after, ms: least | median |", "|---|---|---|"]
    lines.extend(f"| {row['mode']} | {row['least']:.0f} | {row['median']:.0f} |" for row in rows)
    return "\n".join(lines)


def rows_of(medians: dict[Key, dict[str, float]]) -> list[dict[str, Any]]:
    """The same as rows for JSON."""
    return [{"mode": mode, "ms": ms, "workers": workers, **row} for (mode, ms, workers), row in medians.items()]


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, one row per mode, delay and number of workers; ratios to Scrapy alone."""
    lines = [
        "| scheduler | ms to Redis | workers | pages/s | × | CPU ms/page | × | round trips/page | script µs/page "
        "| held ms |",
        "|---" * 10 + "|",
    ]
    lines.extend(
        f"| {row['mode']} | {row['ms']:g} | {row['workers']} "
        f"| {row['pages_per_second']:.0f} | {row['pace']:.2f} | {row['cpu_ms_per_page']:.2f} | {row['cost']:.2f} "
        f"| {row['calls_per_page']:.3f} | {row['script_us_per_page']:.0f} | {row['held_ms']:.1f} |"
        for row in rows
    )
    return "\n".join(lines)


def available() -> list[str]:
    """The modes whose packages are installed (the bloomfilter's is needed for benchmarks only)."""
    return [mode for mode in MODES if mode != "bloomfilter" or importlib.util.find_spec("scrapy_redis_bloomfilter")]


def test_a_worker_costs_no_more_than_scrapy_alone() -> None:
    medians = measure(pages=600, runs=3, delays=[0, 3], modes=["memory", "ours"])
    print("\n" + table(rows_of(medians)))
    near, distant = medians["ours", 0, 1], medians["ours", 3, 1]
    assert near["cost"] <= 1.1
    assert distant["pace"] >= 0.9 * near["pace"]
    assert near["calls_per_page"] <= 0.15
    assert near["held_ms"] <= 10


def main() -> None:
    """The whole comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--delays", type=float, nargs="*", default=[0, 3])
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--modes", nargs="*", default=available())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    medians = measure(options.pages, options.runs, options.delays, options.modes, options.workers)
    print(table(rows_of(medians)))
    if options.json:
        options.json.write_text(json.dumps(rows_of(medians), indent=1))


if __name__ == "__main__":
    main()
