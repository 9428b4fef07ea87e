"""The one exchange, spoken directly: what is admitted, leased, acknowledged, reclaimed, and never done twice."""

from __future__ import annotations

import time
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from crawler.frontier.message import ADD, FILTER, LOCAL, START
from tests.support.server import RedisServer
from tests.support.shard import CONSTANTS, Shard, admission, dead_letters, finish, until


@pytest.fixture
def shard(redis: Redis) -> Shard:
    made = Shard(redis)
    assert made.join()[0] == "begun"
    return made


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

    def test_only_a_leaving_worker_ends_a_run_with_a_full_memory(self, shard: Shard) -> None:
        """Hosts that fail send requests back all the time: the pages that still wait for room must not be cut off."""
        shard.put("a", "b")
        leases = shard.say(want=2, ahead=9).leases
        assert shard.say(full=True, gives=[leases[0].id]).state == "running"
        assert shard.say(full=True).state == "running"
        assert shard.say(full=True, gives=[leases[1].id], bye=True).state == "full"

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
