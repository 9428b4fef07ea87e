"""The link: every message until it is answered, in order; errors are seen; it stops at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgpack
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ResponseError

from crawler.frontier.link import Link
from crawler.frontier.message import Message, Reply


def answer(message: Message) -> bytes:
    """What the script would say to an empty message."""
    reply = [message.seq, 0, b"", [], [], [], b"running", 0, 0, 0, -1, b"", 0, 0, b"", 0, [], False, [], []]
    packed: bytes = msgpack.packb(reply, use_bin_type=False) + msgpack.packb([])
    return packed


class Side:
    """A scheduler that only counts."""

    def __init__(self, pause: float = 60.0) -> None:
        self.pause = pause
        self.applied: list[int] = []

    def collect(self, seq: int) -> Message:
        return Message("w", seq, "1")

    def apply(self, message: Message, reply: Reply) -> None:
        assert message.seq == reply.seq
        self.applied.append(reply.seq)

    def delay(self) -> float:
        return self.pause


def run(coroutine: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await coroutine

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for happens in code that knows no event of ours
        await asyncio.sleep(0)


async def prompt(message: Message, sparing: bool) -> bytes:
    return answer(message)


async def no_crash(error: BaseException) -> None:
    raise AssertionError from error


def test_a_link_that_is_kicked_and_stopped_in_one_breath_stops_at_once() -> None:
    async def main() -> None:
        for _ in range(20):
            side = Side()
            link = Link(side, prompt, no_crash)
            await link.exchange()
            link.start()
            await asyncio.sleep(0.01)  # it waits for the next kick now
            link.kick()
            began = asyncio.get_running_loop().time()
            async with asyncio.timeout(5):
                await link.stop()
            assert asyncio.get_running_loop().time() - began < 1

    run(main())


def test_a_kick_is_answered_without_waiting() -> None:
    async def main() -> None:
        side = Side()
        link = Link(side, prompt, no_crash)
        await link.exchange()
        link.start()
        for count in range(1, 5):
            await until(lambda count=count: len(side.applied) >= count)  # type: ignore[misc]
            link.kick()
        await link.stop()
        assert side.applied[:4] == [1, 2, 3, 4]

    run(main())


def test_a_link_that_starts_says_nothing_until_it_is_asked() -> None:
    async def main() -> None:
        side = Side()
        link = Link(side, prompt, no_crash)
        await link.exchange()
        link.start()
        await asyncio.sleep(0.02)  # longer than the gap between two exchanges
        assert side.applied == [1], "what a worker has to say first, its start requests, would wait for this one"
        link.kick()
        await until(lambda: len(side.applied) == 2)
        await link.stop()

    run(main())


def test_the_same_message_is_sent_until_it_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Message] = []

    async def lossy(message: Message, sparing: bool) -> bytes:
        sent.append(message)
        if len(sent) < 3:
            raise RedisConnectionError("reset by peer")
        return answer(message)

    async def main() -> None:
        side = Side()
        link = Link(side, lossy, no_crash)
        assert (await link.exchange()).seq == 1
        assert side.applied == [1]
        assert link.up

    run(main())
    assert len(sent) == 3
    assert len({id(message) for message in sent}) == 1
    texts = [record.getMessage() for record in caplog.records]
    assert [text.split(" ")[1] for text in texts] == ["does", "works"]  # an outage is told once, and its end


def test_a_server_out_of_memory_gets_the_message_that_spares_it() -> None:
    sparing_sent: list[bool] = []

    async def full(message: Message, sparing: bool) -> bytes:
        sparing_sent.append(sparing)
        if not sparing:
            raise OutOfMemoryError("command not allowed when used memory > 'maxmemory'")
        return answer(message)

    async def main() -> None:
        link = Link(Side(), full, no_crash)
        await link.exchange()
        assert not link.up

    run(main())
    assert sparing_sent == [False, True]


def test_a_number_that_the_server_did_not_take_is_used_again() -> None:
    seen: list[int] = []

    async def refuses(message: Message, sparing: bool) -> bytes:
        seen.append(message.seq)
        if len(seen) == 1:
            raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return answer(message)

    async def main() -> None:
        side = Side()
        link = Link(side, refuses, no_crash)
        with pytest.raises(ResponseError):
            await link.exchange()
        await link.exchange()
        await link.exchange()

    run(main())
    assert seen == [1, 1, 2], "else the server takes the next one for a sign of lost writes"


def test_an_error_that_will_not_pass_is_seen() -> None:
    crashes: list[BaseException] = []

    async def crash(error: BaseException) -> None:
        crashes.append(error)

    async def broken(message: Message, sparing: bool) -> bytes:
        raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")

    async def main() -> None:
        link = Link(Side(), broken, crash)
        link.start()
        link.kick()
        await until(lambda: bool(crashes))
        await link.stop()

    run(main())
    assert [type(crash) for crash in crashes] == [ResponseError]
