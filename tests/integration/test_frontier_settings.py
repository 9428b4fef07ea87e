"""Settings of the frontier, by what they change on a real server: from the setting to the exchange's answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from scrapy import Request
from scrapy.settings import Settings

from crawler.frontier.message import FILTER
from crawler.frontier.policy import Policy
from tests.support.shard import Shard, admission, dead_letters, until
from tests.unit.test_frontier_worker import hear, lease, worker_of

Make = Callable[..., Shard]


@pytest.fixture
def shard_of(redis: Redis) -> Make:
    """A shard whose workers have these settings."""

    def make(**settings: Any) -> Shard:
        policy = Policy.from_settings(Settings({"FRONTIER_BACKOFF": 0, **settings}))
        shard = Shard(redis, constants=policy.constants({"full": 1_000_000}, "test", fed=False, idle=0))
        assert shard.join()[0] == "begun"
        return shard

    return make


def fail(shard: Shard, times: int) -> int:
    """The host has so many failures in a row: ms that it is left alone then."""
    for _ in range(times):
        time.sleep(0.002)  # one after the other by the server's clock
        wait = shard.say(health=[("h", 0, 0, 0)]).next_due
    return int(wait)


@pytest.mark.parametrize("name", ["DOWNLOAD_DELAY", "FRONTIER_HOST_DELAY"])
def test_delay(shard_of: Make, name: str) -> None:
    shard = shard_of(**{name: 60})
    shard.put("a", "b")
    leases = shard.say(want=9, ahead=9).leases
    assert [(lease.payload, lease.delay) for lease in leases] == [(b"a", 60_000)]


def test_the_frontiers_own_delay_wins(shard_of: Make) -> None:
    """FRONTIER_HOST_DELAY over DOWNLOAD_DELAY, DOWNLOAD_SLOTS over both."""
    shard = shard_of(DOWNLOAD_DELAY=60, FRONTIER_HOST_DELAY=0, DOWNLOAD_SLOTS={"slow": {"delay": 30}})
    shard.put("a", "b")
    shard.put("c", "d", host="slow")
    delays = sorted((lease.payload, lease.delay) for lease in shard.say(want=9, ahead=9).leases)
    assert delays == [(b"a", 0), (b"b", 0), (b"c", 30_000)]


@pytest.mark.parametrize("name", ["CONCURRENT_REQUESTS_PER_DOMAIN", "FRONTIER_HOST_CONCURRENCY"])
def test_concurrency_of_a_host(name: str) -> None:
    async def main() -> None:
        worker = worker_of(**{name: 3})
        hear(worker, *(lease(str(number)) for number in range(8)))
        assert [worker.next_request() is None for _ in range(4)] == [False, False, False, True]

    asyncio.run(main())


def test_concurrency_of_a_worker() -> None:
    async def main() -> None:
        worker = worker_of(CONCURRENT_REQUESTS=3)
        assert worker.collect(1).want == 3 + 2, "a little ahead"
        hear(worker, *(lease(str(number)) for number in range(8)))
        assert [worker.next_request() is None for _ in range(4)] == [False, False, False, True]

    asyncio.run(main())


def test_order(shard_of: Make) -> None:
    shard = shard_of(FRONTIER_ORDER="lifo")
    shard.put("a", "b", "c")
    assert shard.take() == ["c", "b", "a"]


def test_lease(shard_of: Make) -> None:
    shard = shard_of(FRONTIER_LEASE=1)
    shard.put("a")
    assert shard.take() == ["a"]
    assert shard.take(worker="v") == []
    until(lambda: shard.take(worker="v") == ["a"], seconds=3)


def test_deliveries(shard_of: Make, redis: Redis) -> None:
    shard = shard_of(FRONTIER_MAX_DELIVERIES=1)
    shard.put("a")
    assert shard.take(lease=1) == ["a"]
    until(lambda: bool(shard.take(worker="v", lease=1)) or bool(dead_letters(redis, shard)), seconds=3)
    assert len(dead_letters(redis, shard)) == 1


def test_dead_letters_kept(shard_of: Make) -> None:
    shard = shard_of(FRONTIER_DEAD_MAX=3)
    shard.put(*"abcde")
    leases = shard.say(want=9, ahead=9).leases
    assert shard.say(acks=[(lease.id, 0, "why", "", b"") for lease in leases]).dead == 3


def test_backoff(shard_of: Make) -> None:
    shard = shard_of(FRONTIER_BACKOFF=7)
    shard.put("a")
    assert 6000 < fail(shard, 2) <= 7000


def test_longest_backoff(shard_of: Make) -> None:
    shard = shard_of(FRONTIER_BACKOFF=7, FRONTIER_BACKOFF_MAX=9)
    shard.put("a")
    assert 8000 < fail(shard, 4) <= 9000


def test_a_host_is_given_up(shard_of: Make) -> None:
    shard = shard_of(FRONTIER_HOST_GIVE_UP=0.001)
    shard.put("a")
    fail(shard, 4)
    time.sleep(0.002)
    assert shard.say(health=[("h", 0, 0, 0)]).gone == ["h"]


def test_pages_of_a_host(shard_of: Make) -> None:
    assert shard_of(FRONTIER_HOST_MAX_PAGES=2).put("a", "b", "c").verdicts == b"114"


def test_pages_of_a_calendar(shard_of: Make) -> None:
    shard = shard_of(FRONTIER_CALENDAR_MAX=2)
    assert shard.say(outbox=[(*admission(name), {"calendar": "c"}) for name in "abc"]).verdicts == b"116"


@pytest.mark.parametrize("pins", [0, 1])
def test_pins_of_cookie_jars(pins: int) -> None:
    async def main() -> None:
        worker = worker_of(FRONTIER_PIN_COOKIEJARS=pins)
        worker.admissions.enqueue(Request("https://h.example/", meta={"cookiejar": 1}))
        [entry] = worker.collect(1).outbox
        assert entry[1] & FILTER
        assert bool(entry[6:]) == bool(pins)

    asyncio.run(main())
