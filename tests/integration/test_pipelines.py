"""Items in a Redis list, the way scrapy-redis puts them there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis as redis_py

from tests.support.pages import Pages
from tests.support.project import project_env, run_scrapy
from tests.support.shops import quotes_site


@pytest.mark.parametrize(("key", "list_name"), [("", "quotes:items"), ("shop:%(spider)s", "shop:quotes")])
def test_items_go_into_the_list_and_the_feed(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path, key: str, list_name: str
) -> None:
    """By a line of ITEM_PIPELINES_BASE."""
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", WORKER_NAME="w1", REDIS_PIPELINE_ENABLED="1")
    with Pages(quotes_site(pages=2, per_page=3)) as site:
        done = run_scrapy(["crawl", "quotes", "-a", f"start={site.url}/", "-s", f"REDIS_ITEMS_KEY={key}"], env)
    assert done.returncode == 0, done.stderr
    stored = [json.loads(item) for item in redis.lrange(list_name, 0, -1)]
    feed = [json.loads(line) for line in (tmp_path / "items" / "quotes" / "w1.jsonl").read_text().splitlines()]
    assert len(stored) == 6
    assert sorted(stored, key=str) == sorted(feed, key=str)


def test_off_by_default(redis: redis_py.Redis, redis_url: str, tmp_path: Path) -> None:
    with Pages(quotes_site(pages=1)) as site:
        env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0")
        done = run_scrapy(["crawl", "quotes", "-a", f"start={site.url}/"], env)
    assert done.returncode == 0, done.stderr
    assert site.hits["/"] == 1
    assert not redis.exists("quotes:items")


def test_an_unknown_serializer_is_one_line(redis_url: str, tmp_path: Path) -> None:
    env = project_env(redis_url, tmp_path, REDIS_PIPELINE_ENABLED="1")
    done = run_scrapy(
        ["crawl", "quotes", "-a", "start=http://127.0.0.1:1/", "-s", "REDIS_ITEMS_SERIALIZER=no.such"], env
    )
    assert done.returncode != 0
    assert "REDIS_ITEMS_SERIALIZER=no.such: cannot be imported" in done.stderr
    assert "Traceback" not in done.stderr
