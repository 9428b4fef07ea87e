"""How workers add up where latency binds, and how long the reactor is held, also while Redis is frozen.

Pages take 100 ms and a worker asks for two at once, so that these processors are mostly idle: what is measured is what
the frontier adds. Start-up is left out: only the time counts in which all workers had begun and none had ended.
`python -m tests.benchmarks.bench_scaling` prints both tables of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.bench_worker import begin, figures_of, plain_site
from tests.site.options import plain
from tests.site.server import SiteProcess
from tests.support.server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

LATENCY = 0.1  # seconds a page takes


def busy() -> tuple[float, float]:
    """Processor time used and in all, of the whole machine (Linux)."""
    words = [float(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(words) - words[3] - words[4], sum(words)


def rate(workers: int, seconds: float, mode: str = "ours") -> dict[str, float]:
    """Pages per second of all workers together, and the share of the processors that was in use."""
    lasts = seconds + 3 * workers  # the last one begins so late on few processors
    site = plain(pages=max(2000, round(60 * lasts * workers)), latency=LATENCY, robots=0)
    with RedisServer() as server, SiteProcess(site) as running:
        crew = [
            begin(mode, running.start, server.port, BENCH_CONCURRENT="2", BENCH_SECONDS=str(lasts + 2))
            for _ in range(workers)
        ]
        time.sleep(3 * workers)
        used, total = busy()
        time.sleep(max(1.0, seconds - 3))
        share = [now - before for now, before in zip(busy(), (used, total), strict=True)]
        rows = [figures_of(process) for process in crew]
    begun = max(row["came"][0] for row in rows) + 1
    over = min(row["came"][-1] for row in rows) - 1
    pages = sum(begun <= moment < over for row in rows for moment in row["came"])
    return {"pages_per_second": pages / (over - begun), "cpu_share": share[0] / share[1], "seconds": over - begun}


def measure_scaling(runs: int, seconds: float, crews: tuple[int, ...] = (1, 2, 8)) -> list[dict[str, float]]:
    """Medians, crews in turn in each run."""
    found: dict[int, list[dict[str, float]]] = {workers: [] for workers in crews}
    for _ in range(runs):
        for workers in crews:
            found[workers].append(rate(workers, seconds))
    rows = [
        {"workers": workers, **{name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}}
        for workers, rows in found.items()
    ]
    return [row | {"times_one": round(row["pages_per_second"] / rows[0]["pages_per_second"], 3)} for row in rows]


def measure_held(runs: int, pages: int) -> list[dict[str, float]]:
    """CPU time of the longest call of ours at 64 concurrent requests, and the lag of the loop while Redis is frozen."""
    rows = []
    for _ in range(runs):
        with RedisServer() as server, server.client() as client, SiteProcess(plain_site(pages)) as site:
            worker = begin("ours", site.start, server.port)
            while client.dbsize() < 5:
                time.sleep(0.05)
            time.sleep(1)
            server.freeze()
            time.sleep(1)  # what was leased is crawled
            frozen = time.time()
            time.sleep(3)
            thawed = time.time()
            server.resume()
            figures = figures_of(worker)
        late = [lag for moment, lag in figures["late"] if frozen <= moment <= thawed]
        rows.append({"held_ms": figures["held_ms"], "frozen_lag_ms": 1000 * max(late, default=0.002)})
    return [{name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}]


def scaling_table(rows: list[dict[str, float]]) -> str:
    """Markdown."""
    lines = ["| workers | pages/s | × one worker | processors in use |", "|---|---|---|---|"]
    lines.extend(
        f"| {row['workers']} | {row['pages_per_second']:.1f} | {row['times_one']:.2f} | {row['cpu_share']:.0%} |"
        for row in rows
    )
    return "\n".join(lines)


def held_table(rows: list[dict[str, float]]) -> str:
    """Markdown."""
    row = rows[0]
    return (
        "| longest call of ours, CPU ms | lag of the loop while Redis is frozen, ms |\n|---|---|\n"
        f"| {row['held_ms']:.1f} | {row['frozen_lag_ms']:.1f} |"
    )


def test_two_workers_are_twice_one() -> None:
    rows: list[dict[str, Any]] = measure_scaling(1, 12, (1, 2))
    print("\n" + scaling_table(rows))
    assert rows[1]["times_one"] >= 1.9


def main() -> None:
    """Both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    scaling, held = measure_scaling(options.runs, options.seconds), measure_held(options.runs, 2000)
    print(scaling_table(scaling), held_table(held), sep="\n\n")
    if options.json:
        options.json.write_text(json.dumps({"scaling": scaling, "held": held}, indent=1))


if __name__ == "__main__":
    main()
