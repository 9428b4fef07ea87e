"""DEDUP_FORGET_FAILED: a page that failed for good is tried again when a later page links to it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy, start_scrapy
from tests.support.server import wait_for


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


class Held(Pages):
    """Pages of which the first one comes when `held` is set."""

    def __init__(self, pages: dict[str, str | Answer]) -> None:
        super().__init__(pages)
        self.held = threading.Event()

    def answer(self, path: str) -> Answer:
        if path == "/0":
            self.held.wait(60)
        time.sleep(0.1)  # as long as pages take: one worker does not do them all
        return super().answer(path)


@pytest.mark.parametrize(
    "settings",
    [
        {"DUPEFILTER_CLASS": "crawler.dedup.CompactDupeFilter", "FRONTIER_SHARDS": "3", "DEDUP_WINDOW": "1h"},
        pytest.param({"DUPEFILTER_CLASS": "crawler.dedup.LayeredDupeFilter"}, marks=pytest.mark.slow),
        pytest.param(
            {"DUPEFILTER_CLASS": "crawler.dedup.ExactDupeFilter", "DEDUP_WINDOW": "1h"}, marks=pytest.mark.slow
        ),
    ],
)
def test_links_that_other_workers_know_and_links_that_redirect_try_again(
    redis_url: str, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Every page links to /go, which leads to a page that always fails; by then each worker knows /go to be seen."""
    count = 40
    pages: dict[str, str | Answer] = {
        f"/{n}": "<a href='/go'>x</a>" + "".join(f"<a href='/{n + step}'>x</a>" for step in range(1, 9))
        for n in range(count)
    }
    pages |= {f"/{count + step}": "end" for step in range(8)}
    pages |= {"/bad": Answer("broken", status=500), "/go": Answer("", status=302, headers={"Location": "/bad"})}
    settings = settings | {
        "DEDUP_FORGET_FAILED": "1", "RETRY_TIMES": "0", "FRONTIER_ORDER": "fifo", "FRONTIER_BACKOFF": "0",
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    site = Held(pages)
    with site:
        env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", CONCURRENT_REQUESTS_PER_DOMAIN="1")
        crawl = ["crawl", "site", "-a", f"start={site.url}/0", *words]
        workers = [
            start_scrapy(crawl, {**env, "WORKER_NAME": name, "USER_AGENT": name}, tmp_path / f"{name}.log")
            for name in ("w1", "w2")
        ]
        paths = [tmp_path / f"{name}.log" for name in ("w1", "w2")]
        wait_for(lambda: all(" run 1 as " in log.read_text() for log in paths), "both workers are there", 30)
        site.held.set()
        wait_for(lambda: all(worker.poll() is not None for worker in workers), "both workers end", 60)
        agents = {request["user-agent"] for request in site.requests}
    logs = "".join(log.read_text() for log in paths)
    assert [worker.returncode for worker in workers] == [0, 0], logs
    assert agents == {"w1", "w2"}
    assert all(site.hits[f"/{n}"] == 1 for n in range(count + 8))
    assert site.hits["/go"] == site.hits["/bad"] > 1, "each later link tries again"
