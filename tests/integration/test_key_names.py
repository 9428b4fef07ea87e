"""What is lost when one key of the catalogue is deleted, for those that no other test needs by their names."""

from __future__ import annotations

import asyncio

import msgpack
import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler.dedup import kinds
from crawler.dedup.memory import SeenMemory
from crawler.dedup.sizing import Sizing
from crawler.dedup.stored import read_stored, rotate
from crawler.frontier.message import ADD, FILTER, START
from crawler.frontier.script import Script, source
from crawler.frontier.seedmove import SeedMover
from crawler.keys import Keys, moving_key
from crawler.nodes import OneNode, nodes_of
from tests.support.shard import Shard, admission

TAG = Keys("crawler", "books").tag


def names(redis: redis_py.Redis, pattern: str = "*") -> set[str]:
    return {key.decode() for key in redis.scan_iter(pattern.replace("{", "[{]"))}


def test_each_generation_of_a_window_has_keys_of_its_own(redis: redis_py.Redis) -> None:
    """TAG:wN:dedup:*: without those of one generation, its pages are new and the others' are not."""
    memory = SeenMemory(redis, TAG, kinds.window(kinds.exact(), "1h/4", 3_600_000, 4))
    for page in (b"a", b"b"):
        memory.add([page])
        rotate(redis, read_stored(redis, TAG)[0])
    generations = sorted({name.split(":")[3] for name in names(redis, f"{TAG}:w*")})
    assert [int(name[1:]) for name in generations] == [(first := int(generations[0][1:])), first + 1]
    assert names(redis) == names(redis, f"{TAG}:w[0-9]*:dedup:*") | {f"{TAG}:dedup:meta"}
    redis.delete(*names(redis, f"{TAG}:{generations[1]}:dedup:*"))
    assert memory.has([b"a", b"b"]) == b"10"


def test_a_layered_memory_keeps_its_history_apart(redis: redis_py.Redis) -> None:
    """TAG:history:dedup:*: without them, what was folded is new, and what was seen since is not."""
    memory = SeenMemory(redis, TAG, kinds.layered(kinds.bitmap(Sizing(200, 1e-6)), 100))
    memory.add([b"old"])
    while memory.fold(128):
        pass
    memory.add([b"recent"])
    assert memory.has([b"old", b"recent"]) == b"11"
    assert f"{TAG}:history:dedup:meta" in names(redis)
    redis.delete(*names(redis, f"{TAG}:history:dedup:*"))
    assert memory.has([b"old", b"recent"]) == b"01"


@pytest.mark.parametrize(("seed_key", "moving"), [("books:start_urls", "{books:start_urls}:moving"),
                                                  ("{b}:urls", "{b}:urls:moving")])  # fmt: skip
def test_a_batch_of_seeds_that_stands_aside_is_taken_up_once(
    redis: redis_py.Redis, redis_url: str, seed_key: str, moving: str
) -> None:
    """SEEDKEY:moving: a worker died after it took a batch; the next one moves that batch, then the seeds behind it."""
    assert moving_key(seed_key) == moving
    redis.rpush(seed_key, *"abc")

    async def main() -> None:
        nodes = nodes_of(Settings({"REDIS_URL": redis_url}))
        assert isinstance(nodes, OneNode)
        client = await nodes.client(seed_key)
        await Script(source("seeds_take"))(client, [seed_key, moving], ["2"])
        assert msgpack.unpackb(redis.hget(moving, "seeds") or b"") == ["a", "b"]
        assert redis.lrange(seed_key, 0, -1) == [b"c"]
        mover = SeedMover(nodes, seed_key, TAG)
        while await mover.move():
            pass
        await nodes.aclose()

    asyncio.run(main())
    assert redis.lrange(f"{TAG}:seeds", 0, -1) == [b"a", b"b", b"c"]
    assert names(redis) == {f"{TAG}:seeds", f"{TAG}:batches"}


@pytest.fixture
def shard(redis: redis_py.Redis) -> Shard:
    shard = Shard(redis)
    shard.join()
    return shard


def test_without_the_pages_of_a_host_its_cap_begins_anew(shard: Shard, redis: redis_py.Redis) -> None:
    """BASE:pages"""
    shard.constants["host_max_pages"] = 1
    assert [shard.put(page).verdicts for page in "ab"] == [b"1", b"4"]
    redis.delete(f"{shard.keys.frontier}:pages")
    assert shard.put("c").verdicts == b"1"


def test_without_the_start_requests_of_a_run_they_are_made_again(shard: Shard, redis: redis_py.Redis) -> None:
    """BASE:starts"""
    assert [shard.put("a", flags=START).verdicts for _ in range(2)] == [b"1", b"0"]
    redis.delete(f"{shard.keys.frontier}:starts")
    assert shard.put("a", flags=START).verdicts == b"1"


def test_without_the_holder_of_a_jar_another_worker_may_hold_it(shard: Shard, redis: redis_py.Redis) -> None:
    """BASE:jars"""
    shard.say("v")

    def put(name: str) -> None:
        shard.say("w", outbox=[(*admission(name, flags=FILTER | ADD), {"jar": "1"})])

    put("a")
    assert shard.take(1, "w") == ["a"]
    put("b")
    assert shard.take(9, "v") == []
    redis.delete(f"{shard.keys.frontier}:jars")
    put("c")
    assert shard.take(9, "v") == ["c"]
