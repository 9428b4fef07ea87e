"""The Bloom filter on a real server: atomic, growing, and honest about its parameters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from crawler.dedup import Admission, BloomDupeFilter, kinds
from crawler.dedup.memory import SeenMemory, clear
from crawler.dedup.sizing import Sizing
from crawler.errors import ConfigError, StoredDataError
from tests.support.server import RedisServer

BASE = "{crawler:test:0}"


def fingerprints(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def memory(client: redis_py.Redis, capacity: int = 1000, error: float = 1e-4, *, growth: bool = True) -> SeenMemory:
    return SeenMemory(client, BASE, kinds.bitmap(Sizing(capacity, error), growth=growth))


class Fingerprinter:
    """Everything on one host is one page."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.split("/")[2].encode()


@pytest.fixture
def dupefilter(redis_url: str) -> Iterator[BloomDupeFilter]:
    dupefilter = make_dupefilter(redis_url)
    dupefilter.open()
    yield dupefilter
    dupefilter.close()


def make_dupefilter(url: str, **settings: Any) -> BloomDupeFilter:
    crawler = get_crawler(Spider, {"REDIS_URL": url, "BLOOM_CAPACITY": 1000, **settings})
    crawler.spider = crawler._create_spider("test")
    crawler.request_fingerprinter = settings.pop("fingerprinter", None) or crawler.request_fingerprinter
    if crawler.request_fingerprinter is None:
        from scrapy.utils.request import RequestFingerprinter

        crawler.request_fingerprinter = RequestFingerprinter()
    return BloomDupeFilter.from_crawler(crawler)


def test_an_element_is_new_once(redis: redis_py.Redis) -> None:
    seen = memory(redis)
    assert seen.add([b"a", b"b", b"a"]) == b"110"
    assert seen.add([b"b", b"c"]) == b"01"
    assert seen.has([b"a", b"b", b"c", b"d"]) == b"1110"
    assert seen.has([b"d"]) == b"0", "looking must not record"


def test_nothing_is_forgotten_while_layers_are_added(redis: redis_py.Redis) -> None:
    seen = memory(redis, capacity=100)
    for start in range(0, 2000, 250):
        assert seen.add(fingerprints(start, start + 250)).count(b"1") >= 249
    assert seen.has(fingerprints(0, 2000)) == b"1" * 2000
    blocks: Any = redis.hget(f"{BASE}:dedup:meta", "blocks")
    assert len(blocks.split(b",")) == 5  # 100 + 200 + 400 + 800 + 1600


