"""Several shards as one frontier: nothing lost or doubled, one end, whatever the network does to single calls."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
import redis as redis_py

from crawler.frontier.message import LATER, NEW, Message, Reply
from crawler.frontier.quiet import NOT_QUIET, Quiet
from crawler.frontier.script import source
from crawler.frontier.shards import Shards
from crawler.keys import Keys, shard_of
from tests.support.shard import Shard, Snapshot, admission
from tests.support.shards import Fleet, Walker


def crawl(fleet: Fleet, walkers: list[Walker], mortal: int = 0) -> None:
    """All walkers at once; the last `mortal` ones die at some moment."""

    async def main() -> None:
        dice = fleet.dice
        lives = [dice.randrange(2, 12) if n >= len(walkers) - mortal else 10_000 for n in range(len(walkers))]

        def died(number: int) -> bool:
            lives[number] -= 1
            return lives[number] < 0

        await asyncio.gather(*(walker.crawl(lambda n=n: died(n)) for n, walker in enumerate(walkers)))  # type: ignore[misc]

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_crawled_once_and_the_run_ends_when_all_is_done(redis: redis_py.Redis, seed: int) -> None:
    fleet = Fleet(redis, random.Random(seed), shards=1 + seed % 4, losses=0.1 if seed % 2 else 0.0)
    redis.rpush(fleet.seed_key, "a900", "b901")
    fleet.links |= {"a900": [], "b901": []}
    crawl(fleet, [Walker(fleet, "w0", fleet.names[:1]), *(Walker(fleet, f"w{n}") for n in (1, 2))])
    counts = Counter(fleet.crawled)
    assert set(counts) >= set(fleet.names)
    assert {name: n for name, n in counts.items() if n > 1 and name not in ("a900", "b901")} == {}
    assert fleet.finished == 3


@pytest.mark.parametrize("seed", range(4))
def test_a_single_request_that_wanders_between_shards_is_no_end(redis: redis_py.Redis, seed: int) -> None:
    fleet = Fleet(redis, random.Random(seed), shards=3, pages=30, chain=True)
    roots = [fleet.names[0]] if seed % 2 else fleet.names[:1] + fleet.names[15:16] + fleet.names[25:26]
    crawl(fleet, [Walker(fleet, "w0", roots), *(Walker(fleet, f"w{n}") for n in (1, 2, 3))])
    assert Counter(fleet.crawled) == Counter(fleet.names)


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_that_dies_loses_nothing_on_any_shard(redis: redis_py.Redis, seed: int) -> None:
    fleet = Fleet(redis, random.Random(seed), shards=3, losses=0.1)
    crawl(fleet, [Walker(fleet, "w0", fleet.names[:1]), Walker(fleet, "w1"), Walker(fleet, "w2")], mortal=1)
    assert set(fleet.crawled) == set(fleet.names)
    assert fleet.finished >= 2


def test_emptiness_counts_only_when_all_were_empty_at_one_moment() -> None:
    quiet = Quiet(2)
    quiet.look(0, 0, 5, asked=1, answered=2)
    quiet.look(1, 0, 7, asked=3, answered=4)
    assert quiet.home_ids == NOT_QUIET  # the first may have got something from the second in between
    quiet.look(0, 0, 6, asked=5, answered=6)
    quiet.look(1, 0, 7, asked=5, answered=6)
    assert quiet.home_ids == NOT_QUIET  # it did
    quiet.look(0, 0, 6, asked=7, answered=8)
    assert quiet.home_ids == NOT_QUIET  # the second was last asked before the first was known to be empty again
    quiet.look(1, 0, 7, asked=7, answered=8)
    assert quiet.home_ids == 6
    quiet.look(1, 1, 8, asked=9, answered=10)
    assert quiet.home_ids == NOT_QUIET


def test_what_was_known_before_the_end_of_start_ends_nothing(redis: redis_py.Redis) -> None:
    """start() may have put requests on other shards since all were found empty; a seed that was taken, too."""
    home = Shard(redis)
    home.join()
    before = home.say("a", quiet=NOT_QUIET).ids
    assert home.say("b", quiet=NOT_QUIET, start="want").start == "yours"
    assert home.say("b", quiet=NOT_QUIET, start="done").start == "done"
    after = home.say("a", quiet=before)
    assert after.state == "running"
    redis.rpush(home.seed_key, "seed")
    [lease] = home.say("b", quiet=NOT_QUIET, seeds=1).leases
    home.say("b", quiet=NOT_QUIET, acks=[(lease.id, 0, "", "", b"")])
    last = home.say("a", quiet=after.ids)
    assert last.state == "running"
    assert home.say("a", quiet=NOT_QUIET).state == "running"
    assert home.say("a", quiet=last.ids).state == "finished"
    assert home.say("a", revive=True, quiet=NOT_QUIET).state == "running"


def test_a_shard_without_memory_keeps_the_order_of_what_was_admitted_elsewhere(redis: redis_py.Redis) -> None:
    """The verdicts after the first "later" are kept, not asked for again: asked twice, "new" would become "seen"."""
    fleet = Fleet(redis, random.Random(1), shards=2)
    hosts = {shard_of(host, 2): host for host in "abcdefgh"}
    walker = Walker(fleet, "w")
    full = {fleet.keys[0].frontier}
    asked: list[int] = []

    async def deliver(send: object, message: Message) -> bytes:
        sparing = bool(full) and bool(message.outbox) and shard_of(message.outbox[0][0], 2) == 0
        names = next(k for k in fleet.keys if send is walker.carrier._shards[k.shard].send)
        asked.append(len(message.outbox))
        packed = message.pack(fleet.constants, drain=sparing)
        reply = redis.evalsha(fleet.sha, 3, names.frontier, names.dedup, "none", packed)
        return bytes(reply)

    async def main() -> None:
        entries = [(hosts[n % 2], 3, b"%d" % n, b"%d" % n, 0, b"%d" % n) for n in range(4)]
        first = await walker.carrier.carry(Message("w", 1, fleet.run, outbox=list(entries)), deliver)
        assert first.verdicts[0] == LATER
        full.clear()
        second = await walker.carrier.carry(Message("w", 2, fleet.run, outbox=list(entries)), deliver)
        assert list(second.verdicts) == [NEW] * 4

    asyncio.run(main())
    assert sorted(asked) == [2, 2, 2]
    assert fleet.held() == 4


def test_what_a_shard_lost_before_its_replicas_had_it_is_asked_again(redis: redis_py.Redis) -> None:
    """Its answer was kept until replicas would have it; the failover took the page, and the answer with it."""
    fleet = Fleet(redis, random.Random(1), shards=2)
    host = next(host for host in "abcdefgh" if shard_of(host, 2) == 1)
    walker, safe = Walker(fleet, "w"), {0, 1}
    carrier = Shards([fleet.send(keys) for keys in fleet.keys], safe.__contains__, clock=fleet.clock)
    outbox = [admission("page", host), admission("twice", host, flags=0)]
    seq = iter(range(1, 9))

    async def say(**fields: Any) -> Reply:
        return await carrier.carry(Message("w", next(seq), fleet.run, **fields), walker.deliver)

    async def main() -> None:
        await say(outbox=[admission("before", host)])
        before = Snapshot(redis)
        safe.discard(1)
        assert (await say(outbox=outbox)).verdicts == bytes([LATER] * 2)
        home = {key: redis.dump(key) for key in redis.scan_iter(f"{fleet.keys[0].frontier}*")}
        before.restore()  # of the one shard, not of the home
        for key, dump in home.items():
            assert dump is not None
            redis.restore(key, 0, dump, replace=True)
        assert (await say(outbox=outbox)).lost == [b"1:*"]
        safe.add(1)
        assert (await say(outbox=outbox)).verdicts == bytes([NEW] * 2)

    asyncio.run(main())
    assert fleet.held() == 3


@pytest.mark.parametrize("flushed", [[0], [1], [0, 1]])
def test_a_run_that_was_flushed_is_lost_whatever_was_on_its_way_to_it(
    redis: redis_py.Redis, flushed: list[int]
) -> None:
    fleet = Fleet(redis, random.Random(1), shards=2)
    hosts = {shard_of(host, 2): host for host in "abcdefgh"}
    walker = Walker(fleet, "w")
    for n in range(4):
        walker.outbox.add(admission(f"{n}", hosts[n % 2]), None)  # type: ignore[arg-type]

    async def main() -> None:
        assert (await walker.carrier.carry(Message("w", 1, fleet.run), walker.deliver)).state == "running"
        for index in flushed:
            redis.eval(source("flush"), 1, fleet.keys[index].frontier, "begin", "")
        reply = await walker.carrier.carry(Message("w", 2, fleet.run, outbox=walker.outbox.batch(9)), walker.deliver)
        assert reply.state == "lost"
        assert len(list(walker.outbox.confirm(reply.verdicts))) == (0 not in flushed), "the oldest is on the home"

    asyncio.run(main())


def test_the_shard_of_a_host_never_changes() -> None:
    assert [shard_of(host, 16) for host in ("example.com", "xn--bcher-kva.example", "127.0.0.1", "")] == [9, 6, 8, 0]
    assert Keys("crawler", "books", "all").spread(2)[1].frontier == "{crawler:all:1}:books"
