"""What metrics cost: a worker with its endpoint scraped every second against one without.

Two ways. A scrape's own CPU time, from many of them on a worker that has nothing else to do: exact, since nothing else
disturbs it; a second of a busy worker has that much less for pages. And whole crawls by one worker at full speed, with
and without, in turn: medians of their pages per second and of their CPU per page.
``python -m tests.benchmarks.bench_metrics --rounds 3 --pages 1500`` makes a short one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.registry import CollectorRegistry

from crawler.metrics.instruments import Instruments
from tests.benchmarks.bench_worker import plain_site
from tests.e2e.crew import Crew
from tests.site import Site, SiteProcess, plain
from tests.support.prometheus import get, targets
from tests.support.server import RedisServer, wait_for

SCRAPES = 60


def cpu_of(pid: int) -> float:
    """CPU seconds of a process's threads so far."""
    tasks = Path("/proc", str(pid), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@pytest.mark.slow
def test_a_scrape_takes_less_than_one_percent_of_a_second(tmp_path: Path) -> None:
    sd_file = tmp_path / "targets.json"
    with RedisServer() as redis, Site(plain(pages=50)) as site:
        settings = {
            "METRICS_SD_FILE": str(sd_file),
            "METRICS_PORT": "0",
            "DOWNLOAD_DELAY": "600",
            "ROBOTSTXT_OBEY": "0",
        }
        crew = Crew(site, redis.url, tmp_path, **settings)
        crew.start("w")
        crew.fetched(1)
        wait_for(lambda: targets(sd_file), "the endpoint is there", 30)
        (address,), pid = targets(sd_file).values(), crew.workers["w"].pid

        def used(scrapes: int) -> float:
            """CPU seconds while so many scrapes are made, far enough apart that each asks Redis anew."""
            before = cpu_of(pid)
            for _ in range(SCRAPES):
                if scrapes:
                    get(f"http://{address}/metrics")
                time.sleep(0.5)
            return cpu_of(pid) - before

        idle, scraped = used(0), used(SCRAPES)
        crew.workers["w"].terminate()
        crew.finish(20)
    cost = (scraped - idle) / SCRAPES
    instruments = Instruments(CollectorRegistry(), {"spider": "site"}, shared=True)
    response = timeit.timeit(lambda: instruments.response(200, 0.1), timer=time.process_time, number=20_000) / 20_000
    print(f"\na scrape: {1000 * cost:.1f} ms of CPU; a response: {1e6 * response:.1f} us")
    print(f"a worker that is scraped every second has {1 - cost:.4f} of it for pages")
    assert 0 < cost < 0.01
    assert response < 20e-6


def crawl(start: str, server: RedisServer, sd_file: Path, *, on: bool) -> dict[str, Any]:
    """One crawl by one worker; with `on` it has its endpoint, and is asked there every second."""
    over, scrapes = threading.Event(), [0]

    def scrape() -> None:
        while not over.wait(1):
            for address in targets(sd_file).values():
                with suppress(OSError):  # it has just ended
                    scrapes[0] += get(f"http://{address}/metrics").status == 200

    env = {
        "REDIS_URL": server.url,
        "CRAWLER_ENV_FILE": "",
        "METRICS_SD_FILE": str(sd_file),
        "METRICS_ENABLED": str(int(on)),
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.worker_job", "ours", start]
    with server.client() as client:
        client.flushall()
    asking = threading.Thread(target=scrape)
    asking.start()
    try:
        done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=600, check=False)
    finally:
        over.set()
        asking.join()
    assert done.returncode == 0, done.stderr[-2000:]
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures | {"scrapes": scrapes[0]}


def measure(folder: Path, pages: int, rounds: int) -> dict[bool, list[dict[str, Any]]]:
    """Crawls with and without metrics in turn (on, off, off, on), so that a drift of the machine hits both alike."""
    found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    with RedisServer() as server, SiteProcess(plain_site(pages)) as site:
        crawl(site.start, server, folder / "targets.json", on=False)  # the first one pays for cold caches
        for number in range(rounds):
            for on in (True, False) if number % 2 else (False, True):
                found[on].append(crawl(site.start, server, folder / "targets.json", on=on))
    return found


def report(found: dict[bool, list[dict[str, Any]]]) -> tuple[float, float]:
    """Ratios on : off of the medians, of pages per second and of CPU per page."""
    pace, cpu = (
        {on: statistics.median(row[name] for row in rows) for on, rows in found.items()}
        for name in ("pages_per_second", "cpu_ms_per_page")
    )
    for on, rows in found.items():
        each = ", ".join(f"{row['pages_per_second']:.0f}" for row in rows)
        print(f"metrics {'on' if on else 'off'}: {pace[on]:.0f} pages/s of {each}; {cpu[on]:.3f} ms of CPU per page")
    ratios = pace[True] / pace[False], cpu[True] / cpu[False]
    print(f"scraped {sum(row['scrapes'] for row in found[True])} times; on : off, pages/s {ratios[0]:.3f}", end=", ")
    print(f"CPU per page {ratios[1]:.3f}")
    return ratios


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_scraped_worker_is_as_fast_as_one_without_metrics(tmp_path: Path) -> None:
    found = measure(tmp_path, pages=3000, rounds=7)
    assert all(row["scrapes"] >= 3 for row in found[True])
    assert not any(row["scrapes"] for row in found[False])
    pace, cpu = report(found)
    assert pace >= 0.98
    assert cpu <= 1.02


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        report(measure(Path(temporary), arguments.pages, arguments.rounds))
