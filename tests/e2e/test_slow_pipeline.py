"""Backpressure: while a pipeline is slow, a worker fetches and leases no more than it may lose."""

from __future__ import annotations

import time
from pathlib import Path

import redis as redis_py

from crawler.keys import Keys
from tests.support.pages import Pages
from tests.support.project import project_env, start_scrapy
from tests.support.server import wait_for


def test_a_slow_pipeline_slows_leasing(redis: redis_py.Redis, redis_url: str, tmp_path: Path) -> None:
    limit, pages = 4, 60
    links = "".join(f"<a href='/{number}'>x</a>" for number in range(pages - 1))
    env = project_env(
        redis_url, tmp_path, DOWNLOAD_DELAY="0", CONCURRENT_REQUESTS=str(limit),
        CONCURRENT_REQUESTS_PER_DOMAIN=str(limit), WORKER_NAME="w1", GATE=str(tmp_path / "open"),
    )  # fmt: skip
    pipelines = ["-s", 'ITEM_PIPELINES={"tests.support.gate.Gate": 100}']
    with Pages({"/": links, **{f"/{number}": "page" for number in range(pages - 1)}}) as site:
        worker = start_scrapy(["crawl", "site", "-a", f"start={site.url}/", *pipelines], env, tmp_path / "log")

        def fetched() -> int:
            return sum(site.hits.values()) - site.hits["/robots.txt"]

        wait_for(lambda: fetched() == limit, "as many pages as may be lost", seconds=30)
        leases = []
        end = time.monotonic() + 1  # fifty times what a page takes
        while time.monotonic() < end:
            leases.append(redis.zcard(f"{Keys('crawler', 'site').frontier}:leases"))
            time.sleep(0.02)
        assert fetched() == limit
        assert max(leases) <= 3 * limit  # what it fetched, and what it would begin next
        (tmp_path / "open").touch()
        assert worker.wait(60) == 0, (tmp_path / "log").read_text()
    assert fetched() == pages
    assert len((tmp_path / "items" / "site" / "w1.jsonl").read_text().splitlines()) == pages
