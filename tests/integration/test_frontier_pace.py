"""The one exchange and time: whose turn a host is, what it asked for, and when it is given up."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import Any

import msgpack
import pytest
from redis import Redis

from crawler.frontier.control import Control
from crawler.frontier.message import ADD, FILTER, Reply
from crawler.frontier.seedkey import SeedKey
from tests.support.shard import Shard, admission, until


@pytest.fixture
def shard(redis: Redis) -> Shard:
    made = Shard(redis)
    assert made.join()[0] == "begun"
    return made


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

    def test_a_concurrency_that_a_person_set_counts_for_all_workers_without_a_delay_too(self, shard: Shard) -> None:
        control = Control(shard.client, shard.keys.frontier, SeedKey("seeds", "list"))
        control.host("h", concurrency=2)
        shard.put(*"abcd")
        leases = shard.say(want=9, ahead=9).leases
        assert (len(leases), shard.take(worker="v"), shard.take()) == (2, [], [])
        shard.say(acks=[(leases[0].id, 0, "", "", b"")])
        assert shard.take(worker="v") == ["c"]
        control.host("h", concurrency=False)
        assert shard.take(worker="v") == ["d"]

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

    def test_a_delay_that_a_person_gave_a_host_wins(self, shard: Shard) -> None:
        control = Control(shard.client, shard.keys.frontier, SeedKey("seeds", "list"))
        control.host("h", delay=50)
        shard.say(crawl_delays=[("h", 60_000), ("g", 60_000)])
        shard.put("a")
        shard.put("b", host="g")
        leases = {lease.host: (lease.delay, lease.own_delay) for lease in shard.say(want=9, ahead=9).leases}
        assert leases == {"h": (50, True), "g": (60_000, False)}

    def test_a_lease_that_never_reached_its_host_costs_no_turn(self, shard: Shard) -> None:
        shard.constants |= {"delay": 60_000, "concurrency": 9}
        shard.put("a", "b")
        assert shard.take() == ["a"]
        assert shard.take() == []
        assert shard.take(refunds=[("h", 0)]) == ["b"]

    def test_a_turn_that_was_not_the_last_one_is_not_given_again(self, shard: Shard) -> None:
        """Two requests would have the same one."""
        shard.constants |= {"delay": 90, "concurrency": 9}
        shard.put("a", "b", "c")
        replies = [shard.say(want=9, ahead=9)]
        assert [lease.in_ms for lease in replies[0].leases] == [0, 90]
        shard.say(refunds=[("h", 0)])

        def the_third() -> bool:
            replies.append(shard.say("v", want=9, ahead=9))
            return bool(replies[-1].leases)

        until(the_third)
        second, third = (reply.now + reply.leases[-1].in_ms for reply in (replies[0], replies[-1]))
        assert third - second >= 90

    def test_a_rest_is_no_turn(self, shard: Shard) -> None:
        shard.constants |= {"delay": 2000, "concurrency": 9}
        shard.put("a", "b")
        assert shard.take() == ["a"]
        shard.say(health=[("h", 0, 0, 5000)])
        assert shard.say(refunds=[("h", 0)] * 9).next_due > 4000

    def test_several_of_the_last_turns_are_given_again(self, shard: Shard) -> None:
        shard.constants |= {"delay": 50, "concurrency": 9}
        shard.put("a", "b", "c", "d")
        leases = shard.say(want=9, ahead=9).leases
        starts = [lease.in_ms for lease in leases]
        assert starts == [0, 50, 100]
        assert shard.say(refunds=[("h", -start) for start in starts]).next_due <= 20

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
