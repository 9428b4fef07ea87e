"""Where requests come from besides pages: start(), idle handlers, and what happens when those fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from redis import Redis

from tests.e2e.crew import TEST_SPIDERS, Crew
from tests.site import Site
from tests.support.project import project_env, run_scrapy


def test_an_idle_handler_gets_its_turn_after_each_batch(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    pages = site(pages=2, easy=True)
    crew = Crew(pages, redis_url, tmp_path, spider="idle_batches")
    crew.start("w")
    crew.finish()
    report = pages.report()
    assert (len(report.fetches), report.count("unknown")) == (1, 5)  # the start page and five batches


def test_a_start_that_failed_runs_again_when_a_worker_joins(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    pages, broken = site(pages=2, easy=True), tmp_path / "broken"
    broken.touch()
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", CONCURRENT_REQUESTS_PER_DOMAIN="8")
    arguments = ["-a", f"start={pages.start}", "-a", f"broken={broken}", "-s", f"SPIDER_MODULES={TEST_SPIDERS}"]
    stopped = run_scrapy(["crawl", "broken_start", *arguments, "-s", "CLOSESPIDER_PAGECOUNT=1"], env)
    assert "the list of pages is not to be had" in stopped.stderr
    broken.unlink()
    resumed = run_scrapy(["crawl", "broken_start", *arguments], env)
    assert resumed.returncode == 0, resumed.stderr
    assert pages.report().count("unknown") == 10


def test_a_finished_run_does_not_empty_what_other_spiders_share(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    pages = site(pages=10, easy=True)
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", DEDUP_SCOPE="all", SCHEDULER_PERSIST="0")
    crawl = ["crawl", "site", "-a", f"start={pages.start}"]
    first = run_scrapy(crawl, env)
    assert "What was seen is kept: DEDUP_SCOPE=all shares it" in first.stderr
    again = run_scrapy(crawl, env)
    assert again.returncode == 0, again.stderr
    times = pages.report().times
    assert times[0] == 2  # a start request
    assert {times[page] for page in range(1, 10)} == {1}


def test_two_spiders_of_one_scope_share_the_pages_of_a_site(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    """At the same time, one of them leaving nothing behind at its end: each page is fetched by one of them, once."""
    pages = site(pages=80, easy=True)
    shared = {"DEDUP_SCOPE": "all", "DOWNLOAD_DELAY": "0.1"}  # slow enough that one begins long before the other ends
    crews = [
        Crew(pages, redis_url, tmp_path, spider=spider, SCHEDULER_PERSIST=persist, **shared)
        for spider, persist in (("long_start", "0"), ("site", "1"))
    ]
    for number, crew in enumerate(crews):
        crew.start(f"w{number}")
    for crew in crews:
        crew.finish()
    report = pages.report()
    assert report.missed == []
    assert set(report.twice) <= {0}  # the start of one, and a page to the other
    assert min(crew.fetched_by(f"w{number}") for number, crew in enumerate(crews)) > 1  # more than its start page


def test_a_finished_run_frees_what_it_has_seen_where_nothing_shall_persist(
    site: Callable[..., Site], redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    pages, left = site(pages=5, easy=True), []
    for persist in ("1", "0"):
        env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", SCHEDULER_PERSIST=persist)
        done = run_scrapy(["crawl", "site", "-a", f"start={pages.start}"], env)
        assert done.returncode == 0, done.stderr
        left.append([key for key in redis.scan_iter() if b":dedup:" in key])
    assert left[0], "kept for the next run"
    assert left[1] == []
