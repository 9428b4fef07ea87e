"""robots.txt is obeyed by every request, those included that waited for it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

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
        arguments += ["-s", "DOWNLOADER_MIDDLEWARES={}"]
    done = run_scrapy(arguments, env)
    report = books.report()
    assert report.count("robots") == 1, done.stderr
    assert len(report.fetched) == 6, done.stderr
    assert (report.count("private") > 0) == theirs


def test_robots_txt_that_comes_packed_is_readable_for_the_next_worker(redis_url: str, tmp_path: Path) -> None:
    rules = Answer(gzip.compress(b"User-agent: *\nDisallow: /"), headers={"Content-Encoding": "gzip"})
    with Pages({"/": "<title>forbidden</title>", "/robots.txt": rules}) as site:
        for run in ("first", "second"):
            env = project_env(redis_url, tmp_path, FRONTIER_RUN=run, DOWNLOAD_DELAY="0")
            done = run_scrapy(["crawl", "site", "-a", f"start={site.url}/"], env)
            assert done.returncode == 0, done.stderr
    assert site.hits == {"/robots.txt": 2}  # packed in spite of our wish: not kept
