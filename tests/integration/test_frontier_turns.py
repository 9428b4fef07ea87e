"""Turns of a host that no lease stands for: media wait for one like everything else, whichever worker asks."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from redis import Redis

from crawler.frontier.hosts import HostNews
from crawler.frontier.message import Message
from tests.support.shard import Shard

DELAY = 60_000


@pytest.fixture
def shard(redis: Redis) -> Shard:
    shard = Shard(redis)
    shard.join()
    shard.constants |= {"delay": DELAY, "concurrency": 9}
    return shard


def test_no_two_requests_of_a_host_have_the_same_turn(shard: Shard) -> None:
    """Pages leased by one worker, files of two: all starts are a delay apart."""
    shard.put("a", "b")
    starts: list[int] = []

    def say(worker: str, **fields: Any) -> None:
        reply = shard.say(worker, **fields)
        starts.extend(reply.now + lease.in_ms for lease in reply.leases)
        starts.extend(reply.now + in_ms for host, in_ms in reply.turns if host == "h")

    say("v", want=1, ahead=9)
    say("w", turns=["h", "other", "h"])
    say("v", turns=["h"])
    say("w", want=9, ahead=9)
    assert len(starts) == 4, "the second page is not due yet"
    starts.sort()
    assert [later - earlier for earlier, later in pairwise(starts)] == [DELAY] * 3
    reply = shard.say("v", turns=["other"])
    assert abs(reply.turns[0][1] - DELAY) < 5000


def test_a_repeated_message_reserves_nothing_more(shard: Shard) -> None:
    first = shard.say(turns=["h"])
    assert shard.say(turns=["h"], repeat=True) == first
    [(host, in_ms)] = shard.say(turns=["h"]).turns
    assert host == "h"
    assert DELAY - 5000 < in_ms <= DELAY


def test_who_asks_first_has_the_first_turn() -> None:
    async def main() -> None:
        news, message = HostNews(1, {}, lambda: 100.0), Message("w", 1, "1")
        first, gone, last = (news.ask_turn("h") for _ in range(3))
        news.drain(message)
        assert message.turns == ["h"] * 3
        gone.cancel()
        for seconds in (1.0, 2.0, 3.0):
            news.turn("h", seconds)
        assert (await first, await last) == (101.0, 103.0)

    asyncio.run(main())
