"""A spider's own middlewares, pipelines and extensions add to the project's: naming one takes no guard away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis as redis_py
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from crawler import settings as page
from tests.support.pages import Pages
from tests.support.project import project_env, run_scrapy

SPIDER = """
import os

from scrapy import Spider

class Own:
    def process_request(self, request):
        request.headers["X-Own"] = "1"

    def process_item(self, item):
        return {**item, "own": 1}

class Shop(Spider):
    name = "shop"
    start_urls = [os.environ["SITE"]]
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {Own: 100},
        "SPIDER_MIDDLEWARES": {"scrapy.spidermiddlewares.depth.DepthMiddleware": None},
        "ITEM_PIPELINES": {Own: 100},
        "EXTENSIONS": {"scrapy.extensions.logstats.LogStats": None},
    }

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SPIDER)
    return tmp_path / "shop.py"


def test_they_add_to_the_projects(redis: redis_py.Redis, redis_url: str, shop: Path, tmp_path: Path) -> None:
    with Pages({"/": "<a href='/a'>a</a> <a href='http://169.254.169.254/'>cloud</a>", "/a": "a"}) as site:
        env = project_env(
            redis_url, tmp_path, SITE=f"{site.url}/", DOWNLOAD_DELAY="0", REDIS_PIPELINE_ENABLED="1",
            CRAWLER_ALLOW_PRIVATE="0", CRAWLER_PRIVATE_HOSTS="127.0.0.1", METRICS_PORT="0",
        )  # fmt: skip
        done = run_scrapy(["runspider", str(shop)], env)
        assert all(request["x-own"] == "1" for request in site.requests), done.stderr
    assert done.returncode == 0, done.stderr
    assert "Refused: 169.254.169.254" in done.stderr  # the guards
    for ours in ("Politeness", "StartOnce", "MetricsExtension"):
        assert f"{ours}'" in done.stderr
    for off in ("DepthMiddleware", "LogStats"):
        assert f"{off}'" not in done.stderr
    items = [json.loads(item) for item in redis.lrange("shop:items", 0, -1)]
    assert len(items) == 2
    assert all(item["own"] == 1 and item["fingerprint"] for item in items)


@pytest.mark.parametrize("name", ["DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS"])
def test_each_stands_there_by_the_name_that_scrapy_looks_for(name: str) -> None:
    """By another one a spider's own line for it would make a second one, and None would not switch it off."""
    for path in getattr(page, f"{name}_BASE"):
        assert global_object_name(load_object(path)) == path