def test_the_server_places_bits_where_positions_says(redis: redis_py.Redis) -> None:
    from crawler.dedup import positions

    seen = memory(redis, capacity=100_000)
    seen.add([b"a"])
    sizing = Sizing(100_000, 1e-4)
    item = positions.encode(b"a", sizing.shape)
    block = positions.block(item, sizing.blocks(0))
    segment, slot = divmod(block, sizing.slots)
    key: Any
    (key,) = redis.keys("*dedup:*:*:*")
    assert key.endswith(b":1:%d:%d" % divmod(segment, 256))
    expected = [slot * sizing.block_bytes * 8 + bit for bit in positions.bits(item, sizing.shape.lane_words)]
    value: Any = redis.get(key)
    assert [bit for bit in range(len(value) * 8) if value[bit // 8] >> (7 - bit % 8) & 1] == expected
    assert len(value) == sizing.slots * sizing.block_bytes, "a key is allocated whole"


@pytest.mark.parametrize("error", [1e-2, 1e-3])
def test_the_real_error_stays_within_the_configured_one(redis: redis_py.Redis, error: float) -> None:
    """Quick version of the benchmark: growth over three layers, then 100,000 fresh probes; the limit is 3 sigma."""
    seen = memory(redis, capacity=2000, error=error)
    for start in range(0, 14_000, 2000):
        seen.add(fingerprints(start, start + 2000))
    wrong = sum(
        seen.has(fingerprints(start, start + 5000)).count(b"1") for start in range(10**6, 10**6 + 100_000, 5000)
    )
    assert wrong <= 100_000 * error + 3 * (100_000 * error) ** 0.5
    assert wrong >= 100_000 * error * 0.5, "far below the configured error means wasted memory"


def test_eight_clients_adding_the_same_elements_get_new_once_each(redis_url: str) -> None:
    elements, verdicts = fingerprints(0, 6000), []

    def work(offset: int) -> None:
        with redis_py.Redis.from_url(redis_url) as client:
            seen = memory(client, capacity=500, error=1e-6)
            mine = elements[offset:] + elements[:offset]
            answer = b"".join(seen.add(mine[start : start + 100]) for start in range(0, 6000, 100))
            verdicts.append(dict(zip(mine, answer, strict=True)))

    threads = [threading.Thread(target=work, args=(750 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(verdicts) == 8
    assert {sum(verdict[element] == ord("1") for verdict in verdicts) for element in elements} == {1}


def test_without_growth_a_full_filter_refuses_and_remembers_nothing(redis: redis_py.Redis) -> None:
    seen = memory(redis, capacity=100, growth=False)
    assert seen.add(fingerprints(0, 150)) == b"1" * 100 + b"F" * 50
    assert seen.add(fingerprints(0, 150)) == b"0" * 100 + b"F" * 50
    raised = memory(redis, capacity=120, growth=False)
    assert raised.add(fingerprints(0, 150)) == b"0" * 100 + b"1" * 20 + b"F" * 30


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"capacity": 2000}, "BLOOM_CAPACITY=2000: .* with 1000;"),
        ({"error": 1e-3}, r"BLOOM_ERROR_RATE=0\.001: .* with 0\.0001;"),
        ({"capacity": 999, "growth": False}, "BLOOM_CAPACITY=999: .* with 1000;"),
    ],
)
def test_other_parameters_are_refused_naming_both_values(
    redis: redis_py.Redis, other: dict[str, Any], message: str
) -> None:
    memory(redis).prepare()
    with pytest.raises(StoredDataError, match=message):
        memory(redis, **other).prepare()


def test_another_layout_is_refused(redis: redis_py.Redis) -> None:
    memory(redis).prepare()
    redis.hset(f"{BASE}:dedup:meta", "layout", "1")
    with pytest.raises(StoredDataError, match=r"Bloom layout=2: .* with 1;"):
        memory(redis).add([b"a"])


def test_clear_leaves_no_key_and_the_next_filter_begins_a_new_epoch(redis: redis_py.Redis) -> None:
    seen = memory(redis, capacity=10_000)
    redis.set("bystander", 1)
    seen.add(fingerprints(0, 25_000))
    epoch: Any = redis.hget(f"{BASE}:dedup:meta", "id")
    clear(redis, BASE)
    assert redis.keys() == [b"bystander"]
    clear(redis, BASE)
    assert seen.add([b"1"]) == b"1"
    now: Any = redis.hget(f"{BASE}:dedup:meta", "id")
    assert now > epoch


def test_a_restarted_server_gives_the_same_answers() -> None:
    with RedisServer(appendonly=True) as server:
        with server.client() as client:
            memory(client).add(fingerprints(0, 3000))
            client.execute_command("WAITAOF", 1, 0, 5000)
        server.restart()
        with server.client() as client:
            assert memory(client).has(fingerprints(0, 3000)) == b"1" * 3000
            assert memory(client).has(fingerprints(3000, 6000)).count(b"1") <= 3


def test_a_big_filter_takes_no_memory_until_it_is_used(redis: redis_py.Redis) -> None:
    before = redis.info("memory")["used_memory"]
    memory(redis, capacity=1_000_000_000, error=1e-6).add(fingerprints(0, 10))
    assert redis.info("memory")["used_memory"] - before < 1_000_000


# The dupefilter -------------------------------------------------------------------------------------------------------


def test_the_dupefilter_sees_a_request_once(dupefilter: BloomDupeFilter) -> None:
    assert not dupefilter.request_seen(Request("http://a.example/1"))
    assert dupefilter.request_seen(Request("http://a.example/1"))
    assert not dupefilter.request_seen(Request("http://a.example/2"))
    assert isinstance(dupefilter.admission(BASE), Admission)


def test_the_crawlers_fingerprinter_decides(redis_url: str) -> None:
    dupefilter = make_dupefilter(redis_url, fingerprinter=Fingerprinter())
    assert not dupefilter.request_seen(Request("http://a.example/1"))
    assert dupefilter.request_seen(Request("http://a.example/2"))
    dupefilter.close()


@pytest.mark.filterwarnings("ignore:Passing a 'spider' argument")  # scrapy-redis does
def test_scrapy_redis_makes_and_clears_it(redis: redis_py.Redis, redis_url: str) -> None:
    from scrapy_redis.scheduler import Scheduler

    crawler = get_crawler(
        Spider,
        {
            "REDIS_URL": redis_url,
            "DUPEFILTER_CLASS": BloomDupeFilter,
            "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:mine",
            "SCHEDULER_PERSIST": False,
        },
    )
    crawler.spider = crawler._create_spider("test")
    crawler.request_fingerprinter = Fingerprinter()
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    assert scheduler.enqueue_request(Request("http://a.example/1"))
    assert not scheduler.enqueue_request(Request("http://a.example/2"))
    assert crawler.stats is not None
    assert crawler.stats.get_value("dupefilter/filtered") == 1
    assert redis.exists("test:mine:dedup:meta")
    scheduler.close("finished")
    assert redis.keys() == []
    scheduler.df.close()
    scheduler.server.close()


def test_a_server_that_is_away_means_not_seen_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    dupefilter = make_dupefilter("redis://127.0.0.1:1/0")
    with caplog.at_level(logging.WARNING):
        dupefilter.open()
        assert [dupefilter.request_seen(Request("http://a.example/1")) for _ in range(5)] == [False] * 5
    assert len(caplog.records) == 1
    assert "count as not seen" in caplog.text
    dupefilter.close()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("BLOOM_ERROR_RATE", 1.5, "BLOOM_ERROR_RATE=1.5: must be between 0 and 1"),
        ("BLOOM_ERROR_RATE", 0, "BLOOM_ERROR_RATE=0: must be between 0 and 1"),
        ("BLOOM_ERROR_RATE", "few", "BLOOM_ERROR_RATE=few: must be a number"),
        ("BLOOM_CAPACITY", 0, "BLOOM_CAPACITY=0: must be between 1 and 1000000000000"),
        ("BLOOM_CAPACITY", "1M", "BLOOM_CAPACITY=1M: must be a whole number"),
        ("BLOOM_GROWTH", "maybe", "BLOOM_GROWTH=maybe: must be 1 or 0"),
    ],
)
def test_bad_settings_are_one_line(redis_url: str, name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_dupefilter(redis_url, **{name: value})
    assert str(caught.value) == message
