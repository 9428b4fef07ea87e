"""DEDUP_FORGET_FAILED: a page that failed for good is tried again when a later page links to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy


@pytest.mark.parametrize(("forget", "times"), [("1", 2), pytest.param("0", 1, marks=pytest.mark.slow)])
def test_a_later_link_tries_again(redis_url: str, tmp_path: Path, forget: str, times: int) -> None:
    chain = "".join(f"<a href='/{n}'>x</a>" for n in ("bad", "one"))
    pages: dict[str, str | Answer] = {
        "/": chain, "/bad": Answer("broken", status=500), "/one": "<a href='/two'>x</a>", "/two": "<a href='/bad'>",
    }  # fmt: skip
    settings = {
        "DEDUP_FORGET_FAILED": forget, "DUPEFILTER_CLASS": "crawler.dedup.ExactDupeFilter", "RETRY_TIMES": "0",
        "FRONTIER_ORDER": "fifo", "FRONTIER_BACKOFF": "0",
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    with Pages(pages) as site:
        env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0.1")
        done = run_scrapy(["crawl", "site", "-a", f"start={site.url}/", *words], env)
    assert done.returncode == 0, done.stderr
    assert site.hits["/bad"] == times
