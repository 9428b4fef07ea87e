"""A project written for scrapy-redis runs on the shared frontier when its settings change, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler.commands import legacy, precheck
from crawler.errors import ConfigError
from tests.support.pages import Pages
from tests.support.project import PROJECT, project_env, start_scrapy
from tests.support.server import wait_for

# A project as one writes it from scrapy-redis's documentation: three kinds of spiders, items into Redis.
SPIDERS = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider


class Fed(RedisSpider):
    name = "fed"
    redis_key = "fed:start_urls"
    max_idle_time = 1

    def parse(self, response):
        yield {"url": response.url, "spider": self.name}


class FedCrawl(RedisCrawlSpider):
    name = "fedcrawl"
    redis_key = "fedcrawl:start_urls"
    max_idle_time = 1
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, *args, **kwargs):
        domain = kwargs.pop("domain", "")
        self.allowed_domains = list(filter(None, domain.split(",")))
        super().__init__(*args, **kwargs)

    def parse_page(self, response):
        return {"url": response.url, "spider": self.name}


class Plain(CrawlSpider):
    name = "plain"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, start, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [start]

    def parse_page(self, response):
        yield {"url": response.url, "spider": self.name}
"""
PIPELINES = """
class Stamp:
    def process_item(self, item):
        item["crawled"] = True
        return item
"""
BEFORE = """
SPIDER_MODULES = ["example.spiders"]
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.SpiderPriorityQueue"
ITEM_PIPELINES = {"example.pipelines.Stamp": 300, "scrapy_redis.pipelines.RedisPipeline": 400}
DOWNLOAD_DELAY = 0
"""
AFTER = "from crawler.settings import *\n" + "".join(
    f"{line}\n" for line in BEFORE.splitlines() if not line.startswith(("SCHEDULER =", "DUPEFILTER_CLASS ="))
)
SITE = {
    "/": "<a href='/a'>a</a> <a href='/b?utm_source=x'>b</a>",
    "/a": "<a href='/b'>b</a>",
    "/b": "",
    "/b?utm_source=x": "",
}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    package = tmp_path / "example"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "spiders.py").write_text(SPIDERS)
    (package / "pipelines.py").write_text(PIPELINES)
    (package / "settings.py").write_text(AFTER)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = example.settings\n")
    return tmp_path


def test_only_the_settings_change(example: Path, redis: redis_py.Redis, redis_url: str) -> None:
    env = project_env(redis_url, example, PYTHONPATH=str(PROJECT), WORKER_NAME="w1")
    with Pages(dict(SITE)) as site:
        redis.lpush("fed:start_urls", f"{site.url}/a", json.dumps({"url": f"{site.url}/b", "meta": {"job": 1}}))
        redis.lpush("fedcrawl:start_urls", f"{site.url}/")
        spiders = [["fed"], ["fedcrawl", "-a", "domain=127.0.0.1"], ["plain", "-a", f"start={site.url}/"]]
        logs = [example / f"{words[0]}.log" for words in spiders]
        workers = [
            start_scrapy(["crawl", *words], env, log, cwd=example) for words, log in zip(spiders, logs, strict=True)
        ]
        wait_for(lambda: all(worker.poll() is not None for worker in workers), "three crawls", seconds=60)
    for log in logs:
        text = log.read_text()
        assert "Traceback" not in text, text
        assert "SCHEDULER_QUEUE_CLASS has no effect on the shared frontier: set FRONTIER_ORDER to" in text
    assert [worker.returncode for worker in workers] == [0, 0, 0]

    def items(spider: str) -> list[str]:
        stored = [json.loads(item) for item in redis.lrange(f"{spider}:items", 0, -1)]
        assert all(item["crawled"] for item in stored)
        return sorted(item["url"].removeprefix(site.url).partition("?")[0] for item in stored)

    assert items("fed") == ["/a", "/b"]
    assert items("fedcrawl") == items("plain") == ["/a", "/b"]  # once, under its two spellings
    assert redis.exists("{crawler:plain:0}:meta") == 1  # on our frontier, and none of scrapy-redis's keys
    assert not redis.exists("plain:requests", "plain:dupefilter", "fed:start_urls", "fedcrawl:start_urls")


BLOOMFILTER = {
    "DUPEFILTER_CLASS": ("scrapy_redis_bloomfilter.dupefilter.RFPDupeFilter", "crawler.dedup.BloomDupeFilter"),
    "SCHEDULER": ("scrapy_redis_bloomfilter.scheduler.Scheduler", "crawler.frontier.Scheduler"),
}


@pytest.mark.parametrize("name", BLOOMFILTER)
def test_classes_of_scrapy_redis_bloomfilter_are_named(name: str) -> None:
    theirs, ours = BLOOMFILTER[name]
    settings = Settings()
    settings.setmodule("crawler.settings")
    settings.set(name, theirs)
    with pytest.raises(ConfigError) as caught:
        precheck.check(settings)
    assert str(caught.value) == f"{name}={theirs}: is scrapy-redis-bloomfilter's; use {ours} (docs/migrating.md)"


def test_its_bits_are_translated(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(
        {"SCHEDULER": "crawler.frontier.Scheduler", "BLOOMFILTER_BIT": 30, "BLOOMFILTER_HASH_NUMBER": 6}
    )
    legacy.warn(settings)
    assert len(caplog.messages) == 1
    assert "2^30 bits are room for about 3.7e+07 pages at an error rate of 1e-06" in caplog.text


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("SCHEDULER_QUEUE_KEY", "set REDIS_KEY_PREFIX instead"),
        ("SCHEDULER_SERIALIZER", "remove it (requests are stored as data, see docs/requests.md)"),
        ("SCHEDULER_IDLE_BEFORE_CLOSE", "set FRONTIER_IDLE instead"),
        ("SCHEDULER_DUPEFILTER_CLASS", "set DUPEFILTER_CLASS instead"),
        ("DUPEFILTER_KEY", "set DEDUP_SCOPE instead"),
        ("REDIS_ENCODING", "remove it (seeds are UTF-8)"),
    ],
)
def test_what_has_no_effect_is_named_but_not_to_its_own_scheduler(
    name: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    legacy.warn(Settings({"SCHEDULER": "scrapy_redis.scheduler.Scheduler", name: "x"}))
    assert not caplog.messages
    legacy.warn(Settings({"SCHEDULER": "crawler.frontier.Scheduler", name: "x"}))
    assert caplog.messages == [f"{name} has no effect on the shared frontier: {remedy}; see docs/migrating.md"]
