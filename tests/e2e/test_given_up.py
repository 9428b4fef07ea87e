"""A host that never answers: it does not keep the crawl alive, and what was queued for it can be had later."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis as redis_py

from crawler.frontier.control import Control
from crawler.frontier.deadletters import DeadLetters
from crawler.frontier.seedkey import SeedKey
from tests.integration import frontier_spiders
from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy
from tests.support.server import free_port

URLS = 60
PAGES: dict[str, str | Answer] = {f"/{n}": "<title>page</title>" for n in range(URLS)}


@pytest.mark.slow
def test_a_dead_host_is_given_up_and_nothing_of_it_is_lost(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    port = free_port("127.0.0.2")
    settings = {
        "DOWNLOAD_DELAY": "0", "FRONTIER_HOST_GIVE_UP": "1", "FRONTIER_BACKOFF": "0.1", "FRONTIER_BACKOFF_MAX": "0.3",
        "METRICS_ENABLED": "0", "FRONTIER_DEAD_MAX": "10",
    }  # fmt: skip
    env = project_env(redis_url, tmp_path, **settings)
    modules = ["-s", f"SPIDER_MODULES={frontier_spiders.__name__}"]
    control = Control(redis, "{crawler:plain:0}", SeedKey("plain:start_urls", "list"))
    dead = DeadLetters(control)

    def crawl() -> str:
        done = run_scrapy(["crawl", "plain", *modules], env, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stderr

    with Pages(PAGES) as good:
        control.seeds.push(redis, [(f"{good.url}/{n}".encode(), 0) for n in range(URLS)])
        control.seeds.push(redis, [(f"http://127.0.0.2:{port}/{n}".encode(), 0) for n in range(URLS)])
        log = crawl()
        assert set(good.hits) >= set(PAGES)
    assert "127.0.0.2 is given up" in log
    letters = list(dead())
    assert {letter.url for letter in letters} == {f"http://127.0.0.2:{port}/{n}" for n in range(URLS)}
    given_up = sum("given up" in letter.reason for letter in letters)
    assert given_up > URLS // 2
    assert control.status()["hosts_given_up"] == 1

    with Pages(PAGES, "127.0.0.2", port) as back:
        run_scrapy(["frontier", "requeue", "plain", *modules], env)
        crawl()
        assert set(back.hits) >= set(PAGES)
    assert len(dead) == 0
    assert control.status()["hosts_given_up"] == 0
