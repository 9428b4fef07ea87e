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
    BusyLoadingError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from crawler.frontier.message import Message, Reply

logger = logging.getLogger(__name__)

_PASSING = (RedisConnectionError, RedisTimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError, OSError)
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


class Link:
    """Carries messages for a `side` through `send` (packed message → packed reply) until stopped."""

    def __init__(
        self,
        side: Side,
        send: Callable[[bytes], Awaitable[bytes]],
        pack: Callable[[Message], bytes],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._side, self._send, self._pack, self._on_crash = side, send, pack, on_crash
        self._kick = asyncio.Event()
        self._busy = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._seq = 0
        self.up = True
        self.exchanges = 0
        self.observe: Callable[[float], None] = lambda seconds: None

    def start(self) -> None:
        """Begins exchanging in the background."""
        self._task = asyncio.create_task(self._run(), name="frontier exchange")

    def kick(self) -> None:
        """Exchange as soon as possible."""
        self._kick.set()

    async def stop(self) -> None:
        """Ends the background task after the exchange under way; cancelled, it drops that one too."""
        task, self._task = self._task, None
        if task is None:
            return
        try:
            async with self._busy:
                pass
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def exchange(self) -> Reply:
        """One exchange, repeated until it is answered."""
        async with self._busy:
            self._seq += 1
            message = self._side.collect(self._seq)
            began = time.perf_counter()
            data = await self._deliver(self._pack(message))
            self.observe(time.perf_counter() - began)
            self.exchanges += 1
            reply = Reply.unpack(data)
            self._side.apply(message, reply)
            return reply

    async def _run(self) -> None:
        try:
            while True:
                self._kick.clear()
                await self.exchange()
                await asyncio.sleep(_MIN_GAP)
                pause = self._side.delay()
                if pause > 0:
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._kick.wait(), pause)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # an error that nobody sees would end the crawl as "finished" with nothing done
            logger.critical("The frontier's exchange failed, the crawl can't go on: %s", error, exc_info=True)
            self._on_crash(error)

    async def _deliver(self, data: bytes) -> bytes:
        pause, down_since = _BACKOFF[0], 0.0
        while True:
            try:
                reply = await self._send(data)
            except _PASSING as error:
                if self.up:
                    self.up, down_since = False, time.monotonic()
                    logger.error("Redis does not answer (%s): keeping the work at hand and trying again", error)
            except ResponseError as error:
                if not str(error).startswith(_PASSING_CODES):
                    raise
                if self.up:
                    self.up, down_since = False, time.monotonic()
                    logger.error("Redis refuses work for now (%s): trying again", error)
            except RedisError:
                raise
            else:
                if not self.up:
                    self.up = True
                    logger.warning("Redis answers again after %.1f s", time.monotonic() - down_since)
                return reply
            await asyncio.sleep(pause)
            pause = min(pause * 2, _BACKOFF[1])
