"""The one exchange, spoken directly: what is admitted, leased, acknowledged, reclaimed, and never done twice."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgpack
import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from crawler.frontier.message import ADD, FILTER, LOCAL, START, Reply
from tests.support.server import RedisServer
from tests.support.shard import CONSTANTS, Shard, admission


@pytest.fixture
def shard(redis: Redis) -> Shard:
    made = Shard(redis)
    assert made.join()[0] == "begun"
    return made


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Asks until it holds: leases end by the server's clock."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"


def dead_letters(redis: Redis, shard: Shard) -> list[dict[bytes, bytes]]:
    stream: Any = redis.xrange(shard.keys.frontier + ":dead")
    return [letter for _, letter in stream]


class TestAdmission:
    def test_new_seen_and_unfiltered(self, shard: Shard) -> None:
        assert shard.put("a", "b", "a").verdicts == b"110"
        assert shard.put("a", "a", flags=0).verdicts == b"11"  # identical dont_filter requests are each kept
        assert sorted(shard.take()) == ["a", "a", "a", "b"]

    def test_a_start_request_runs_once_in_spite_of_dont_filter(self, shard: Shard) -> None:
        assert shard.put("a", "a", flags=START | ADD).verdicts == b"10"
        assert shard.put("a", flags=FILTER | ADD).verdicts == b"0"  # and counts as seen

    def test_a_start_request_of_the_next_run_is_fetched_again(self, shard: Shard) -> None:
        shard.put("a", flags=START | ADD)
        finish(shard)
        assert shard.join()[0] == "begun"
        assert shard.put("a", flags=START | ADD).verdicts == b"1"

    def test_priority_then_age(self, shard: Shard) -> None:
        shard.put("old", "older")
        shard.put("urgent", priority=5)
        shard.put("later", priority=-1)
        assert [shard.take(1)[0] for _ in range(4)] == ["urgent", "old", "older", "later"]

    @pytest.mark.parametrize(("order", "expected"), [("fifo", ["a", "b", "c"]), ("lifo", ["c", "b", "a"])])
    def test_orders_without_priority(self, shard: Shard, order: str, expected: list[str]) -> None:
        shard.constants["order"] = order
        shard.put("a", priority=1)
        shard.put("b", priority=9)
        shard.put("c")
        assert [shard.take(1)[0] for _ in range(3)] == expected

    def test_a_full_memory_admits_nothing_and_acknowledges_no_parent(self, shard: Shard) -> None:
        shard.constants["dedup"] = {"full": 2}
        shard.put("parent")
        lease = shard.say(want=1).leases[0]
        reply = shard.say(outbox=[admission("a"), admission("b"), admission("c")], acks=[(lease.id, 3, "", "", b"")])
        assert reply.verdicts == b"122"
        assert reply.unacked == [lease.id]
        assert reply.leased == 1
        assert shard.say(acks=[(lease.id, 0, "", "", b"")]).leased == 0

    def test_what_only_a_dead_worker_could_run_is_not_lost(self, shard: Shard, redis: Redis) -> None:
        assert shard.put("a", flags=FILTER | ADD | LOCAL, worker="dead").verdicts == b"1"
        assert shard.put("a", worker="w").verdicts == b"3"  # its worker lives
        redis.hdel(shard.keys.frontier + ":workers", "dead")
        assert shard.put("a", worker="w").verdicts == b"1"
        assert shard.put("a", worker="w").verdicts == b"0"

    def test_a_local_request_that_is_done_is_seen_for_good(self, shard: Shard, redis: Redis) -> None:
        shard.put("a", flags=FILTER | ADD | LOCAL, worker="dead")
        shard.say("dead", locals=[b"a"], bye=True)
        assert shard.put("a").verdicts == b"0"


class TestLeases:
    def test_one_owner_at_a_time(self, shard: Shard) -> None:
        shard.put("a")
        assert shard.take(worker="one") == ["a"]
        assert shard.take(worker="two") == []

    def test_a_stale_owner_changes_nothing(self, shard: Shard) -> None:
        shard.put("a")
        lease = shard.say("one", want=1, lease=1).leases[0]
        until(lambda: shard.take(worker="two") == ["a"])
        assert shard.say("one", acks=[(lease.id, 0, "", "", b"")]).lost == [lease.id]
        assert shard.say("one", gives=[lease.id]).lost == [lease.id]
        reply = shard.say("two", acks=[(lease.id, 0, "", "", b"")])
        assert (reply.lost, reply.leased, reply.queued) == ([], 0, 0)

    def test_a_renewed_lease_stays(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        lease = shard.say("one", want=1, lease=1).leases[0]
        shard.say("one", renew=[lease.id], lease=60_000)
        assert shard.take(worker="two") == []
        assert float(redis.zscore(shard.keys.frontier + ":leases", lease.id) or 0) > 1000 * time.time() + 50_000

    def test_given_back_keeps_its_place_and_counts_no_delivery(self, shard: Shard) -> None:
        shard.put("a", "b")
        first = shard.say(want=1).leases[0]
        shard.say(gives=[first.id])
        again = shard.say(want=2, ahead=9).leases
        assert [(lease.payload, lease.redeliveries) for lease in again] == [(b"a", 0), (b"b", 0)]

    def test_a_request_that_keeps_killing_workers_is_buried(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        redeliveries: list[int] = []

        def three_deliveries() -> bool:
            redeliveries.extend(lease.redeliveries for lease in shard.say(want=1, lease=1).leases)
            return len(redeliveries) == 3

        until(three_deliveries)
        assert redeliveries == [0, 1, 2]
        until(lambda: shard.say().dead == 1)
        [letter] = dead_letters(redis, shard)
        assert letter[b"reason"] == b"given out 3 times, never finished"
        assert letter[b"payload"] == b"a"
        assert letter[b"deliveries"] == b"3"
        assert shard.say().queued == 0

    def test_a_failure_becomes_a_dead_letter(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        lease = shard.say(want=1).leases[0]
        assert shard.say(acks=[(lease.id, 0, "callback: KeyError", "https://h/a", b"")]).dead == 1
        [letter] = dead_letters(redis, shard)
        assert (letter[b"reason"], letter[b"url"], letter[b"payload"]) == (b"callback: KeyError", b"https://h/a", b"a")

    def test_dead_letters_are_bounded(self, shard: Shard) -> None:
        shard.put(*(f"{n}" for n in range(5)))
        leases = shard.say(want=5, ahead=9).leases
        assert shard.say(acks=[(lease.id, 0, "why", "", b"") for lease in leases], dead_max=3).dead == 3

    def test_after_an_outage_workers_get_time_to_renew(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        lease = shard.say("one", want=1, lease=60_000).leases[0]
        meta, now = shard.keys.frontier + ":meta", int(1000 * time.time())
        redis.zadd(shard.keys.frontier + ":leases", {lease.id: now - 100})  # ran out ...
        redis.hset(meta, "seen", now - 7000)  # ... while nobody was heard of
        assert shard.take(worker="two", lease=60_000) == []
        assert shard.say("one", renew=[lease.id]).lost == []

    def test_a_small_frontier_is_shared_out(self, shard: Shard) -> None:
        for worker in ("one", "two", "three"):
            shard.say(worker)
        shard.put(*"abcdef", worker="one")
        assert [len(shard.take(6, worker)) for worker in ("one", "two", "three")] == [2, 2, 1]


class TestOutOfMemory:
    """A server without memory refuses the script whole; its sparing twin admits nothing and does the rest."""

    def test_nothing_is_half_done(self, redis: Redis) -> None:
        with RedisServer() as server, server.client() as client:
            shard = Shard(client)
            shard.join()
            shard.put("a", "b", "c")
            leases = shard.say(want=2, ahead=9).leases
            client.config_set("maxmemory", "1mb")
            client.config_set("maxmemory-policy", "noeviction")
            before = {key: client.dump(key) for key in client.scan_iter()}
            news: dict[str, Any] = {
                "outbox": [admission("d")],
                "acks": [(leases[0].id, 0, "", "", b""), (leases[1].id, 1, "", "", b"")],
                "want": 9,
                "ahead": 9,
            }
            with pytest.raises(OutOfMemoryError):
                shard.say(**news)
            assert {key: client.dump(key) for key in client.scan_iter()} == before
            reply = shard.say(repeat=True, drain=True, **news)
            assert (reply.verdicts, reply.unacked) == (b"5", [leases[1].id])
            assert [lease.payload for lease in reply.leases] == [b"c"]
            ends = client.zscore(f"{shard.keys.frontier}:leases", leases[1].id)
            assert ends == reply.now + CONSTANTS["lease"], "its page is done: it must not be handed out again meanwhile"
            client.config_set("maxmemory", "0")
            reply = shard.say(outbox=[admission("d")], acks=[(leases[1].id, 1, "", "", b"")])
            assert (reply.verdicts, reply.unacked, reply.queued) == (b"1", [], 1)


class TestForgetting:
    def test_a_failure_may_be_forgotten(self, shard: Shard) -> None:
        shard.put("a")
        lease = shard.say(want=1).leases[0]
        assert shard.say(acks=[(lease.id, 0, "why", "", b"a")]).dead == 1
        assert shard.put("a").verdicts == b"1"


class TestReplay:
    def test_a_repeated_number_changes_nothing(self, shard: Shard, redis: Redis) -> None:
        fields: dict[str, Any] = {"outbox": [admission("a", flags=0), admission("b", flags=0)], "want": 1, "ahead": 1}
        first = shard.say(**fields)
        before = {key: redis.dump(key) for key in redis.scan_iter()}
        again = shard.say(repeat=True, **fields)
        assert again == first
        assert first.leases[0].payload == b"a"
        assert {key: redis.dump(key) for key in redis.scan_iter()} == before

    def test_a_replayed_failure_is_buried_once(self, shard: Shard) -> None:
        shard.put("a")
        lease = shard.say(want=1).leases[0]
        for repeat in (False, True):
            assert shard.say(repeat=repeat, acks=[(lease.id, 0, "why", "", b"")]).dead == 1

    def test_seeds_of_a_lost_reply_come_again(self, shard: Shard, redis: Redis) -> None:
        redis.rpush("spider:start_urls", "s1", "s2")
        first = shard.say(seeds=1)
        again = shard.say(repeat=True, seeds=1)
        assert again == first
        assert [lease.payload for lease in again.leases] == [b"seed:s1"]
        assert redis.llen("spider:start_urls") == 1


class TestPoliteness:
    def test_a_host_is_handed_out_at_its_pace_whoever_asks(self, shard: Shard) -> None:
        shard.constants |= {"delay": 300, "concurrency": 9}
        shard.put(*(f"{n}" for n in range(3)))
        began = time.monotonic()
        starts: list[float] = []

        def all_handed_out() -> bool:
            for worker in "xyz":
                leases = shard.say(worker, want=9).leases
                starts.extend(time.monotonic() + lease.in_ms / 1000 for lease in leases)
            return len(starts) == 3

        until(all_handed_out)
        assert starts[0] - began < 0.2
        gaps = [later - sooner for sooner, later in pairwise(starts)]
        assert all(0.28 <= gap <= 0.5 for gap in gaps), gaps

    def test_concurrency_of_a_host_with_a_delay_is_global(self, shard: Shard) -> None:
        shard.constants |= {"delay": 1, "concurrency": 2}
        shard.put(*"abc")
        got: list[bytes] = []

        def two_handed_out() -> bool:
            got.extend(lease.id for lease in shard.say("one", want=9).leases)
            return len(got) == 2

        until(two_handed_out)
        assert shard.take(worker="two") == []
        shard.say("one", acks=[(got[0], 0, "", "", b"")])
        until(lambda: shard.take(worker="two") == ["c"])

    def test_a_start_off_the_plan_pushes_the_host_back(self, shard: Shard) -> None:
        shard.constants |= {"delay": 50, "concurrency": 9}
        shard.put("a")
        reply = shard.say(started=[("h", 5000)])
        assert 4900 < reply.next_due <= 5000
        assert shard.take() == []

    def test_a_host_that_rests_keeps_its_time_when_its_queue_is_empty(self, shard: Shard) -> None:
        shard.constants |= {"delay": 5000, "concurrency": 9}
        shard.put("a")
        assert shard.take() == ["a"]
        reply = shard.put("b")
        assert 4000 < reply.next_due <= 5000

    def test_hosts_take_turns_and_a_worker_can_pass_over_one(self, shard: Shard) -> None:
        shard.put("a1", "a2", "a3", host="a")
        shard.put("b1", "b2", host="b")
        assert sorted(shard.take(2)) == ["a1", "b1"]
        assert shard.take(9, skip=["a"]) == ["b2"]

    def test_a_hosts_own_limits_win(self, shard: Shard) -> None:
        shard.constants |= {"hosts": {"slow": (60_000, 1)}}
        shard.put("s1", "s2", host="slow")
        shard.put("q1", "q2", host="quick")
        assert sorted(shard.take()) == ["q1", "q2", "s1"]


class TestShares:
    def test_a_dead_worker_has_no_share_of_a_small_queue(self, shard: Shard, redis: Redis) -> None:
        for name in ("w", "v", "dead1", "dead2"):
            shard.say(name)
        shard.put("a", "b", "c", "d", worker="v")
        assert len(shard.say(want=9).leases) == 1, "four workers, four requests"
        base = shard.keys.frontier
        long_ago = msgpack.packb([int(time.time() * 1000) - 11_000, False, "test", 0, 0, 0])
        redis.hset(base + ":workers", mapping={"dead1": long_ago, "dead2": long_ago})
        redis.hset(base + ":meta", "looked", 1)  # five seconds later
        shard.say()
        assert len(shard.say("v", want=9).leases) == 2, "two workers, three requests"
        shard.say("v", bye=True)
        assert len(shard.say(want=9).leases) == 1

    def test_after_an_outage_nobody_counts_as_dead(self, shard: Shard, redis: Redis) -> None:
        shard.say("v")
        shard.put("a", "b", "c", "d")
        base = shard.keys.frontier
        redis.hset(base + ":workers", "v", msgpack.packb([1, False, "test", 0, 0, 0]))
        redis.hset(base + ":meta", mapping={"looked": 1, "seen": 1})
        shard.say()
        assert len(shard.say(want=9).leases) == 2
        assert redis.hexists(base + ":replies", "v"), "its next message is no first one"


class TestManners:
    def test_one_failure_is_no_reason_to_wait_two_are(self, shard: Shard) -> None:
        shard.put("a", "b")
        assert shard.say(health=[("h", 0, 0, 0)]).next_due == 0
        assert 500 < shard.say(health=[("h", 0, 0, 0)]).next_due <= 1000
        assert shard.take() == []

    def test_each_further_failure_doubles_the_wait_up_to_a_limit(self, shard: Shard) -> None:
        shard.put("a")
        waits = [shard.say(health=[("h", 0, 0, 0)], backoff_max=3500).next_due for _ in range(5)]
        for wait, expected in zip(waits, [0, 1000, 2000, 3500, 3500], strict=True):
            assert expected - 300 <= wait <= expected

    def test_a_burst_of_failures_counts_once(self, shard: Shard) -> None:
        shard.put("a")
        shard.say(health=[("h", 0, 0, 0)])
        reply = shard.say(health=[("h", 0, 60_000, 0)] * 8)  # all started before the first was counted
        assert reply.next_due == 0

    def test_a_host_that_recovers_starts_afresh(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        for _ in range(3):
            shard.say(health=[("h", 0, 0, 0)])
        shard.say(health=[("h", 1, 0, 0)])
        assert not redis.exists(shard.keys.frontier + ":hosts")
        shard.put("x", host="other")
        assert shard.take() == ["x"]  # what was ordered to rest rests

    def test_retry_after_is_obeyed_at_once_and_bounded(self, shard: Shard) -> None:
        shard.put("a")
        assert 4500 < shard.say(health=[("h", 0, 0, 5000)]).next_due <= 5000
        shard.put("b", host="g")
        shard.say(health=[("g", 0, 0, 10**9)], backoff_max=20_000)
        assert shard.take() == []

    def test_crawl_delay_slows_but_never_hurries(self, shard: Shard) -> None:
        shard.say(crawl_delays=[("slow", 60_000), ("h", 10)], delay=200)
        shard.put("s1", "s2", host="slow")
        leases = shard.say(want=9, ahead=9).leases
        assert [(lease.payload, lease.delay) for lease in leases] == [(b"s1", 60_000)]
        shard.put("h1", "h2")
        leases = shard.say(want=9, ahead=9, delay=200).leases
        assert [(lease.payload, lease.delay) for lease in leases] == [(b"h1", 200)]

    def test_a_lease_that_never_reached_its_host_costs_no_turn(self, shard: Shard) -> None:
        shard.constants |= {"delay": 60_000, "concurrency": 9}
        shard.put("a", "b")
        assert shard.take() == ["a"]
        assert shard.take() == []
        assert shard.take(refunds=["h"]) == ["b"]

    def test_the_page_cap_of_a_host(self, shard: Shard) -> None:
        shard.constants["host_max_pages"] = 2
        assert shard.put("a", "b", "c").verdicts == b"114"
        assert shard.put("d").verdicts == b"4"
        assert shard.put("d", host="other").verdicts == b"1"
        assert shard.put("e", flags=0).verdicts == b"1"  # dont_filter

    def test_the_page_cap_of_a_calendar(self, shard: Shard, redis: Redis) -> None:
        shard.constants["calendar_max"] = 2

        def put(*names: str, calendar: str = "c", flags: int = FILTER | ADD) -> bytes:
            outbox = [(*admission(name, flags=flags), {"calendar": calendar}) for name in names]
            return shard.say(outbox=outbox, dropped={"calendar": 7}).verdicts

        assert put("a", "a", "b", "c") == b"1016"
        assert put("c", "d") == b"66"
        assert put("c", calendar="other") == b"1"
        assert put("d", flags=0) == b"1"  # dont_filter
        assert shard.put("e").verdicts == b"1"
        assert redis.hget(f"{shard.keys.frontier}:meta", "dropped:calendar") == b"28"


class TestGivingUp:
    """A host that has not answered for long."""

    @pytest.fixture(autouse=True)
    def _soon(self, shard: Shard) -> None:
        shard.constants |= {"give_up": 1, "backoff": 0, "dead_max": 3}

    @staticmethod
    def fail(shard: Shard, times: int = 5, **fields: Any) -> Reply:
        """So many failures in a row, the last ones longer after the first than `give_up`."""
        for _ in range(times):
            time.sleep(0.002)
            reply = shard.say(health=[("h", 0, 0, 0)], **fields)
        return reply

    @staticmethod
    def dead(redis: Redis, shard: Shard) -> list[bytes]:
        letters: Any = redis.xrange(f"{shard.keys.frontier}:dead")
        return [letter[b"payload"] for _, letter in letters]

    def test_its_queue_goes_to_the_dead_letters_bit_by_bit(self, shard: Shard, redis: Redis) -> None:
        shard.put(*[f"{n}" for n in range(450)])
        shard.put("x", host="other")
        assert self.fail(shard, 4).gone == []
        assert self.fail(shard, 1).gone == ["h"]
        assert (shard.say().queued, shard.say().queued) == (51, 1)
        assert sorted(map(int, self.dead(redis, shard))) == list(range(450)), (
            "FRONTIER_DEAD_MAX does not count for these"
        )
        assert shard.take() == ["x"]
        letter: Any = redis.xrevrange(f"{shard.keys.frontier}:dead", count=1)
        assert re.fullmatch(rb"host given up: no answer for 0 s, 5 times in a row", letter[0][1][b"reason"])
        names = {key.decode().removeprefix(shard.keys.frontier) for key in redis.keys("*")}  # type: ignore[union-attr]
        assert not [name for name in names if "gone" in name or "queue" in name]

    def test_not_before_its_time_and_not_if_it_answers_in_between(self, shard: Shard, redis: Redis) -> None:
        shard.put("a")
        assert self.fail(shard, 20, give_up=60_000).gone == []
        shard.say(health=[("h", 1, 0, 0)])
        assert self.fail(shard, 4).gone == []
        assert shard.take(health=[("h", 1, 0, 0)]) == ["a"]

    def test_a_lease_says_that_its_host_fails(self, shard: Shard) -> None:
        shard.put("a")
        self.fail(shard, 1)
        assert [lease.failing for lease in shard.say("v", want=1).leases] == [True]

    def test_new_links_are_buried_but_for_one_now_and_then(self, shard: Shard, redis: Redis) -> None:
        shard.constants["backoff_max"] = 100
        self.fail(shard, backoff=100)
        assert shard.put("a", "b").verdicts == b"11"
        assert self.dead(redis, shard) == [b"a", b"b"]
        time.sleep(0.15)
        shard.put("c", "d", "e")
        assert self.dead(redis, shard) == [b"a", b"b", b"d", b"e"]
        assert shard.take() == ["c"]
        shard.say(health=[("h", 1, 0, 0)])
        assert redis.hget(f"{shard.keys.frontier}:meta", "hosts_given_up") == b"0"
        shard.put("f", "g")
        assert shard.take() == ["f", "g"]

    def test_letters_that_fall_out_are_counted(self, shard: Shard, redis: Redis) -> None:
        shard.put(*"abcde")
        acks = [(lease.id, 0, "callback: x", "", b"") for lease in shard.say(want=9, ahead=9).leases]
        shard.say(acks=acks)
        assert redis.hget(f"{shard.keys.frontier}:meta", "dead_fallen") == b"2"


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


def finish(shard: Shard, worker: str = "w") -> str:
    """Ends the run as an orderly worker does."""
    while leases := shard.say(worker, want=100, ahead=100).leases:
        shard.say(worker, acks=[(lease.id, 0, "", "", b"") for lease in leases])
    shard.say(worker, start="want")
    return shard.say(worker, start="done").state


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
        until(
            lambda: not redis.zrangebyscore(shard.keys.frontier + ":due", 0, 1000 * time.time()) or bool(shard.say("x"))
        )
        shard.say("x", bye=True)
        base = shard.keys.frontier
        left = {key.decode() for key in redis.scan_iter() if redis.ttl(key) < 0}
        assert left == {f"{base}:meta", f"{base}:runs", f"{base}:memory"}


def finish_fed(shard: Shard, idle: int) -> str:
    shard.say(start="want", fed=True, idle=idle)
    return shard.say(start="done", fed=True, idle=idle).state
