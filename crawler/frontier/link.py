"""The worker's side of the one exchange: a background task that carries messages, in order and each exactly once.

A message keeps its number until its reply arrives, however often it must be sent, and the script answers a repeated
number without executing anything: a lost reply, a cut connection or a restarted server never does a thing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from crawler.frontier.message import Message, Reply

logger = logging.getLogger(__name__)

_PASSING = (
    *(RedisConnectionError, RedisTimeoutError, BusyLoadingError, ReadOnlyError, OSError),
    *(AskError, ClusterDownError, TryAgainError),  # AskError: MOVED too
)
_PASSING_CODES = ("MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "BUSY ")
_BACKOFF = (0.05, 2.0)  # seconds: first and longest pause between attempts
_MIN_GAP = 0.005  # seconds between two exchanges, so that the reactor gets its turn


class Side(Protocol):
    """Who fills the messages and takes the replies: the scheduler."""

    def collect(self, seq: int) -> Message:
        """The message with this number."""

    def apply(self, message: Message, reply: Reply) -> None:
        """Takes the answer to `message`."""

    def delay(self) -> float:
        """Seconds until the next exchange is worth it."""


Send = Callable[[Message, bool], Awaitable[bytes]]  # message, must it spare memory → packed reply


class Carrier(Protocol):
    """How one message gets to several shards, and their answers become one reply."""

    async def carry(self, message: Message, deliver: Callable[[Send, Message], Awaitable[bytes]]) -> Reply:
        """Sends parts of the message by `deliver`, which tries until it is answered."""
        ...


class Link:
    """Carries messages for a `side` until stopped: through `send`, or to several shards by a `carrier`."""

    def __init__(self, side: Side, send: Send | Carrier, on_crash: Callable[[BaseException], Awaitable[None]]) -> None:
        self._side, self._send, self._on_crash = side, send, on_crash
        self._kick = asyncio.Event()
        self._busy = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._seq, self._stopping = 0, False
        self._down: set[Send] = set()  # what does not get through at the moment
        self._down_since = 0.0
        self.exchanges = 0
        self.observe: Callable[[float], None] = lambda seconds: None

    @property
    def up(self) -> bool:
        """Whether everything gets through."""
        return not self._down

    def start(self) -> None:
        """Begins exchanging in the background, when there is something to say: the first exchange was by hand."""
        self._task = asyncio.create_task(self._run(), name="frontier exchange")

    def kick(self) -> None:
        """Exchange as soon as possible."""
        self._kick.set()

    async def stop(self) -> None:
        """Ends the background task after the exchange under way; cancelled, it drops that one too."""
        task, self._task = self._task, None
        if task is None:
            return
        self._stopping = True
        self.kick()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def exchange(self) -> Reply:
        """One exchange, repeated until it is answered."""
        async with self._busy:
            message = self._side.collect(self._seq + 1)
            self._seq += 1
            began = time.perf_counter()
            try:
                reply = await self._carry(message)
            except ResponseError:
                self._seq -= 1  # refused: the number was not used
                raise
            self.observe(time.perf_counter() - began)
            self.exchanges += 1
            self._side.apply(message, reply)
            return reply

    async def _run(self) -> None:
        try:
            await self._rest()
            while not self._stopping:
                self._kick.clear()
                await self.exchange()
                await asyncio.sleep(_MIN_GAP)
                await self._rest()
        except asyncio.CancelledError:
            raise
        except ResponseError as error:
            await self._on_crash(error)
        except Exception as error:  # an error that nobody sees would end the crawl as "finished" with nothing done
            logger.critical("The frontier's exchange failed, the crawl can't go on: %s", error, exc_info=True)
            await self._on_crash(error)

    async def _rest(self) -> None:
        """Until it is time for the next exchange, or somebody asks for it."""
        pause = self._side.delay()
        if pause > 0 and not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._kick.wait()

    async def _carry(self, message: Message) -> Reply:
        if callable(self._send):
            return Reply.unpack(await self._deliver(self._send, message))
        return await self._send.carry(message, self._deliver)

    async def _deliver(self, send: Send, message: Message) -> bytes:
        pause, sparing = _BACKOFF[0], False
        while True:
            try:
                reply = await send(message, sparing)
            except OutOfMemoryError as error:
                if not sparing:  # refused before it did anything: at once again, without what needs memory
                    sparing = True
                    self._is_down(send, f"is out of memory ({error}): nothing new is queued until there is some")
                    continue
            except _PASSING as error:
                self._is_down(send, f"does not answer ({error}): keeping the work at hand and trying again")
            except ResponseError as error:
                if not str(error).startswith(_PASSING_CODES):
                    raise
                self._is_down(send, f"refuses work for now ({error}): trying again")
            else:
                if not sparing:
                    self._is_up(send)
                return reply
            await asyncio.sleep(pause)
            pause = min(pause * 2, _BACKOFF[1])

    def _is_down(self, send: Send, what: str) -> None:
        """Says once that Redis can't do its work."""
        if not self._down:
            self._down_since = time.monotonic()
            logger.error("Redis %s", what)
        self._down.add(send)

    def _is_up(self, send: Send) -> None:
        if self._down:
            self._down.discard(send)
            if not self._down:
                logger.warning("Redis works again after %.1f s", time.monotonic() - self._down_since)
