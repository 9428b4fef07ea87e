"""What metrics cost: one worker with its endpoint scraped every second against one without, turn and turn about.

Two figures: pages/s as the site saw them, which on a busy machine is mostly noise, and pages per second of the worker's
own CPU time, which is not. Work without waiting is bound by the latter, so that is the one judged.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.crew import Crew
from tests.site import SiteProcess, plain
from tests.support.prometheus import get, targets
from tests.support.server import RedisServer, wait_for

PAGES, WARM_UP, ROUNDS = 1000, 100, 4
_TICK = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    """One crawl after its first pages."""

    rate: float  # pages/s
    cpu: float  # pages per second of CPU
    scrapes: int


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


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
@pytest.mark.timeout(900)
def test_metrics_cost_less_than_two_percent(tmp_path: Path) -> None:
    runs: dict[bool, list[Run]] = {True: [], False: []}
    for number in range(ROUNDS):
        for metrics in (True, False) if number % 2 else (False, True):
            runs[metrics].append(crawl(tmp_path / f"{number}-{metrics}", metrics=metrics))
    rate = {on: statistics.median(run.rate for run in found) for on, found in runs.items()}
    cpu = {on: statistics.median(run.cpu for run in found) for on, found in runs.items()}
    for on, found in runs.items():
        name = "scraped every second" if on else "off"
        figures = ", ".join(f"{run.rate:.0f} ({run.cpu:.0f})" for run in found)
        print(f"\n{name}: {rate[on]:.0f} pages/s, {cpu[on]:.0f} pages per CPU second; runs {figures}", end="")
    print(f"\nratio: {rate[True] / rate[False]:.3f} by the clock, {cpu[True] / cpu[False]:.3f} by CPU")
    assert all(run.scrapes >= 2 for run in runs[True]), "too short to be scraped every second"
    assert cpu[True] >= 0.98 * cpu[False]
