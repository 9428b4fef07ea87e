"""What metrics cost: a worker with its endpoint scraped every second against one without.

Two ways. A scrape's own CPU time, from many of them on a worker that has nothing else to do: exact, since nothing else
disturbs it; a second of a busy worker has that much less for pages. And a long crawl at full speed whose metrics are on
and off in turn: how its pages per second and its CPU per page compare.
``python -m tests.benchmarks.bench_metrics --pages 10000`` makes a short one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import timeit
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from crawler.metrics.instruments import Instruments
from tests.benchmarks.bench_worker import begin, figures_of, plain_site
from tests.benchmarks.turns import Turn, is_on
from tests.e2e.crew import Crew
from tests.site import Site, SiteProcess, plain
from tests.support.prometheus import get, targets
from tests.support.server import RedisServer, wait_for

SCRAPES = 60
TURN = 2.0  # seconds


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


def crawl(pages: int, folder: Path) -> tuple[list[Turn], int]:
    """One worker at full speed, metrics on (scraped each second) and off in turn: its turns, and how many scrapes."""
    sd_file, over, scrapes = folder / "targets.json", threading.Event(), [0]

    def scrape() -> None:
        while not over.wait(1 - time.time() % 1 + 0.05):
            for address in targets(sd_file).values() if is_on(TURN, time.time()) else ():
                with suppress(OSError):  # it has just ended
                    scrapes[0] += get(f"http://{address}/metrics").status == 200

    asking = threading.Thread(target=scrape)
    with RedisServer() as server, SiteProcess(plain_site(pages)) as site:
        asking.start()
        try:
            worker = begin("ours", site.start, server.port, METRICS_SD_FILE=str(sd_file), BENCH_TURNS=str(TURN))
            return [Turn(**turn) for turn in figures_of(worker)["turns"]], scrapes[0]
        finally:
            over.set()
            asking.join()


def compare(turns: Sequence[Turn], scrapes: int) -> tuple[float, float]:
    """Ratios on : off of pages per second and of CPU per page: medians of turns between two of the other kind each.

    A machine that changes its pace slowly changes all three.
    """
    paces, costs = [], []
    for before, turn, after in zip(turns, turns[1:], turns[2:], strict=False):
        sign = 1 if turn.on else -1
        around = before.pages + after.pages
        paces.append((turn.pages / turn.seconds / (around / (before.seconds + after.seconds))) ** sign)
        costs.append((turn.cpu / turn.pages / ((before.cpu + after.cpu) / around)) ** sign)
    pace, cost = statistics.median(paces), statistics.median(costs)
    spread = statistics.stdev(costs) / len(costs) ** 0.5
    print(
        f"\n{len(turns)} turns of {TURN:g} s, {sum(turn.pages for turn in turns)} pages, {scrapes} scrapes; on : off, ",
        end="",
    )
    print(f"pages/s {pace:.3f}, CPU per page {cost:.3f} (standard error {spread:.3f})")
    return pace, cost


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_scraped_worker_is_as_fast_as_one_without_metrics(tmp_path: Path) -> None:
    turns, scrapes = crawl(40_000, tmp_path)
    assert len(turns) >= 30
    assert scrapes >= 0.7 * len(turns)  # two in each turn that has any
    pace, cost = compare(turns, scrapes)
    assert pace >= 0.98
    assert cost <= 1.02


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=40_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        compare(*crawl(arguments.pages, Path(temporary)))
