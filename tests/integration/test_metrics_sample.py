"""What a scrape reads from Redis: each figure against keys of which the answer is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgpack
import pytest
import redis as redis_py
from scrapy import Request
from scrapy.settings import Settings

from crawler import dedup
from crawler.dedup import BloomDupeFilter
from crawler.dedup.stored import read_stored, rotate
from crawler.metrics.sample import FAR, FORGOTTEN, Sample, Sampler
from tests.support.server import RedisServer

BASE, DEDUP, SEEDS = "{crawler:site:0}:site", "{crawler:site:0}", "site:start_urls"


def sampler(client: redis_py.Redis, delay: float = 1.0) -> Sampler:
    return Sampler(lambda: client, [(BASE, DEDUP)], SEEDS, delay)


def now_ms() -> int:
    return round(1000 * time.time())


def test_nothing_there_is_all_zeros(redis: redis_py.Redis) -> None:
    found = sampler(redis).read()
    assert found == Sample(
        oldest=0.0,
        hosts={"due": 0, "waiting": 0, "busy": 0, "backing_off": 0},
        workers={"live": 0, "lost": 0},
        seeds=0,
        bloom=None,
        server=found.server,
    )


def test_the_servers_memory_and_what_it_gave_up() -> None:
    with RedisServer() as server, server.client() as client:
        before = sampler(client).read().server
        assert before is not None
        assert (before.most, before.evicted) == (0, 0)
        client.config_set("maxmemory", before.used + 2_000_000)
        client.config_set("maxmemory-policy", "allkeys-random")
        for number in range(60):
            client.set(f"some{number}", b"x" * 100_000)
        after = sampler(client).read().server
        assert after is not None
        assert before.used < after.used <= after.most + 200_000
        assert after.evicted > 0
        client.acl_setuser("poor", enabled=True, nopass=True, categories=["+@all"], commands=["-info"], keys=["*"])
        with server.client(username="poor", password="any") as poor:
            hidden = sampler(poor).read()
        assert hidden.server is None
        assert hidden.workers == {"live": 0, "lost": 0}, "the rest is told all the same"


def test_hosts_by_state_and_the_longest_wait(redis: redis_py.Redis) -> None:
    now = now_ms()
    redis.zadd(f"{BASE}:ready", {"late": now - 90_000, "due": now - 1000, "soon": now + 5000, "far": now + 300_000})
    redis.zadd(f"{BASE}:due", {"soon": now + 5000, "far": now + 300_000, "drained": now + round(2000 * FAR)})
    redis.hset(f"{BASE}:inflight", mapping={"busy": 1, "late": 2, "due": 1})
    found = sampler(redis).read()
    assert found.hosts == {"due": 2, "waiting": 2, "busy": 3, "backing_off": 1}, "nobody waits for a drained one"
    assert found.oldest == pytest.approx(90, abs=2)


def test_a_host_with_a_long_delay_is_not_backing_off(redis: redis_py.Redis) -> None:
    redis.zadd(f"{BASE}:ready", {"patient": now_ms() + 300_000})
    assert sampler(redis, delay=301.0).read().hosts["backing_off"] == 0
    assert sampler(redis, delay=100.0).read().hosts["backing_off"] == 1


def test_shards_are_added_up(redis: redis_py.Redis) -> None:
    now, bases = now_ms(), [f"{{crawler:site:{shard}}}" for shard in range(3)]
    redis.zadd(f"{bases[0]}:ready", {"soon": now + 5000})
    redis.zadd(f"{bases[1]}:ready", {"due": now - 1000})
    redis.zadd(f"{bases[2]}:ready", {"late": now - 90_000, "soon": now + 5000, "far": now + 300_000})
    redis.hset(f"{bases[1]}:inflight", "busy", 1)
    for base in bases:  # a worker speaks to every shard
        redis.hset(f"{base}:workers", "w", msgpack.packb([now, False, "info", 3]))
    redis.rpush(f"{bases[0]}:seeds", "taken over")
    redis.rpush(SEEDS, "a", "b")
    found = Sampler(lambda: redis, [(base, base) for base in bases], SEEDS, 1.0).read()
    assert found.hosts == {"due": 2, "waiting": 3, "busy": 1, "backing_off": 1}
    assert found.oldest == pytest.approx(90, abs=2)
    assert found.workers == {"live": 1, "lost": 0}
    assert found.seeds == 3


def test_workers_by_their_last_word(redis: redis_py.Redis) -> None:
    ages = {"here": 0, "just": 8, "silent": 30, "killed": FORGOTTEN - 30, "long gone": FORGOTTEN + 30}
    for name, age in ages.items():
        redis.hset(f"{BASE}:workers", name, msgpack.packb([now_ms() - round(1000 * age), False, "info", 3]))
    assert sampler(redis).read().workers == {"live": 2, "lost": 2}


@pytest.mark.parametrize(
    "push",
    [
        lambda client: client.rpush(SEEDS, "a", "b", "c"),
        lambda client: client.sadd(SEEDS, "a", "b", "c"),
        lambda client: client.zadd(SEEDS, {"a": 1, "b": 2, "c": 3}),
    ],
    ids=["list", "set", "zset"],
)
def test_seeds_of_any_type(redis: redis_py.Redis, push: Callable[[redis_py.Redis], object]) -> None:
    push(redis)
    assert sampler(redis).read().seeds == 3


def test_the_memory_as_the_dupefilter_fills_it(redis: redis_py.Redis, redis_url: str) -> None:
    settings = Settings({"REDIS_URL": redis_url, "BLOOM_CAPACITY": 100, "BLOOM_ERROR_RATE": 1e-4})
    dupefilter = BloomDupeFilter.from_settings(settings)
    try:
        seen = [dupefilter.request_seen(Request(f"http://example.com/{number}")) for number in (*range(90), *range(9))]
    finally:
        dupefilter.close()
    assert sum(seen) == 9
    bloom = Sampler(lambda: redis, [(BASE, dupefilter.base)], SEEDS, 1.0).read().bloom
    assert bloom is not None
    assert (bloom.elements, bloom.room, bloom.fill, bloom.configured) == (90, 100, 0.9, 1e-4)
    assert 0 < bloom.error < 1e-4


@pytest.mark.parametrize("kind", ["BloomDupeFilter", "LayeredDupeFilter", "CompactDupeFilter"])
def test_a_memory_that_must_not_grow_is_full_when_it_refuses(redis: redis_py.Redis, redis_url: str, kind: str) -> None:
    """Also when its capacity was raised since, and when a layered one has folded nothing into its filter."""
    base = Settings({"REDIS_URL": redis_url, "BLOOM_GROWTH": "0", "BLOOM_ERROR_RATE": 1e-4})
    dupefilter_class = getattr(dedup, kind)
    for capacity, pages, fill in ((100, 90, 0.9), (150, 120, 0.8), (150, 150, 1.0)):
        settings = base.copy()
        settings.set("BLOOM_CAPACITY", capacity)
        dupefilter = dupefilter_class.from_settings(settings)
        try:
            for number in range(pages):
                dupefilter.request_seen(Request(f"http://example.com/{number}"))
        finally:
            dupefilter.close()
        bloom = Sampler(lambda: redis, [(BASE, dupefilter.base)], SEEDS, 1.0, capacity).read().bloom
        assert bloom is not None
        assert bloom.fill == pytest.approx(fill, abs=0.01)


def test_the_fill_is_of_the_generation_in_use(redis: redis_py.Redis, redis_url: str) -> None:
    settings = Settings({"REDIS_URL": redis_url, "BLOOM_CAPACITY": 100, "DEDUP_WINDOW": "1d"})
    fills = []
    for pages in (range(90), range(90, 100)):
        dupefilter = BloomDupeFilter.from_settings(settings)
        try:
            for number in pages:
                dupefilter.request_seen(Request(f"http://example.com/{number}"))
        finally:
            dupefilter.close()
        bloom = Sampler(lambda: redis, [(BASE, dupefilter.base)], SEEDS, 1.0).read().bloom
        assert bloom is not None
        fills.append(bloom.fill)
        rotate(redis, read_stored(redis, dupefilter.base)[0])
    assert fills == [0.9, 0.1], "the old generation is full for ever, and wakes nobody"


def test_many_scrapers_are_one_read(redis: redis_py.Redis) -> None:
    made = []

    def connect() -> redis_py.Redis:
        made.append(1)
        return redis

    async def go() -> list[Sample]:
        sampler = Sampler(connect, [(BASE, DEDUP)], SEEDS, 1.0, every=60)
        first = await asyncio.gather(*(sampler.sample() for _ in range(10)))
        redis.rpush(SEEDS, "new")
        return [*first, await sampler.sample(), await sampler.sample(anew=True)]

    *shared, last = asyncio.run(go())
    assert {sample.seeds for sample in shared} == {0}
    assert last.seeds == 1, "the end of a short crawl is told as it is"
    assert made == [1]


def test_a_key_of_another_type_is_an_error_and_no_figure(redis: redis_py.Redis) -> None:
    redis.set(f"{BASE}:ready", "x")
    with pytest.raises(redis_py.ResponseError, match="WRONGTYPE"):
        sampler(redis).read()


def test_a_frozen_server_does_not_hold_up_the_loop() -> None:
    async def turns_while_frozen(server: RedisServer) -> int:
        sampler = Sampler(lambda: server.client(socket_timeout=0.5), [(BASE, DEDUP)], SEEDS, 1.0, every=0)
        await sampler.sample()
        server.freeze()
        task, turns = asyncio.create_task(sampler.sample()), 0
        while not task.done():
            await asyncio.sleep(0.01)
            turns += 1
        server.resume()
        assert isinstance(task.exception(), (redis_py.RedisError, OSError))
        sampler.close()
        assert (await sampler.sample()).seeds == 0, "it connects again"
        sampler.close()
        return turns

    with RedisServer() as server:
        assert asyncio.run(turns_while_frozen(server)) > 5
