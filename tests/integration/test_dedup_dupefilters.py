"""Our dupefilters under each scheduler they may serve, when the server's reply gets lost, and on either backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from scrapy import Request, Spider
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import LifoMemoryQueue
from scrapy.utils.test import get_crawler
from scrapy_redis.scheduler import Scheduler as ScrapyRedisScheduler

from crawler.dedup import (
    BloomDupeFilter,
    CompactDupeFilter,
    ExactDupeFilter,
    LayeredDupeFilter,
    MemoryBloomDupeFilter,
)
from crawler.dedup.dupefilter import RedisDupeFilter
from crawler.errors import ConfigError, StoredDataError
from tests.support import seen
from tests.support.proxy import Proxy
from tests.support.server import RedisServer, wait_for

CLASSES = [BloomDupeFilter, ExactDupeFilter, CompactDupeFilter, LayeredDupeFilter]


class ByHost:
    """A fingerprinter for which a whole host is one page."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.split("/")[2].encode()


def make_crawler(url: str, dupefilter: type, **settings: Any) -> Crawler:
    crawler = get_crawler(
        Spider,
        {"REDIS_URL": url, "DUPEFILTER_CLASS": dupefilter, "BLOOM_CAPACITY": 1000, "DEDUP_MEMORY_SIZE": 0, **settings},
    )
    crawler.spider = crawler._create_spider("test")
    crawler.request_fingerprinter = ByHost()
    return crawler


def make(url: str, dupefilter: type[RedisDupeFilter], **settings: Any) -> RedisDupeFilter:
    made = dupefilter.from_crawler(make_crawler(url, dupefilter, **settings))
    made.open()
    return made


def page(number: int, path: str = "") -> Request:
    return Request(f"http://host{number}.example/{path}")


@pytest.mark.parametrize("dupefilter", [*CLASSES, MemoryBloomDupeFilter])
def test_under_scrapys_own_scheduler(redis_url: str, dupefilter: type[Any]) -> None:
    crawler = make_crawler(redis_url, dupefilter)
    made = dupefilter.from_crawler(crawler)
    scheduler = ScrapysScheduler(
        made, mqclass=LifoMemoryQueue, pqclass=ScrapyPriorityQueue, crawler=crawler, stats=crawler.stats
    )
    assert crawler.spider is not None
    scheduler.open(crawler.spider)
    assert [scheduler.enqueue_request(page(number % 3, str(number))) for number in range(6)] == [True] * 3 + [False] * 3
    assert crawler.stats is not None
    assert crawler.stats.get_value("dupefilter/filtered") == 3
    made.close("finished")


@pytest.mark.filterwarnings("ignore:Passing a 'spider' argument")  # scrapy-redis does
@pytest.mark.parametrize("persist", [True, False])
@pytest.mark.parametrize("dupefilter", CLASSES)
def test_under_scrapy_rediss_scheduler(redis: redis_py.Redis, redis_url: str, dupefilter: type, persist: bool) -> None:
    settings = {"SCHEDULER_DUPEFILTER_KEY": "%(spider)s:mine", "SCHEDULER_PERSIST": persist}
    crawler = make_crawler(redis_url, dupefilter, **settings)
    scheduler = ScrapyRedisScheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    assert [scheduler.enqueue_request(page(number % 3, str(number))) for number in range(6)] == [True] * 3 + [False] * 3
    assert {key.startswith(b"test:") for key in redis.scan_iter()} == {True}
    assert redis.exists("test:mine:dedup:meta")
    scheduler.close("finished")
    assert redis.exists("test:mine:dedup:meta") == persist
    scheduler.df.close()
    scheduler.server.close()


@pytest.fixture(scope="module")
def module_url() -> Iterator[str]:
    with seen.start("valkey+module") as server:
        yield server.url


@pytest.fixture
def proxy(redis_server: RedisServer, redis_url: str) -> Iterator[Proxy]:
    with Proxy(redis_server.port) as proxy:
        yield proxy


