"""What only Redis knows (hosts, workers, seeds, the memory's fill): asked when somebody looks, in a thread of its own.

One sample is a few round trips of some cheap commands each, whatever the size of the crawl.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack
from redis.exceptions import RedisError, ResponseError

from crawler.dedup.stored import Stored, read_stored
from crawler.frontier.control import LIVE
from crawler.metrics.memory import Bloom, bloom_of

if TYPE_CHECKING:
    import redis

FORGOTTEN = 900.0
"""Seconds after which a worker that vanished without a word is not reported any more."""

FAR = 60.0
"""A host whose turn is further away than this (or than two ordinary delays) was told to wait, or fails."""


@dataclass(frozen=True, slots=True)
class Server:
    """What the server tells of its memory, in bytes (`most` is 0 without a limit), and how many keys it gave up."""

    used: int
    most: int
    evicted: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The frontier as Redis has it. Times are seconds."""

    oldest: float = 0.0
    hosts: dict[str, int] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)
    seeds: int = 0
    bloom: Bloom | None = None
    server: Server | None = None


class Sampler:
    """Takes samples through a client of its own, at most one per `every` seconds, however many look."""

    def __init__(
        self,
        connect: Callable[[], redis.Redis],
        base: str,
        dedup: str,
        seed_key: str,
        delay: float,
        every: float = 0.5,
    ) -> None:
        self._connect, self._base, self._dedup, self._seed_key = connect, base, dedup, seed_key
        self._far = round(1000 * max(FAR, 2 * delay))
        self._every = every
        self._client: Any = None  # redis-py's types can't tell that replies are bytes
        self._busy = asyncio.Lock()
        self._taken = float("-inf")
        self._sample = Sample()
        self._memory: tuple[list[Stored], Bloom | None] = ([], None)

    async def sample(self) -> Sample:
        """A fresh sample. Raises redis-py's errors and OSError."""
        async with self._busy:
            if time.monotonic() - self._taken >= self._every:
                self._sample = await asyncio.to_thread(self.read)
                self._taken = time.monotonic()
            return self._sample

    def read(self) -> Sample:
        """A new sample. Blocks."""
        if self._client is None:
            self._client = self._connect()
        now = self._now()
        pipe = self._client.pipeline(transaction=False)
        self._ask(pipe, now)
        ready, due, first, busy, far, beats, info, *seeds = pipe.execute(raise_on_error=False)
        for answer in (ready, due, first, busy, far, beats):
            if isinstance(answer, ResponseError):
                raise answer
        return Sample(
            oldest=max(0.0, (now - first[0][1]) / 1000) if first else 0.0,
            hosts={"due": due, "waiting": ready - due, "busy": busy, "backing_off": far},
            workers=_workers(beats, now),
            seeds=max((count for count in seeds if isinstance(count, int)), default=0),
            bloom=self._bloom(),
            server=_server(info),
        )

    def close(self) -> None:
        """Drops the connection."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(RedisError, OSError):
                client.close()

    def _now(self) -> int:
        seconds, micros = self._client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def _ask(self, pipe: Any, now: int) -> None:
        base = self._base
        pipe.zcard(f"{base}:ready")
        pipe.zcount(f"{base}:ready", "-inf", now)
        pipe.zrange(f"{base}:ready", 0, 0, withscores=True)
        pipe.hlen(f"{base}:inflight")
        pipe.zcount(f"{base}:due", now + self._far, "+inf")
        pipe.hgetall(f"{base}:workers")
        pipe.info("memory", "stats")
        for command in ("llen", "scard", "zcard"):  # whichever type the seed key has
            getattr(pipe, command)(self._seed_key)

    def _bloom(self) -> Bloom | None:
        parts = read_stored(self._client, self._dedup)
        if parts != self._memory[0]:
            self._memory = parts, bloom_of(parts)
        return self._memory[1]


def _server(info: Any) -> Server | None:
    if isinstance(info, ResponseError):  # a server that hides it
        return None
    return Server(info["used_memory"], info["maxmemory"], info["evicted_keys"])


def _workers(beats: dict[bytes, bytes], now: int) -> dict[str, int]:
    ages = [(now - msgpack.unpackb(beat, raw=True)[0]) / 1000 for beat in beats.values()]
    return {
        "live": sum(age < LIVE for age in ages),
        "lost": sum(LIVE <= age < FORGOTTEN for age in ages),
    }
