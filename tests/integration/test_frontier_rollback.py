"""A server that lost its latest writes (a power cut, a failover): what was built on them is done again."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from tests.support.shard import Shard, Snapshot


@pytest.fixture
def shard(redis: Redis) -> Shard:
    shard = Shard(redis)
    shard.join()
    return shard


def test_a_page_whose_links_are_gone_is_not_acknowledged(shard: Shard, redis: Redis) -> None:
    shard.put("parent", "other")
    [parent] = shard.say(want=1).leases
    before = Snapshot(redis)
    shard.put("child")  # the reply says that it is safe, so the worker acknowledges its parent
    before.restore()
    reply = shard.say(acks=[(parent.id, 0, "", "", b"")], want=9, ahead=9)
    assert reply.lost == [b"*", parent.id]
    assert sorted(lease.payload for lease in reply.leases) == [b"other", b"parent"]
    assert [lease.redeliveries for lease in reply.leases] == [0, 0], "no worker died of it"
    assert shard.put("child").verdicts == b"1", "its fingerprint is gone as well"


def test_an_ordinary_worker_a_new_one_and_a_lost_reply_are_no_rollback(shard: Shard) -> None:
    shard.put("a")
    [lease] = shard.say(want=1).leases
    assert shard.say(repeat=True, want=1).lost == []
    assert shard.say("new").lost == []
    assert shard.say("new").lost == []
    assert shard.say(acks=[(lease.id, 0, "", "", b"")]).lost == []


def test_a_lost_reply_to_a_good_bye_is_no_rollback_either(shard: Shard) -> None:
    shard.put("a")
    [lease] = shard.say(want=1).leases
    fields: dict[str, Any] = {"bye": True, "gives": [lease.id], "dropped": {"depth": 1}}
    last = shard.say(**fields)
    assert shard.say(repeat=True, **fields) == last
    assert (last.lost, last.queued) == ([], 1)
    meta: Any = shard.client.hgetall(f"{shard.keys.frontier}:meta")
    assert meta[b"dropped:depth"] == b"1", "executed once"
    assert shard.client.exists(f"{shard.keys.frontier}:replies") == 0


def test_each_worker_hears_of_it_by_itself(shard: Shard, redis: Redis) -> None:
    shard.put("a", "b")
    shard.say("v")
    before = Snapshot(redis)
    for worker in ("w", "v"):
        shard.say(worker, want=1)
    before.restore()
    assert [shard.say(worker).lost for worker in ("w", "v", "w", "v")] == [[b"*"], [b"*"], [], []]
