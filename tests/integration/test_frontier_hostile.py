"""Sizes, names and news that no ordinary site has: they cost at most their own request, never the crawl."""

from __future__ import annotations

import time
from typing import Any

import msgpack
import pytest
from redis import Redis

from crawler.frontier.hosts import HostNews, retry_after
from crawler.frontier.message import ADD, FILTER, LOCAL, Message
from crawler.frontier.outbox import Outbox
from tests.support.shard import Shard, admission


@pytest.fixture
def shard(redis: Redis) -> Shard:
    shard = Shard(redis)
    shard.join()
    return shard


def fill(shard: Shard, count: int, hosts: int = 1) -> None:
    """So many queued requests, as many at once as a worker sends."""
    for first in range(0, count, 256):
        shard.say(outbox=[admission(f"p{n}", f"h{n % hosts}") for n in range(first, min(count, first + 256))])


@pytest.mark.parametrize("hosts", [1, 9000])
def test_one_exchange_may_lease_renew_and_give_back_any_number(shard: Shard, redis: Redis, hosts: int) -> None:
    count = 9000  # more than Lua can spread over the arguments of one call
    fill(shard, count, hosts)
    leases = shard.say(want=count, ahead=count).leases
    assert len(leases) == count
    ids = [lease.id for lease in leases]
    assert shard.say(renew=ids, locals=ids).lost == []
    reply = shard.say(gives=ids)
    assert (reply.lost, reply.queued, reply.leased) == ([], count, 0)
    ids = [lease.id for lease in shard.say(want=count, ahead=count).leases]
    shard.seqs["w"] += 1  # the server seems to have lost its latest writes
    assert shard.say().lost == [b"*"]
    ids = [lease.id for lease in shard.say(want=count, ahead=count).leases]
    assert len(ids) == count
    reply = shard.say(acks=[(lease_id, 0, "", "", b"") for lease_id in ids])
    assert (reply.lost, reply.queued, reply.leased) == ([], 0, 0)
    assert redis.hlen(f"{shard.keys.frontier}:requests") == 0


@pytest.mark.parametrize("recovers", [True, False])
def test_what_comes_back_while_a_host_that_was_given_up_is_buried(shard: Shard, recovers: bool) -> None:
    shard.constants |= {"give_up": 1, "backoff": 0, "dead_max": 2000}
    fill(shard, 900)
    held = [lease.id for lease in shard.say("v", want=20, ahead=20).leases]
    while not shard.say(health=[("h0", 0, 0, 0)]).gone:
        time.sleep(0.002)  # the next failure is one of its own
    reply = shard.say("v", gives=held, health=[("h0", 0, 0, 0)])  # the other worker heard of it too
    assert reply.queued > 200, "the burial takes a while"
    if recovers:
        shard.say(health=[("h0", 1, 0, 0)])
    for _ in range(10):
        reply = shard.say(want=50, ahead=50)
        shard.say(acks=[(lease.id, 0, "failed", "", b"") for lease in reply.leases])
    assert (reply.queued, reply.leased) == (0, 0)
    assert shard.say().dead == 900


def test_what_only_a_dead_worker_could_run_is_new_when_its_parent_is(shard: Shard, redis: Redis) -> None:
    shard.say("v", outbox=[admission("child", flags=FILTER | ADD | LOCAL)])
    workers = f"{shard.keys.frontier}:workers"
    packed: Any = redis.hget(workers, "v")
    beat = msgpack.unpackb(packed)
    redis.hset(workers, "v", msgpack.packb([beat[0] - 4000, *beat[1:]]))  # leases of 6 s, renewed 2 s before it died
    assert shard.say(lease=6000, outbox=[admission("child", flags=FILTER | ADD | LOCAL)]).verdicts == b"1"


def test_texts_that_are_no_unicode_travel(shard: Shard) -> None:
    shard.put("a")
    [lease] = shard.say(want=1).leases
    reply = shard.say(acks=[(lease.id, 0, "callback: ValueError: \udcff", "http://h/\udcff", b"")])
    assert (reply.dead, reply.leased) == (1, 0)


@pytest.mark.parametrize("priority", [1, -1, 9000, -9000, 10**6, -(10**6)])
def test_first_in_first_out_within_any_priority(shard: Shard, priority: int) -> None:
    shard.client.hset(f"{shard.keys.frontier}:meta", "ids", 10**9 - 50)  # ids that grow longer: equal orders go by text
    names = [f"p{n:03}" for n in range(99)]
    shard.put("higher", priority=priority + 1)
    shard.put(*names, priority=priority)
    assert shard.take() == ["higher", *names]


@pytest.mark.parametrize("header", ["9" * 30, "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00"])
def test_any_retry_after_travels(header: str) -> None:
    news, message = HostNews(0, {}, time.monotonic), Message("w", 1, "1")
    news.failed("h", 0.0, retry_after(header))
    news.drain(message)
    message.pack({})


def test_large_requests_go_in_several_messages() -> None:
    outbox = Outbox()
    for size in (20_000_000, 1000, 1000, *[3_000_000] * 10):
        outbox.add(("h", 0, b"", b"", 0, bytes(size)), None)  # type: ignore[arg-type]
    sent = []
    while batch := outbox.batch(256):
        sent.append(len(batch))
        list(outbox.confirm(b"1" * len(batch)))
    assert sent == [1, 4, 2, 2, 2, 2]
