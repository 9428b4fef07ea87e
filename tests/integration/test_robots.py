"""robots.txt is obeyed by every request, those included that waited for it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import redis as redis_py
from scrapy.settings import default_settings

from tests.e2e.crew import TEST_SPIDERS
from tests.site import Site
from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy


@pytest.mark.parametrize("theirs", [False, True])
def test_what_waits_for_robots_txt_is_judged_by_it(
    theirs: bool, site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    """Six forbidden and six allowed requests at once, while robots.txt takes its time."""
    books = site(pages=20, easy=True, latency=0.3)
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", CONCURRENT_REQUESTS_PER_DOMAIN="16", CRAWLER_ENV_FILE="")
    arguments = ["crawl", "private", "-a", f"start={books.url}", "-s", f"SPIDER_MODULES={TEST_SPIDERS}"]
    if theirs:  # Scrapy's own: when this case no longer sees the race, crawler/robots.py has served its time
        arguments += ["-s", f"DOWNLOADER_MIDDLEWARES_BASE={json.dumps(default_settings.DOWNLOADER_MIDDLEWARES_BASE)}"]
    done = run_scrapy(arguments, env)
    report = books.report()
    assert report.count("robots") == 1, done.stderr
    assert len(report.fetched) == 6, done.stderr
    assert (report.count("private") > 0) == theirs


def test_robots_txt_is_kept_for_the_next_worker_if_that_can_read_it(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    rules = b"User-agent: *\nDisallow: /"
    packed = Answer(gzip.compress(rules), headers={"Content-Encoding": "gzip"})
    with Pages({"/": "<title>forbidden</title>", "/robots.txt": packed}) as site:

        def crawl(run: str) -> int:
            env = project_env(redis_url, tmp_path, FRONTIER_RUN=run, FRONTIER_ROBOTS_TTL="600", DOWNLOAD_DELAY="0")
            done = run_scrapy(["crawl", "site", "-a", f"start={site.url}/"], env)
            assert done.returncode == 0, done.stderr
            return site.hits["/robots.txt"]

        assert [crawl("first"), crawl("second")] == [1, 2], "packed in spite of our wish: not kept"
        site.pages["/robots.txt"] = Answer(rules, "text/plain")
        assert [crawl("third"), crawl("fourth")] == [3, 3]
        assert 0 < redis.ttl(f"{{crawler:site:0}}:robots:{site.url}") <= 600
        assert set(site.hits) == {"/robots.txt"}
