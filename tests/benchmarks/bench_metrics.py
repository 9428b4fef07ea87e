"""What metrics cost: a worker with its endpoint scraped every second against one without.

Two ways. A scrape's own CPU time, from many of them on a worker that has nothing else to do: exact, since nothing else
disturbs it; a second of a busy worker has that much less for pages. And whole crawls in turns, scraped and off: pages/s
by the site's books and pages per second of the worker's CPU, the best of several, which a busy machine disturbs least.
"""

from __future__ import annotations

import threading
import time
import timeit
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.registry import CollectorRegistry

from crawler.metrics.instruments import Instruments
from tests.e2e.crew import Crew
from tests.site import Site, SiteProcess, plain
from tests.support.prometheus import get, targets
from tests.support.server import RedisServer, wait_for

PAGES, WARM_UP, ROUNDS = 1000, 100, 4
SCRAPES = 60


class Run(NamedTuple):
    """One crawl after its first pages."""

    rate: float  # pages/s
    cpu: float  # pages per second of CPU
    scrapes: int


def cpu_of(pid: int) -> float:
    """CPU seconds of a process's threads so far."""
    tasks = Path("/proc", str(pid), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def crawl(folder: Path, *, metrics: bool) -> Run:
    folder.mkdir()
    sd_file = folder / "targets.json"
    settings = {"METRICS_SD_FILE": str(sd_file), "METRICS_PORT": "0"} if metrics else {"METRICS_ENABLED": "0"}
    with RedisServer() as redis, SiteProcess(plain(pages=PAGES, robots=0)) as site:
        crew = Crew(site, redis.url, folder, CONCURRENT_REQUESTS="16", CONCURRENT_REQUESTS_PER_DOMAIN="16", **settings)
        crew.start("w")
        pid, over, scrapes = crew.workers["w"].pid, threading.Event(), [0]

        def scrape() -> None:
            while not over.wait(1):
                for address in targets(sd_file).values():
                    scrapes[0] += get(f"http://{address}/metrics").status == 200

        thread = threading.Thread(target=scrape, daemon=True)
        if metrics:
            thread.start()
        crew.fetched(WARM_UP)
        began, cpu = time.monotonic(), cpu_of(pid)
        wait_for(lambda: site.status()["fetched"] >= PAGES - 20, "most pages", 120, every=0.05)
        took, used = time.monotonic() - began, cpu_of(pid) - cpu
        over.set()
        crew.finish()
        fetched = PAGES - 20 - WARM_UP
        return Run(fetched / took, fetched / used, scrapes[0])


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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_crawls_scraped_and_off(tmp_path: Path) -> None:
    runs: dict[bool, list[Run]] = {True: [], False: []}
    for number in range(ROUNDS):
        for metrics in (True, False) if number % 2 else (False, True):
            runs[metrics].append(crawl(tmp_path / f"{number}-{metrics}", metrics=metrics))
    rate = {on: max(run.rate for run in found) for on, found in runs.items()}
    cpu = {on: max(run.cpu for run in found) for on, found in runs.items()}
    for on, found in runs.items():
        name = "scraped every second" if on else "off"
        figures = ", ".join(f"{run.rate:.0f} ({run.cpu:.0f})" for run in found)
        print(f"\n{name}: {rate[on]:.0f} pages/s, {cpu[on]:.0f} pages per CPU second; all runs {figures}", end="")
    print(f"\nratio of the best: {rate[True] / rate[False]:.3f} by the clock, {cpu[True] / cpu[False]:.3f} by CPU")
    assert all(run.scrapes >= 2 for run in runs[True]), "too short to be scraped every second"
    assert cpu[True] >= 0.98 * cpu[False]
