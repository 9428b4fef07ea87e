"""The one exchange over a crawl: seeds are taken, runs begin and end, and nobody ends one too early."""

from __future__ import annotations

import time

import pytest
from redis import Redis

from crawler.frontier.message import ADD, START
from tests.support.shard import Shard, finish, until


@pytest.fixture
def shard(redis: Redis) -> Shard:
    made = Shard(redis)
    assert made.join()[0] == "begun"
    return made


class TestSeeds:
    @pytest.mark.parametrize("kind", ["list", "set", "zset"])
    def test_all_of_scrapy_rediss_keys(self, shard: Shard, redis: Redis, kind: str) -> None:
        key = "spider:start_urls"
        if kind == "list":
            redis.rpush(key, "s1", "s2")
        elif kind == "set":
            redis.sadd(key, "s1", "s2")
        else:
            redis.zadd(key, {"s1": 2, "s2": 1})
        leases = shard.say(seeds=5).leases
        payloads = [lease.payload for lease in leases]
        assert (sorted(payloads) if kind == "set" else payloads) == [b"seed:s1", b"seed:s2"]
        assert not redis.exists(key)
        assert shard.say(acks=[(lease.id, 0, "", "", b"") for lease in leases]).leased == 0

    def test_a_seed_of_a_dead_worker_is_handed_out_again(self, shard: Shard, redis: Redis) -> None:
        redis.rpush("spider:start_urls", "s1")
        assert shard.say("dead", seeds=5, lease=1).leases
        until(lambda: shard.take(worker="w") == ["seed:s1"])


class TestRuns:
    def test_start_has_one_owner_until_it_dies(self, shard: Shard) -> None:
        assert shard.say("one", start="want", lease=1).start == "yours"
        until(lambda: shard.say("two", start="want").start == "yours")
        assert shard.say("one", start="hold").start == "other"
        assert shard.say("one", start="done").start == "other"
        assert shard.say("two", start="done").start == "done"
        assert shard.say("one", start="want").start == "done"

    def test_a_worker_that_leaves_frees_the_claim(self, shard: Shard) -> None:
        assert shard.say("one", start="want").start == "yours"
        assert shard.say("two", start="want").start == "other"
        shard.say("one", bye=True)
        assert shard.say("two", start="want").start == "yours"

    def test_a_start_that_failed_is_over_but_runs_again_when_somebody_joins(self, shard: Shard) -> None:
        shard.put("a")
        assert shard.say(start="want").start == "yours"
        assert shard.say(start="failed").start == "failed"
        assert shard.say("two", start="want").start == "failed"  # it was there already
        assert shard.join("three")[0] == "joined"
        assert shard.say("three", start="want").start == "yours"
        assert finish(shard, "three") == "finished"

    def test_a_run_ends_when_nothing_is_left_anywhere(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        shard.say(start="want")
        assert shard.say(start="done").state == "running"  # queued
        lease = shard.say(want=1).leases[0]
        assert shard.say().state == "running"  # leased
        redis.rpush("spider:start_urls", "s")
        assert shard.say(acks=[(lease.id, 0, "", "", b"")]).state == "running"  # a seed waits
        redis.delete("spider:start_urls")
        assert shard.say("two", busy=True).state == "running"  # this worker has something in hand
        assert shard.say().state == "running"  # somebody else has
        shard.say("two", busy=False)
        assert shard.say().state == "finished"

    def test_not_before_start_is_done(self, shard: Shard) -> None:
        assert shard.say(start="want").state == "running"
        assert shard.say(start="hold").state == "running"
        assert shard.say(start="done").state == "finished"

    def test_a_fed_spider_waits_and_ends_when_it_was_idle_long_enough(self, shard: Shard) -> None:
        assert finish_fed(shard, idle=0) == "running"
        until(lambda: shard.say(fed=True, idle=50).state == "finished")

    def test_the_next_run_begins_when_the_last_is_finished(self, shard: Shard) -> None:
        assert shard.join("two")[:3] == ["joined", "1", "1"]
        assert finish(shard) == "finished"
        assert shard.join("two")[:3] == ["begun", "2", "2"]

    def test_a_pinned_run_is_not_begun_twice(self, shard: Shard) -> None:
        assert finish(shard) == "finished"
        assert shard.join(pinned="nightly")[:3] == ["begun", "2", "nightly"]
        assert shard.join(pinned="other")[0] == "other"
        assert finish(shard) == "finished"
        assert shard.join(pinned="nightly")[0] == "finished"

    def test_other_versions_are_refused(self, shard: Shard) -> None:
        assert shard.join(versions="v=2")[0] == "versions"

    def test_only_one_worker_empties_the_memory_for_a_new_run(self, shard: Shard) -> None:
        finish(shard)
        assert shard.join("one", empty="1")[0] == "clear"
        assert shard.join("two", empty="1")[0] == "wait"
        assert shard.join("one", empty="1", emptied="1")[0] == "begun"
        assert shard.join("two", empty="1")[0] == "joined"

    def test_a_flushed_frontier_is_told_as_lost(self, shard: Shard, redis: Redis) -> None:
        redis.flushdb()
        assert shard.say().state == "lost"

    def test_pause_hands_nothing_out(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        redis.hset(shard.keys.frontier + ":meta", "paused", "1")
        reply = shard.say(want=9, ahead=9, seeds=9)
        assert reply.paused
        assert reply.leases == []
        redis.hdel(shard.keys.frontier + ":meta", "paused")
        assert shard.take() == ["a"]

    def test_nothing_is_left_behind(self, shard: Shard, redis: Redis) -> None:
        shard.constants |= {"delay": 1}
        shard.put(*"abc", flags=START | ADD)
        finish(shard)
        shard.say(bye=True)
        base = shard.keys.frontier
        until(lambda: not redis.zcount(f"{base}:due", 1000 * time.time(), "+inf"))
        shard.say("x", bye=True)  # what is past goes with a good-bye
        left = {key.decode() for key in redis.scan_iter() if redis.ttl(key) < 0}
        assert left == {f"{base}:meta", f"{base}:runs", f"{base}:memory"}


def finish_fed(shard: Shard, idle: int) -> str:
    shard.say(start="want", fed=True, idle=idle)
    return shard.say(start="done", fed=True, idle=idle).state
