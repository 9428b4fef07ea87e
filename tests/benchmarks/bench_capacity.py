"""How many pages per second one server carries: the exchange alone, from several processes at once, until it is full.

Each process is a worker without downloader that says what a crawl says, as fast as it is answered: pages of 50 links,
80 % of them seen before (or of 7, 40 %). Its admissions are made beforehand, so that few processors are enough.
`python -m tests.benchmarks.bench_capacity` prints the table; from it comes the capacity model of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import redis

from crawler.frontier import message as message_
from tests.benchmarks.bench_frontier import KINDS
from tests.benchmarks.driver import FIFTY, Driver, Mix, cpu
from tests.support.server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAGES_PER_CALL = 5
MIXES = {"50 links, 80 % seen": FIFTY, "7 links, 40 % seen": Mix(FIFTY.hosts, 7, 0.4)}
HOSTS = FIFTY.hosts


def drive(port: int, kind: str, mix: str, name: str, pages: int) -> None:
    """One process: prints "ready", waits for a line, says everything, prints pages, and moments of begin and end."""
    with redis.Redis(port=port) as client:
        driver = Driver(client, KINDS[kind], name=name, mix=MIXES[mix])
        driver.made = 10 * HOSTS
        # Every process finds pages of its own.
        driver.last = [driver.made - HOSTS + host + HOSTS * 10_000 * (1 + int(name[1:])) for host in range(HOSTS)]
        batches = []
        for _ in range(pages // PAGES_PER_CALL):
            entries = [entry for _ in range(PAGES_PER_CALL) for entry in driver.page(driver.rng.randrange(HOSTS))]
            batches.append((len(entries), message_.columns(entries)))
        print("ready", flush=True)
        sys.stdin.readline()
        began, done = time.time(), 0
        acks: list[Any] = []
        made: list[Any] = []
        with mock.patch.object(message_, "columns", return_value=made):
            for count, columns in batches:
                made[:] = columns
                leases = driver.say(outbox=[()] * count, acks=acks, want=PAGES_PER_CALL, ahead=5).leases
                acks = [(lease.id, count, "", "", b"") for lease in leases]
                done += PAGES_PER_CALL
    print(json.dumps({"pages": done, "began": began, "ended": time.time()}), flush=True)


def load(kind: str, mix: str, workers: int, pages: int) -> dict[str, float]:
    """Pages per second of all processes together, and how much of its core the server used meanwhile."""
    with RedisServer() as server, server.client() as client:
        Driver(client, KINDS[kind]).fill(10 * HOSTS)
        words = [sys.executable, "-m", "tests.benchmarks.bench_capacity", "--drive", str(server.port), kind, mix]
        start = partial(subprocess.Popen, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        crew = [start([*words, f"w{number}", str(pages)]) for number in range(workers)]
        for process in crew:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
        used, began = cpu(client), time.time()
        for process in crew:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        rows = [json.loads(process.communicate(timeout=600)[0]) for process in crew]
        used, took = cpu(client) - used, time.time() - began
    total = sum(row["pages"] for row in rows)
    took = min(took, max(row["ended"] for row in rows) - min(row["began"] for row in rows))
    return {"pages_per_second": total / took, "server_us_per_page": 1e6 * used / total, "server_use": used / took}


def measure(runs: int, pages: int, crews: tuple[int, ...] = (1, 2)) -> list[dict[str, Any]]:
    """Medians; everything in turn in each run."""
    found: dict[tuple[str, str, int], list[dict[str, float]]] = {}
    for _ in range(runs):
        for kind in KINDS:
            for mix in MIXES:
                for workers in crews:
                    found.setdefault((kind, mix, workers), []).append(load(kind, mix, workers, pages))
    return [
        {
            "dupefilter": kind, "mix": mix, "processes": workers,
            **{name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]},
        }
        for (kind, mix, workers), rows in found.items()
    ]  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| dupefilter | page | processes | pages/s | server CPU µs/page | server's core in use |",
        "|---" * 6 + "|",
    ]
    lines.extend(
        f"| {row['dupefilter']} | {row['mix']} | {row['processes']} | {row['pages_per_second']:.0f} "
        f"| {row['server_us_per_page']:.0f} | {row['server_use']:.0%} |"
        for row in rows
    )
    return "\n".join(lines)


def model(rows: list[dict[str, Any]]) -> str:
    """Markdown: what one core carries by its time per page, and servers for rates of crawls, at 70 % of a core each."""
    lines = ["| dupefilter | page | pages/s per core | shards for 1,000/s | 10,000/s | 100,000/s |", "|---" * 6 + "|"]
    for kind in KINDS:
        for mix in MIXES:
            found = [row for row in rows if (row["dupefilter"], row["mix"]) == (kind, mix)]
            most = 1e6 / min(row["server_us_per_page"] for row in found)
            shards = [-(-pages // round(0.7 * most)) for pages in (1000, 10_000, 100_000)]
            lines.append(f"| {kind} | {mix} | {most:.0f} | {' | '.join(map(str, shards))} |")
    return "\n".join(lines)


def test_a_server_is_filled_by_few_processes() -> None:
    row = load("compact 1e-7", "50 links, 80 % seen", 2, 1000)
    print(f"\n{row}")
    assert row["pages_per_second"] > 0


def main() -> None:
    """Measures, or is one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drive", nargs=5, metavar=("PORT", "KIND", "MIX", "NAME", "PAGES"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.drive:
        port, kind, mix, name, pages = options.drive
        drive(int(port), kind, mix, name, int(pages))
        return
    rows = measure(options.runs, options.pages)
    print(table(rows), model(rows), sep="\n\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
