"""What only Redis knows (hosts, workers, seeds, the Bloom filter's fill), asked when somebody looks, on its own time.

One sample is two round trips on a connection of its own, some cheap commands each, whatever the size of the crawl.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack
from redis.exceptions import ResponseError

from crawler.dedup.sizing import Sizing
from crawler.frontier.control import LIVE

if TYPE_CHECKING:
    from redis.asyncio import Redis

FORGOTTEN = 900.0
"""Seconds after which a worker that vanished without a word is not reported any more."""

_BACKING_OFF = 10_000
"""A host that may be asked again later than this many ms plus two ordinary delays was told to wait, or failed."""


@dataclass(frozen=True, slots=True)
class Bloom:
    """The filter as stored. `fill` is elements per room of the layers there are; `error` is the rate by now."""

    elements: int
    room: int
    size: int
    error: float
    configured: float

    @property
    def fill(self) -> float:
        """Share of the room that is taken."""
        return self.elements / self.room if self.room else 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The frontier as Redis has it. Times are seconds."""

    oldest: float = 0.0
    hosts: dict[str, int] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)
    seeds: int = 0
    bloom: Bloom | None = None


class Sampler:
    """Takes samples through `connect`, at most one per `every` seconds, however many look."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Redis]],
        base: str,
        dedup: str,
        seed_key: str,
        delay: float,
        every: float = 0.5,
    ) -> None:
        self._connect, self._base, self._dedup, self._seed_key = connect, base, dedup, seed_key
        self._resting = _BACKING_OFF + round(2000 * delay)
        self._every = every
        self._client: Redis | None = None
        self._taken = float("-inf")
        self._sample: Sample | None = None
        self._bloom: tuple[tuple[Any, ...], Bloom | None] = ((), None)

    async def sample(self) -> Sample:
        """A fresh sample. Raises redis-py's errors and OSError."""
        if self._sample is None or time.monotonic() - self._taken >= self._every:
            if self._client is None:
                self._client = await self._connect()
            self._sample = await self._read(self._client)
            self._taken = time.monotonic()
        return self._sample

    async def close(self) -> None:
        """Drops the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _read(self, client: Redis) -> Sample:
        seconds, micros = await client.time()
        now = int(seconds) * 1000 + int(micros) // 1000
        base = self._base
        pipe = client.pipeline(transaction=False)
        pipe.zcard(f"{base}:ready")
        pipe.zcount(f"{base}:ready", "-inf", now)
        pipe.zrange(f"{base}:ready", 0, 0, withscores=True)
        pipe.hlen(f"{base}:inflight")
        pipe.zcount(f"{base}:due", now + self._resting, "+inf")
        pipe.hgetall(f"{base}:workers")
        pipe.hmget(f"{self._dedup}:bloom:meta", "capacity", "error_rate", "blocks", "count", "lanes")
        for command in ("llen", "scard", "zcard"):  # whichever type the seed key has
            getattr(pipe, command)(self._seed_key)
        ready, due, first, busy, resting, beats, bloom, *seeds = await pipe.execute(raise_on_error=False)
        for answer in (ready, due, first, busy, resting, beats, bloom):
            if isinstance(answer, ResponseError):
                raise answer
        return Sample(
            oldest=max(0.0, (now - first[0][1]) / 1000) if first else 0.0,
            hosts={"due": due, "waiting": ready - due, "busy": busy, "backing_off": resting},
            workers=_workers(beats, now),
            seeds=max((count for count in seeds if isinstance(count, int)), default=0),
            bloom=self._bloom_of(tuple(bloom)),
        )

    def _bloom_of(self, meta: tuple[bytes | None, ...]) -> Bloom | None:
        if meta != self._bloom[0]:
            self._bloom = meta, bloom_of(meta)
        return self._bloom[1]


def bloom_of(meta: tuple[bytes | None, ...]) -> Bloom | None:
    """From the fields capacity, error_rate, blocks, count and lanes; None when there is no such filter."""
    if None in meta:
        return None
    capacity, error, blocks, count, lanes = (value.decode() for value in meta if value is not None)
    layers = [int(number) for number in blocks.split(",") if number]
    sizing = Sizing(int(capacity), float(error))
    return Bloom(
        elements=int(count),
        room=sizing.total_capacity(max(1, len(layers))),
        size=sum(layers) * int(lanes) * 12,
        error=sizing.estimated_error(int(count)) if int(count) else 0.0,
        configured=float(error),
    )


def _workers(beats: dict[bytes, bytes], now: int) -> dict[str, int]:
    ages = [(now - msgpack.unpackb(beat, raw=True)[0]) / 1000 for beat in beats.values()]
    return {
        "live": sum(age < LIVE for age in ages),
        "lost": sum(LIVE <= age < FORGOTTEN for age in ages),
    }