@pytest.mark.parametrize("window", ["", pytest.param("1h", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dupefilter", CLASSES)
def test_a_lost_reply_loses_no_page(proxy: Proxy, dupefilter: type[RedisDupeFilter], window: str) -> None:
    lose_replies(proxy, dupefilter, DEDUP_WINDOW=window)


@pytest.mark.slow
@pytest.mark.parametrize("dupefilter", [BloomDupeFilter, LayeredDupeFilter])
def test_a_lost_reply_of_a_native_filter_loses_no_page(module_url: str, dupefilter: type[RedisDupeFilter]) -> None:
    with redis_py.Redis.from_url(module_url) as client, Proxy(client.get_connection_kwargs()["port"]) as proxy:
        client.flushall()
        lose_replies(proxy, dupefilter, BLOOM_BACKEND="native")


def lose_replies(proxy: Proxy, dupefilter: type[RedisDupeFilter], **settings: Any) -> None:
    """Twenty times the server records a page and its answer gets lost: the page must count as not seen."""
    for trial in range(20):
        made = make(proxy.url, dupefilter, **settings)
        assert not made.request_seen(page(2 * trial))
        proxy.drop_reply_to(b"EVALSHA")
        assert not made.request_seen(page(2 * trial + 1))
        assert not proxy.armed
        assert made.request_seen(page(2 * trial)), "the next answer counts again"
        made.close()
    assert proxy.dropped == 20


@pytest.mark.parametrize("dupefilter", CLASSES)
def test_a_silent_server_costs_a_second_and_one_warning(
    proxy: Proxy, dupefilter: type[RedisDupeFilter], caplog: pytest.LogCaptureFixture
) -> None:
    made = make(proxy.url, dupefilter)
    proxy.freeze()
    begun = time.monotonic()
    with caplog.at_level(logging.WARNING):
        assert not any(made.request_seen(page(number)) for number in range(50))
    assert time.monotonic() - begun < 5, "two look-ups wait for a second each, the others not at all"
    assert len([record for record in caplog.records if record.name.startswith("crawler.dedup")]) == 1
    proxy.freeze(on=False)
    wait_for(lambda: not made.request_seen(page(100)) and made.request_seen(page(100)), "it remembers again")
    made.close()


def test_what_is_known_to_be_seen_is_not_asked_again_until_it_was_forgotten(
    redis: redis_py.Redis, proxy: Proxy
) -> None:
    made = make(proxy.url, ExactDupeFilter, DEDUP_MEMORY_SIZE=100)
    made.request_seen(page(1))
    asked = proxy.sent.count(b"EVALSHA")
    assert all(made.request_seen(page(1)) for _ in range(100))
    assert proxy.sent.count(b"EVALSHA") <= asked + 2, "once a second the server is asked all the same"
    made.clear(redis, made.base)
    made.request_seen(page(2))
    assert not made.request_seen(page(1))
    made.close()


@pytest.mark.parametrize(("size", "asked"), [(0, 20), (100, 0)])
def test_how_many_are_known_without_asking(redis: redis_py.Redis, proxy: Proxy, size: int, asked: int) -> None:
    made = make(proxy.url, ExactDupeFilter, DEDUP_MEMORY_SIZE=size)
    made.request_seen(page(1))
    before = proxy.sent.count(b"EVALSHA")
    assert all(made.request_seen(page(1)) for _ in range(20))
    assert asked <= proxy.sent.count(b"EVALSHA") - before <= asked + 2
    made.close()


@pytest.mark.parametrize(("size", "folded"), [(10, True), (100, False)])
def test_the_size_of_the_recent_layer(redis: redis_py.Redis, redis_url: str, size: int, folded: bool) -> None:
    made = make(redis_url, LayeredDupeFilter, DEDUP_RECENT_SIZE=size)
    assert not any(made.request_seen(page(number)) for number in range(30))
    assert ({*redis.keys("*:history:dedup:*")} > {*redis.keys("*:history:dedup:meta")}) == folded
    made.close()


def test_a_memory_that_is_full_is_said_once_and_loses_nothing(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    made = make(redis_url, BloomDupeFilter, BLOOM_CAPACITY=10, BLOOM_GROWTH=0)
    with caplog.at_level(logging.WARNING):
        assert not any(made.request_seen(page(number)) for number in range(30))
        assert all(made.request_seen(page(number)) for number in range(10))
    assert "is full" in caplog.text
    assert len(caplog.records) == 1
    made.close()


def test_a_compact_memory_honours_the_limit_too(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    made = make(redis_url, CompactDupeFilter, BLOOM_CAPACITY=10, BLOOM_GROWTH=0)
    assert not any(made.request_seen(page(number)) for number in range(30))
    assert [made.request_seen(page(number)) for number in range(12)] == [True] * 10 + [False] * 2
    assert "is full" in caplog.text
    made.close()


@pytest.mark.parametrize("other", [BloomDupeFilter, CompactDupeFilter, LayeredDupeFilter])
def test_another_class_refuses_at_open(redis_url: str, other: type[RedisDupeFilter]) -> None:
    make(redis_url, ExactDupeFilter).close()
    with pytest.raises(StoredDataError, match=r"DUPEFILTER_CLASS=.* is stored with exact;"):
        make(redis_url, other)


def test_a_malformed_key_is_one_line(redis_url: str) -> None:
    with pytest.raises(ConfigError, match=r"SCHEDULER_DUPEFILTER_KEY=%\(name\)s: may contain %\(spider\)s"):
        make(redis_url, BloomDupeFilter, SCHEDULER_DUPEFILTER_KEY="%(name)s")


# Backends -------------------------------------------------------------------------------------------------------------


def test_the_native_backend_is_taken_where_it_is_and_refused_where_it_is_not(redis_url: str) -> None:
    with pytest.raises(ConfigError, match="BLOOM_BACKEND=native: this server has no BF commands"):
        make(redis_url, BloomDupeFilter, BLOOM_BACKEND="native")
    with seen.start("valkey+module") as server, server.client() as client:
        made = make(server.url, BloomDupeFilter)
        assert [made.request_seen(page(1)), made.request_seen(page(1))] == [False, True]
        assert client.hget(f"{made.base}:dedup:meta", "kind") == b"native"
        made.close()
        with pytest.raises(StoredDataError, match=r"BLOOM_BACKEND=bitmap: .* with native;"):
            make(server.url, BloomDupeFilter, BLOOM_BACKEND="bitmap")
        made.clear(client, made.base)
        make(server.url, BloomDupeFilter, BLOOM_BACKEND="bitmap").close()
        make(server.url, BloomDupeFilter).close()  # auto opens what is stored
        with pytest.raises(StoredDataError, match=r"BLOOM_BACKEND=native: .* with bitmap;"):
            make(server.url, BloomDupeFilter, BLOOM_BACKEND="native")


@pytest.mark.parametrize("dupefilter", [BloomDupeFilter, LayeredDupeFilter])
def test_where_the_native_backend_cannot_err_so_little_auto_takes_bitmaps(
    module_url: str, dupefilter: type[RedisDupeFilter], caplog: pytest.LogCaptureFixture
) -> None:
    with redis_py.Redis.from_url(module_url) as client, caplog.at_level(logging.INFO):
        client.flushall()
        made = make(module_url, dupefilter, BLOOM_ERROR_RATE=1e-9)
        assert [made.request_seen(page(1)), made.request_seen(page(1))] == [False, True]
        assert client.hget(f"{made.base}:dedup:meta", "kind") in (b"bitmap", b"layered/bitmap")
        assert [record.message for record in caplog.records if "BLOOM_ERROR_RATE" in record.message] == [
            "The server's own Bloom filter cannot err as little as BLOOM_ERROR_RATE says: bitmaps are used"
        ]
        made.clear(client, made.base)
        with pytest.raises(ConfigError, match=r"BLOOM_ERROR_RATE=1e-09: the server's own filter errs on 1e-08 at best"):
            make(module_url, dupefilter, BLOOM_ERROR_RATE=1e-9, BLOOM_BACKEND="native")
        made.close()
