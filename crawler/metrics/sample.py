"""What only Redis knows (hosts, workers, seeds, the memory's fill): asked when somebody looks, in a thread of its own.

One sample is a few round trips of some cheap commands each, whatever the size of the crawl: on each server one for all
shards that it has, and one per shard for its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack
from redis.exceptions import RedisError, ResponseError

from crawler.dedup.stored import Stored, read_stored
from crawler.frontier.control import LIVE
from crawler.metrics.memory import Bloom, bloom_of, newest, over_shards
from crawler.nodes import node_of

if TYPE_CHECKING:
    import redis

FORGOTTEN = 900.0
"""Seconds after which a worker that vanished without a word is not reported any more."""

FAR = 60.0
"""Seconds beyond which a host's turn is so far away that it was told to wait, or fails; unless delays are that long.
Hosts without queued requests do not count: nobody waits for them."""


class Server(NamedTuple):
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


class _Shard(NamedTuple):
    """What was asked of one shard: sizes of its sets of hosts, and its first host (ms)."""

    ready: int
    due: int
    first: list[tuple[bytes, float]]
    busy: int
    far: int

    def oldest(self, now: int) -> float:
        """Seconds that the first host waits beyond its time."""
        return max(0.0, (now - self.first[0][1]) / 1000) if self.first else 0.0


class Sampler:
    """Takes samples through a client of its own, at most one per `every` seconds, however many look.

    `shards` are the bases of each shard's keys, of its frontier and of its memory; the first one is the run's home.
    `delay` is the longest wait that is ordinary (seconds), `limit` how many elements a memory may have (0: it grows).
    """

    def __init__(
        self,
        connect: Callable[[], redis.Redis],
        shards: Sequence[tuple[str, str]],
        seed_key: str,
        delay: float,
        limit: int = 0,
        every: float = 0.5,
    ) -> None:
        self._connect, self._shards, self._seed_key = connect, list(shards), seed_key
        self._home = self._shards[0][0]
        self._far = round(1000 * max(FAR, delay))
        self._limit, self._every = limit, every
        self._client: Any = None  # redis-py's types can't tell that replies are bytes
        self._busy = asyncio.Lock()
        self._taken = float("-inf")
        self._sample = Sample()
        self._memory: tuple[list[tuple[list[Stored], int]], Bloom | None] = ([], None)

    async def sample(self, *, anew: bool = False) -> Sample:
        """A fresh sample; `anew`: one taken from now on, for it is the last. Raises redis-py's errors and OSError."""
        async with self._busy:
            if anew or time.monotonic() - self._taken >= self._every:
                self._sample = await asyncio.to_thread(self.read)
                self._taken = time.monotonic()
            return self._sample

    def read(self) -> Sample:
        """A new sample. Blocks."""
        if self._client is None:
            self._client = self._connect()
        hosts = {"due": 0, "waiting": 0, "busy": 0, "backing_off": 0}
        oldest, servers, times = 0.0, [], {}
        for node, bases in self._nodes().items():
            now = times[node] = _now(node)
            shards, server = self._ask(node, bases, now)
            servers.append(server)
            for shard in shards:
                oldest = max(oldest, shard.oldest(now))
                for state, number in zip(
                    hosts, (shard.due, shard.ready - shard.due, shard.busy, shard.far), strict=True
                ):
                    hosts[state] += number
        home: Any = node_of(self._client, self._home)
        beats, seeds = self._ask_home(home)
        return Sample(oldest, hosts, _workers(beats, times[home]), seeds, self._bloom(), _fullest(servers))

    def close(self) -> None:
        """Drops the connection."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(RedisError, OSError):
                client.close()

    def _nodes(self) -> dict[Any, list[str]]:
        """The servers, and the shards' frontiers that each has."""
        nodes: dict[Any, list[str]] = {}
        for base, _ in self._shards:
            nodes.setdefault(node_of(self._client, base), []).append(base)
        return nodes

    def _ask(self, node: Any, bases: Sequence[str], now: int) -> tuple[list[_Shard], Server | None]:
        pipe = node.pipeline(transaction=False)
        for base in bases:
            pipe.zcard(f"{base}:ready")
            pipe.zcount(f"{base}:ready", "-inf", now)
            pipe.zrange(f"{base}:ready", 0, 0, withscores=True)
            pipe.hlen(f"{base}:inflight")
            pipe.zcount(f"{base}:ready", now + self._far, "+inf")
        pipe.info("memory", "stats")
        *answers, info = pipe.execute(raise_on_error=False)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        size = len(_Shard._fields)
        return [_Shard(*answers[at : at + size]) for at in range(0, len(answers), size)], _server(info)

    def _ask_home(self, home: Any) -> tuple[Mapping[bytes, bytes], int]:
        """Heartbeats; seeds under their key, whichever type it has, and those that a cluster's home took over."""
        pipe = home.pipeline(transaction=False)
        pipe.hgetall(f"{self._home}:workers")
        pipe.llen(f"{self._home}:seeds")
        seeds = node_of(self._client, self._seed_key)
        counting = pipe if seeds is home else seeds.pipeline(transaction=False)
        for command in ("llen", "scard", "zcard"):
            getattr(counting, command)(self._seed_key)
        beats, taken, *counts = pipe.execute(raise_on_error=False)
        for answer in (beats, taken):
            if isinstance(answer, Exception):
                raise answer
        if counting is not pipe:
            counts = counting.execute(raise_on_error=False)
        return beats, taken + max((count for count in counts if isinstance(count, int)), default=0)

    def _bloom(self) -> Bloom | None:
        stored = [self._stored(node_of(self._client, dedup), dedup) for _, dedup in self._shards]
        if stored != self._memory[0]:
            self._memory = stored, over_shards(bloom_of(parts, self._limit, recent) for parts, recent in stored)
        return self._memory[1]

    def _stored(self, node: Any, dedup: str) -> tuple[list[Stored], int]:
        """A memory's parts; and how many elements a layered one holds in front of a filter that has a limit."""
        parts = read_stored(node, dedup)
        layered = [part for part in newest(parts) if self._limit and part.kind.startswith("layered/")]
        return parts, sum(map(node.scard, chain.from_iterable(map(Stored.keys, layered))))


def _now(node: Any) -> int:
    seconds, micros = node.time()
    return int(seconds) * 1000 + int(micros) // 1000


def _server(info: Any) -> Server | None:
    if isinstance(info, ResponseError):  # a server that hides it
        return None
    return Server(info["used_memory"], info["maxmemory"], info["evicted_keys"])


def _fullest(servers: Sequence[Server | None]) -> Server | None:
    """The one that runs out first; all their evicted keys."""
    known = [server for server in servers if server is not None]
    if not known:
        return None
    first = max(known, key=lambda server: server.used / server.most if server.most else 0.0)
    return first._replace(evicted=sum(server.evicted for server in known))


def _workers(beats: Mapping[bytes, bytes], now: int) -> dict[str, int]:
    ages = [(now - msgpack.unpackb(beat, raw=True)[0]) / 1000 for beat in beats.values()]
    return {
        "live": sum(age < LIVE for age in ages),
        "lost": sum(LIVE <= age < FORGOTTEN for age in ages),
    }
