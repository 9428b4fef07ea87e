"""A Bloom filter that may not grow and is full: the crawl stops loudly, loses nothing, and goes on with more room."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.e2e.crew import Crew
from tests.site import Site
from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy
from tests.support.server import wait_for


def test_a_full_memory_stops_the_crawl_and_a_larger_one_goes_on(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    pages = site(pages=200, shape="tree", easy=True)
    env = project_env(
        redis_url,
        tmp_path,
        DOWNLOAD_DELAY="0",
        CONCURRENT_REQUESTS_PER_DOMAIN="8",
        BLOOM_GROWTH="0",
        BLOOM_CAPACITY="90",
    )
    crawl = ["crawl", "site", "-a", f"start={pages.start}"]
    full = run_scrapy(crawl, env)
    assert full.returncode == 1
    lines = [line for line in full.stderr.splitlines() if "BLOOM_CAPACITY=90" in line]
    assert len(lines) == 1, full.stderr
    assert "raise BLOOM_CAPACITY or set BLOOM_GROWTH=1" in lines[0]
    assert "bloom_full" in full.stderr
    assert len(pages.report().fetched) < 200

    more = run_scrapy(crawl, env | {"BLOOM_CAPACITY": "1000"})
    assert more.returncode == 0, more.stderr
    report = pages.report()
    assert report.missed == []
    assert max(report.times.values()) == 2  # parents whose links found no room ran again, once


def test_every_worker_ends_when_the_memory_is_full(site: Callable[..., Site], redis_url: str, tmp_path: Path) -> None:
    crew = Crew(
        site(pages=300, shape="tree", easy=True, latency=0.05), redis_url, tmp_path,
        BLOOM_GROWTH="0", BLOOM_CAPACITY="100", FRONTIER_RUN="full",
    )  # fmt: skip
    crew.start("w1", "w2")
    wait_for(lambda: not crew.running(), "both workers end", 60)
    assert {worker.returncode for worker in crew.workers.values()} == {1}
    assert "raise BLOOM_CAPACITY" in crew.log("w1") + crew.log("w2")


@pytest.mark.slow
def test_a_worker_stopped_while_the_memory_is_full_leaves_its_work_to_the_others(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    capacity = 150
    crew = Crew(
        site(pages=400, shape="tree", easy=True, latency=0.2), redis_url, tmp_path,
        BLOOM_GROWTH="0", BLOOM_CAPACITY=str(capacity), CONCURRENT_REQUESTS="2",
    )  # fmt: skip
    crew.start("w1", "w2")
    with redis.Redis.from_url(redis_url) as client:
        crew.until(lambda: any(client.hexists(key, "full") for key in client.scan_iter("*:meta")), "the memory is full")
    crew.workers["w1"].send_signal(signal.SIGTERM)
    assert crew.workers["w1"].wait(30) == 0
    assert len(crew.site.report().fetched) < capacity - 20, "it was over before"
    assert crew.workers["w2"].wait(60) == 1
    assert "bloom_full" in crew.log("w2")
    assert len(crew.site.report().fetched) >= capacity - 10  # robots.txt forbids some


@pytest.mark.parametrize(("links", "fetched"), [(1000, 50), pytest.param(3000, 1, marks=pytest.mark.slow)])
def test_a_page_with_many_more_links_than_there_is_room_for(
    redis_url: str, tmp_path: Path, links: int, fetched: int
) -> None:
    """The links wait in the worker; what is queued is finished, unless too much waits. In any case it ends."""
    page = "".join(f"<a href='/{n}'>x</a>" for n in range(links))
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", BLOOM_GROWTH="0", BLOOM_CAPACITY="50")
    pages: dict[str, str | Answer] = {f"/{n}": "<title>page</title>" for n in range(links)}
    pages["/"] = page
    with Pages(pages) as site:
        full = run_scrapy(["crawl", "site", "-a", f"start={site.url}/", "-s", "ROBOTSTXT_OBEY=0"], env)
    assert full.returncode == 1
    assert "bloom_full" in full.stderr
    assert fetched <= len(site.hits) <= 51
