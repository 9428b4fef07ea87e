"""Cookie jars that are pinned to one worker: who gets their requests, and what happens when that worker is gone."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from redis import Redis

from crawler.frontier.control import Control
from crawler.frontier.message import Lease
from crawler.frontier.seedkey import SeedKey
from tests.support.shard import CONSTANTS, Shard, admission

LEASE = CONSTANTS["lease"]


@pytest.fixture
def shard(redis: Redis) -> Shard:
    """A shard with a run begun."""
    shard = Shard(redis)
    shard.join()
    for worker in ("w", "v"):
        shard.say(worker)
    return shard


def put(shard: Shard, *names: str, worker: str = "w", host: str = "h") -> None:
    """Admits requests: ``1a`` is of the jar 1, ``-a`` of none."""
    outbox = [admission(name, host) if name[0] == "-" else (*admission(name, host), {"jar": name[0]}) for name in names]
    shard.say(worker, outbox=outbox)


def take(shard: Shard, worker: str, want: int = 1, **fields: Any) -> list[Lease]:
    """Leases one request, or with a larger `want` all that the worker may have."""
    found = shard.say(worker, want=want, ahead=100, **fields).leases
    while want > 1 and (more := shard.say(worker, want=want, ahead=100, **fields).leases):  # the others leave some
        found += more
    return found


def names(leases: list[Lease]) -> list[str]:
    return [lease.payload.decode() for lease in leases]


def die(shard: Shard, redis: Redis, worker: str) -> None:
    """The worker was last heard of more than a lease ago, and its leases are over."""
    base = shard.keys.frontier
    beat: Any = redis.hget(f"{base}:workers", worker)
    old = msgpack.unpackb(beat, raw=True)
    redis.hset(f"{base}:workers", worker, msgpack.packb([old[0] - LEASE - 1000, *old[1:]], use_bin_type=False))
    owners: Any = redis.hgetall(f"{base}:owners")
    for lease_id, owner in owners.items():
        if owner.startswith(worker.encode()):
            redis.zadd(f"{base}:leases", {lease_id: 1})


def test_all_requests_of_a_jar_go_to_the_worker_that_had_its_first(shard: Shard) -> None:
    put(shard, "1a", "2a", "1b", "2b", "-c", "1d")
    assert names(take(shard, "w")) == ["1a"]
    assert names(take(shard, "v")) == ["2a"]
    assert names(take(shard, "v", 9)) == ["2b", "-c"], "not those of jar 1"
    put(shard, "1e", "2e", worker="v")
    assert names(take(shard, "v", 9)) == ["2e"]
    assert names(take(shard, "w", 9)) == ["1b", "1d", "1e"]


def test_what_is_given_back_comes_back_to_the_same_worker(shard: Shard) -> None:
    put(shard, "1a", "1b")
    [lease] = take(shard, "w")
    shard.say("w", gives=[lease.id])
    assert take(shard, "v", 9) == []
    assert names(take(shard, "w", 9)) == ["1a", "1b"]


@pytest.mark.parametrize("how", ["died", "left"])
def test_the_jar_of_a_worker_that_is_gone_goes_to_another_as_a_whole(shard: Shard, redis: Redis, how: str) -> None:
    put(shard, *[f"1{i}" for i in range(500)])
    [lease] = take(shard, "w")
    assert take(shard, "v", 9) == [], "they wait for w"
    assert take(shard, "v", 9) == []
    if how == "died":
        die(shard, redis, "w")
    else:
        shard.say("w", gives=[lease.id], bye=True)
    shard.say("u")
    found: dict[str, list[str]] = {worker: [] for worker in ("u", "v")}
    for _ in range(300):
        for worker, had in found.items():
            leases = take(shard, worker, 9)
            had.extend(names(leases))
            shard.say(worker, acks=[(lease.id, 0, "", "", b"") for lease in leases])
    assert sorted(map(len, found.values())) == [0, 500], "one worker has the whole jar"


def test_a_worker_that_is_silent_for_less_than_a_lease_keeps_its_jar(shard: Shard, redis: Redis) -> None:
    put(shard, "1a", "1b")
    take(shard, "w")
    die(shard, redis, "w")
    redis.hset(f"{shard.keys.frontier}:meta", "seen", 1)  # but nobody was heard of: an outage
    assert take(shard, "v", 9) == []
    assert names(take(shard, "w", 9)) == ["1b"]


def test_the_pace_of_a_host_is_one_for_pinned_and_others(shard: Shard) -> None:
    paced: dict[str, Any] = {"delay": 10_000, "concurrency": 1}
    put(shard, "1a", "1b", "-c", "-d")
    [first] = take(shard, "w", **paced)
    assert names([first]) == ["1a"]
    for worker in ("v", "w"):
        assert take(shard, worker, 9, **paced) == [], "the host is busy"
    shard.say("w", acks=[(first.id, 0, "", "", b"")], **paced)
    for worker in ("v", "w", "w"):
        assert take(shard, worker, 9, **paced) == [], "the host is not due"
    due: Any = shard.client.zscore(f"{shard.keys.frontier}:due", "h")
    shard.client.delete(f"{shard.keys.frontier}:due")
    assert due
    for line in ("mine:w", "ready"):
        shard.client.zadd(f"{shard.keys.frontier}:{line}", {"h": 1}, xx=True)
    assert names(take(shard, "w", 9, **paced)) == ["1b"]
    assert take(shard, "v", 9, **paced) == []


def test_a_dead_letter_keeps_its_jar(shard: Shard, redis: Redis) -> None:
    put(shard, "1a", "1b")
    [lease] = take(shard, "w")
    shard.say("w", acks=[(lease.id, 0, "callback: broken", "", b"")])
    letters: Any = redis.xrange(f"{shard.keys.frontier}:dead")
    assert letters[0][1][b"jar"] == b"1"


def test_a_run_that_ends_leaves_no_pins(shard: Shard, redis: Redis) -> None:
    put(shard, "1a", "1b", "2a")
    for worker in ("w", "v", "w", "w"):
        leases = take(shard, worker)
        shard.say(worker, acks=[(lease.id, 0, "", "", b"") for lease in leases])
    shard.say("w", start="want")
    shard.say("v")
    assert shard.say("w", start="done").state == "finished"
    left = {key.decode().removeprefix(f"{shard.keys.frontier}:").split(":")[0] for key in redis.keys("*")}  # type: ignore[union-attr]
    assert left.isdisjoint({"pins", "jars", "holders", "mine", "pinned", "queue"}), left


def test_the_list_of_hosts_counts_pinned_requests(shard: Shard, redis: Redis) -> None:
    put(shard, "1a", "1b", "1c", "2a", "2b", "-d")
    put(shard, "1x", host="only-pinned")
    assert names(take(shard, "w", 1, skip=["only-pinned"])) == ["1a"]
    for host in ("only-pinned", "h"):  # meets requests of the jar that w holds, and leaves them to w
        assert take(shard, "v", 1, skip=[host]) == []
    control = Control(redis, shard.keys.frontier, SeedKey("seeds", "list"))
    assert {row.host: row.queued for row in control.hosts(10)} == {"h": 5, "only-pinned": 1}
    assert control.status()["queued"] == 6
    assert len(control.hosts(1)) == 1
