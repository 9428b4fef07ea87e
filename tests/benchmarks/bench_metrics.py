"""What metrics cost: a worker with its endpoint scraped every second against one without.

Two ways. A scrape's own CPU time, from many of them on a worker that has nothing else to do: exact, since nothing else
disturbs it; a second of a busy worker has that much less for pages: this is what is judged. And one crawl by four
workers at once, two of them scraped and two off, compared by their pages per second of CPU: shown, and judged only
roughly, for two workers of equal work differ by some percent.
"""

from __future__ import annotations

import threading
import time
import timeit
from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from crawler.metrics.instruments import Instruments
from tests.e2e.crew import Crew
from tests.site import Site, SiteProcess, plain
from tests.support.prometheus import get, targets
from tests.support.server import RedisServer, wait_for

PAGES = 3000
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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_scraped_workers_are_as_fast_as_others(tmp_path: Path) -> None:
    sd_file, over, scrapes = tmp_path / "targets.json", threading.Event(), [0]
    on, off = ("on1", "on2"), ("off1", "off2")

    def scrape() -> None:
        while not over.wait(1):
            for address in targets(sd_file).values():
                scrapes[0] += get(f"http://{address}/metrics").status == 200

    with RedisServer() as redis, SiteProcess(plain(pages=PAGES, robots=0, latency=0.02)) as site:
        crew = Crew(site, redis.url, tmp_path, CONCURRENT_REQUESTS="16", CONCURRENT_REQUESTS_PER_DOMAIN="16")
        for one, other in zip(on, off, strict=True):
            crew.start(one, METRICS_SD_FILE=str(sd_file), METRICS_PORT="0")
            crew.start(other, METRICS_ENABLED="0")
        threading.Thread(target=scrape, daemon=True).start()

        def figures() -> dict[str, tuple[int, float]]:
            return {name: (crew.fetched_by(name), cpu_of(crew.workers[name].pid)) for name in on + off}

        wait_for(lambda: all(crew.fetched_by(name) > 20 for name in on + off), "all four are at work", 60)
        before = figures()
        crew.fetched(PAGES - 200, 300)
        after = figures()
        over.set()
        crew.finish(120)

    def pace(names: tuple[str, ...]) -> float:
        """Pages per second of CPU."""
        pages, cpu = (sum(after[name][part] - before[name][part] for name in names) for part in (0, 1))
        return pages / cpu

    for name in on + off:
        pages, cpu = (after[name][part] - before[name][part] for part in (0, 1))
        print(f"\n{name}: {pages} pages, {cpu:.2f} s of CPU, {pages / cpu:.1f} pages per CPU second", end="")
    print(f"\nscraped {scrapes[0]} times; ratio scraped : off {pace(on) / pace(off):.3f}")
    assert scrapes[0] > 10
    assert pace(on) >= 0.94 * pace(off)
