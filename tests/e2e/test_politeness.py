"""The pace of hosts as the site itself measures it, with several workers; the figures are printed (``-s``)."""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import redis as redis_py

from tests.e2e.crew import Crew
from tests.site import Site

Sites = Callable[..., Site]
HOSTS, PAGES, SLOW = 50, 500, 7
PACED = {"DOWNLOAD_DELAY": "1", "CONCURRENT_REQUESTS_PER_DOMAIN": "1", "METRICS_ENABLED": "0"}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def hits_by_host(site: Site) -> dict[int, list[float]]:
    """When each host was asked, robots.txt included."""
    found: dict[int, list[float]] = defaultdict(list)
    for hit in site.report().hits:
        found[hit.host].append(hit.time)
    return found


def test_three_workers_and_a_delay_of_a_second(site: Sites, redis_url: str, tmp_path: Path) -> None:
    books = site(pages=75, hosts=3, flaky=0.0)
    crew = Crew(books, redis_url, tmp_path, **PACED)
    crew.start("w1", "w2", "w3")
    crew.finish(120)
    crew.assert_complete()
    for host, times in hits_by_host(books).items():
        rate = (len(times) - 1) / (times[-1] - times[0])
        gap = min(later - earlier for earlier, later in pairwise(times))
        print(f"host {host}: {len(times)} requests, {rate:.3f}/s, smallest gap {gap:.3f} s")
        assert rate <= 1.05
        assert gap >= 0.95


def test_two_hosts_take_no_longer_than_with_plain_scrapy(site: Sites, redis_url: str, tmp_path: Path) -> None:
    took = {}
    for name, more in {"scrapy": {"FRONTIER": "memory"}, "frontier": {}}.items():
        books = site(pages=50, hosts=2, easy=True)
        (tmp_path / name).mkdir()
        crew = Crew(books, redis_url, tmp_path / name, spider="all_pages", **PACED, **more)
        crew.start("w1", RANDOMIZE_DOWNLOAD_DELAY="0")
        crew.finish(120)
        crew.assert_complete()
        times = sorted(hit.time for hit in books.report().hits)
        took[name] = times[-1] - times[0]
    print(f"2 hosts, 25 pages each: {took['frontier']:.1f} s, plain Scrapy {took['scrapy']:.1f} s")
    assert took["frontier"] <= 1.05 * took["scrapy"]


def test_a_host_that_answers_in_thirty_seconds_slows_nobody_else(
    site: Sites, redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    def rate(slow: bool) -> float:
        """Requests per second of all other hosts."""
        books = site(pages=PAGES, hosts=HOSTS, easy=True, robots=0)
        folder = tmp_path / str(slow)
        folder.mkdir()
        if slow:
            books.app.delays[SLOW] = 30.0
        settings = {**PACED, "DOWNLOAD_DELAY": "2", "FRONTIER_GRACE": "1", "FRONTIER_RUN": f"slow {slow}"}
        crew = Crew(books, redis_url, folder, spider="all_pages", ROBOTSTXT_OBEY="0", **settings)
        crew.start("w1", "w2", CONCURRENT_REQUESTS="16")
        others = {page for page in range(PAGES) if page % HOSTS != SLOW}
        crew.until(lambda: books.report().fetched >= others, "all other pages", 120)
        times = sorted(hit.time for hit in books.report().fetches if hit.host != SLOW)
        for name in crew.running() if slow else ():  # the slow host would take minutes
            crew.workers[name].send_signal(signal.SIGTERM)
        crew.finish(30)
        redis.flushall()  # what is left of it must not hinder the next
        return (len(times) - 1) / (times[-1] - times[0])

    without, beside = rate(False), rate(True)
    print(f"{HOSTS - 1} hosts: {without:.2f} requests/s, beside one that answers in 30 s {beside:.2f}")
    assert beside >= 0.95 * without


def test_files_are_charged_to_their_host(site: Sites, redis_url: str, tmp_path: Path) -> None:
    books = site(pages=10, easy=True, robots=0)
    settings = {**PACED, "DOWNLOAD_DELAY": "0.5", "TEST_FILES": str(tmp_path / "files")}
    crew = Crew(books, redis_url, tmp_path, spider="with_files", **settings)
    crew.start("w1", "w2")
    crew.finish(120)
    times = hits_by_host(books)[0]
    gap = min(later - earlier for earlier, later in pairwise(times))
    rate = (len(times) - 1) / (times[-1] - times[0])
    print(f"{len(times)} requests with files, {rate:.2f}/s, smallest gap {gap:.3f} s")
    assert books.report().count("private") == 10
    assert rate <= 1.05 / 0.5
    assert gap >= 0.95 * 0.5


def test_answers_from_the_http_cache_are_free(site: Sites, redis_url: str, tmp_path: Path) -> None:
    books = site(pages=15, easy=True, robots=0)
    settings = {**PACED, "TEST_CACHE": str(tmp_path / "cache"), "SCHEDULER_FLUSH_ON_START": "1"}
    crew = Crew(books, redis_url, tmp_path, spider="with_files", **settings)
    for name in ("first", "second"):
        crew.start(name)
        crew.finish(120)
    assert len(books.report().fetches) == 15, "the second crawl asked the site"
    took = [float(seconds) for seconds in re.findall(r"'elapsed_time_seconds': ([\d.]+)", crew.log("second"))]
    print(f"15 pages from the cache: {took[0]:.1f} s")
    assert took[0] < 8, "cached pages waited for their host's turn"
