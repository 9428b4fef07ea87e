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
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.site.options import Options
from tests.site.server import SiteProcess
from tests.support.server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODES = ["memory", "ours", "scrapy-redis", "bloomfilter"]


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


def job(mode: str, start: str, port: int) -> dict[str, Any]:
    """One crawl by one worker."""
    env = os.environ | {"REDIS_URL": f"redis://127.0.0.1:{port}", "CRAWLER_ENV_FILE": "", "METRICS_PORT": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.worker_job", mode, start]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def reads(client: Any) -> int:
    """How often the server has read from a client: once per round trip, however many commands came with it."""
    return int(client.info("stats")["total_reads_processed"])


def measure(pages: int, runs: int, delays: list[float], modes: list[str]) -> dict[tuple[str, float], dict[str, float]]:
    """Medians by (mode, milliseconds to Redis), all modes in turn in each run."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    with RedisServer() as server, SiteProcess(plain_site(pages)) as site, server.client() as client:
        for _ in range(runs):
            for delay in delays:
                with far(server.port, delay) as port:
                    for mode in modes:
                        client.flushall()
                        client.config_resetstat()
                        before = reads(client)
                        figures = job(mode, site.start, port)
                        stats: Any = client.info("commandstats")
                        script = sum(row["usec"] for name, row in stats.items() if name.startswith("cmdstat_eval"))
                        figures["calls_per_page"] = (reads(client) - before - 2) / figures["pages"]
                        figures["script_us_per_page"] = script / figures["pages"]
                        found[mode, delay].append(figures)
    return {
        key: {name: statistics.median(row[name] for row in rows) for name in rows[0] if name != "mode"}
        for key, rows in found.items()
    }


def table(medians: dict[tuple[str, float], dict[str, float]]) -> str:
    """Markdown, one row per mode and delay, ratios to Scrapy alone."""
    rows = ["| scheduler | ms to Redis | pages/s | × | CPU ms/page | × | round trips/page | script µs/page | held ms |"]
    rows.append("|---|---|---|---|---|---|---|---|---|")
    base = medians["memory", 0]
    for (mode, delay), row in medians.items():
        rows.append(
            f"| {mode} | {delay:g} "
            f"| {row['pages_per_second']:.0f} | {row['pages_per_second'] / base['pages_per_second']:.2f} "
            f"| {row['cpu_ms_per_page']:.2f} | {row['cpu_ms_per_page'] / base['cpu_ms_per_page']:.2f} "
            f"| {row['calls_per_page']:.3f} | {row['script_us_per_page']:.0f} | {row['held_ms']:.1f} |"
        )
    return "\n".join(rows)


def available() -> list[str]:
    """The modes whose packages are installed (the bloomfilter's is needed for benchmarks only)."""
    return [mode for mode in MODES if mode != "bloomfilter" or importlib.util.find_spec("scrapy_redis_bloomfilter")]


def test_a_worker_costs_no_more_than_scrapy_alone() -> None:
    medians = measure(pages=600, runs=3, delays=[0, 3], modes=["memory", "ours"])
    print("\n" + table(medians))
    base, near, distant = medians["memory", 0], medians["ours", 0], medians["ours", 3]
    assert near["cpu_ms_per_page"] <= 1.1 * base["cpu_ms_per_page"]
    assert distant["pages_per_second"] >= 0.9 * near["pages_per_second"]
    assert near["calls_per_page"] <= 0.15
    assert near["held_ms"] <= 10


def main() -> None:
    """The whole comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--delays", type=float, nargs="*", default=[0, 3])
    parser.add_argument("--modes", nargs="*", default=available())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    medians = measure(options.pages, options.runs, options.delays, options.modes)
    print(table(medians))
    if options.json:
        options.json.write_text(json.dumps([{"mode": m, "ms": d, **row} for (m, d), row in medians.items()], indent=1))


if __name__ == "__main__":
    main()
