"""Looking at a frontier and steering it from outside, beside the workers: what ``scrapy frontier`` is made of.

Every look is bounded: a few counters, or a page of a long structure, never the whole of one that grows with the crawl.
All calls block and raise redis-py's errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import msgpack

from crawler.frontier.script import source
from crawler.keys import moving_key
from crawler.nodes import node_of

if TYPE_CHECKING:
    import redis

    from crawler.frontier.seedkey import SeedKey

LIVE = 10.0  # seconds since its last exchange after which a worker counts as dead (exchange.lua has the same)
_PAGE = 500  # entries per round trip where something is walked through
_FIXED = (
    *("runs", "ready", "requests", "leases", "owners", "deliveries", "inflight"),
    *("due", "pages", "workers", "replies", "starts", "locals", "dead"),
    *("pins", "jars", "holders", "gone"),
)  # what flush deletes, besides the queues (pinned ones too); "hosts" is a person's word, "robots" and "bye" end


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker as the frontier knows it. `age`: seconds since it was last heard of; `finished` and `failed`: requests
    since it began."""

    name: str
    age: float
    busy: bool
    held: int
    info: str
    finished: int = 0
    failed: int = 0

    @property
    def live(self) -> bool:
        """Whether it was heard of lately."""
        return self.age < LIVE


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host with queued or leased requests. `leased` counts for hosts with a delay only; `due_in`: seconds until it
    may be asked, None while it is busy."""

    host: str
    queued: int
    leased: int
    due_in: float | None


class Control:
    """One spider's frontier under `base`, with its seeds."""

    def __init__(self, client: redis.Redis, base: str, seeds: SeedKey, whole: redis.Redis | None = None) -> None:
        self.client: Any = client  # redis-py's types can't tell that replies are bytes
        self.base, self.seeds = base, seeds
        self.whole: Any = whole or client  # of the cluster, if `client` is that of one of its nodes

    @property
    def parts(self) -> Sequence[Control]:
        """The shards, the run's home first."""
        return [self]

    def of(self, host: str) -> Control:
        """The shard that has a host."""
        return self

    def key(self, name: str) -> str:
        """``BASE:name``."""
        return f"{self.base}:{name}"

    def now(self) -> int:
        """The server's clock, ms."""
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def meta(self) -> dict[str, str]:
        """The run, its state and counters."""
        return {name.decode(): value.decode() for name, value in self.client.hgetall(self.key("meta")).items()}

    def status(self) -> dict[str, Any]:
        """The frontier in numbers."""
        now, meta = self.now(), self.meta()
        pipe = self.client.pipeline(transaction=True)
        for command, name in (("hlen", "requests"), ("zcard", "leases"), ("xlen", "dead"), ("zcard", "ready")):
            getattr(pipe, command)(self.key(name))
        pipe.zcount(self.key("ready"), "-inf", now)
        pipe.zrange(self.key("ready"), 0, 0, withscores=True)
        pipe.hlen(self.key("inflight"))
        held, leased, dead, hosts, due, first, busy = pipe.execute()
        workers = self.workers()
        return {
            "run": meta.get("name"),
            "state": meta.get("state", "none"),
            "paused": meta.get("paused") == "1",
            "start": meta.get("start", "running" if meta.get("start_owner") else "waiting"),
            "memory_full": "full" in meta,
            "dropped": {name[8:]: int(n) for name, n in meta.items() if name.startswith("dropped:")},
            "hosts_given_up": int(meta.get("hosts_given_up", 0)),
            "dead_fallen": int(meta.get("dead_fallen", 0)),
            "queued": held - leased,
            "leased": leased,
            "dead": dead,
            "done": int(meta.get("acked", 0)),
            "seeds": self.waiting_seeds(),
            "hosts_queued": hosts,
            "hosts_due": due,
            "hosts_busy": busy,
            "overdue_seconds": max(0.0, (now - first[0][1]) / 1000) if first else 0.0,
            "next_due_seconds": max(0.0, (first[0][1] - now) / 1000) if first else None,
            "workers_live": sum(worker.live for worker in workers),
            "workers_dead": sum(not worker.live for worker in workers),
            "age_seconds": _since(now, meta.get("began")),
            "idle_seconds": _since(now, meta.get("last_work")),
            "versions": meta.get("versions"),
        }

    def waiting_seeds(self) -> int:
        """Seeds that nobody has taken, those included that a cluster has moved to the frontier's slot."""
        waiting = self.seeds.waiting(self.whole)
        if self.whole is not self.client:
            aside = node_of(self.whole, self.seeds.name).hget(moving_key(self.seeds.name), "seeds")
            waiting += int(self.client.llen(self.key("seeds")))
            waiting += len(msgpack.unpackb(cast("bytes", aside), raw=True)) if aside else 0
        return waiting

    def workers(self) -> list[WorkerRow]:
        """Every worker that has not said good-bye, by name."""
        now = self.now()
        rows = []
        for name, value in self.client.hgetall(self.key("workers")).items():
            beat, busy, info, held, finished, failed = [*msgpack.unpackb(value, raw=True), b"", 0, 0, 0][:6]
            age = max(0, now - beat) / 1000
            rows.append(WorkerRow(name.decode(), age, bool(busy), held, info.decode(), finished, failed))
        return sorted(rows, key=lambda row: row.name)

    def hosts(self, limit: int) -> list[HostRow]:
        """At most `limit` hosts: the busy ones, then those with queued requests by their turn."""
        now = self.now()
        turns: dict[bytes, float | None] = dict.fromkeys(
            name for name, _ in islice(self.client.hscan_iter(self.key("inflight"), count=_PAGE), limit)
        )
        turns |= dict(self.client.zrange(self.key("ready"), 0, limit - 1, withscores=True))
        holders = self.jar_holders()
        for holder in holders:
            for name, turn in self.client.zrange(self.key(f"mine:{holder}"), 0, limit - 1, withscores=True):
                turns.setdefault(name, turn)
        names = list(turns)[:limit]
        pipe = self.client.pipeline(transaction=False)
        for name in names:
            pipe.hget(self.key("inflight"), name)
            for queue in ("queue", *(f"pinned:{holder}" for holder in holders)):
                pipe.zcard(f"{self.base}:{queue}:{name.decode()}")
        rows, counts = [], iter(pipe.execute())
        for name in names:
            leased, queued = int(next(counts) or 0), sum(islice(counts, 1 + len(holders)))
            due_in = None if (turn := turns[name]) is None else max(0.0, (turn - now) / 1000)
            rows.append(HostRow(name.decode(), queued, leased, due_in))
        return rows

    def jar_holders(self) -> list[str]:
        """Workers that alone may have some of the queued requests (``FRONTIER_PIN_COOKIEJARS``)."""
        return sorted(name.decode() for name in self.client.smembers(self.key("holders")))

    def host(self, host: str, **changes: int | bool) -> dict[str, Any]:
        """What is special about a host, after `changes`: delay (ms), concurrency, blocked; False takes one back."""
        script = self.client.register_script(source("host"))
        record = script(keys=[self.base], args=[host, msgpack.packb(changes, use_bin_type=False)])
        return dict(msgpack.unpackb(record) or {})

    def pause(self) -> None:
        """No worker starts a request any more; they hear of it with their next exchange."""
        self.client.hset(self.key("meta"), "paused", "1")

    def resume(self) -> None:
        """The end of a pause."""
        self.client.hdel(self.key("meta"), "paused")

    def flush(self, keep_versions: bool = False) -> int:
        """Deletes queue, leases, dead letters and runs; returns how many requests were dropped. Seeds stay.

        `keep_versions` while what was seen stays: it was written by them, and only they can read it.

        Workers of the run stop by themselves: their next exchange says that it is gone.
        """
        dropped = self.held()
        while not self.delete(self.void(keep_versions)):
            pass
        return dropped

    def held(self) -> int:
        """Requests queued or leased."""
        return int(self.client.hlen(self.key("requests")))

    def void(self, keep_versions: bool, number: int | None = None) -> int:
        """Makes the run void; answers the number that stands for that (on a shard that is not the home: its `number`,
        or 0 when a later run has begun)."""
        script = self.client.register_script(source("flush"))
        return int(script(keys=[self.base], args=["begin", "01"[keep_versions], *([number] if number else [])]))

    def delete(self, number: int) -> bool:
        """Deletes what a void run left; False when another one has begun meanwhile."""
        script = self.client.register_script(source("flush"))
        keys = [*(self.key(name) for name in _FIXED), *self._queue_keys()]
        return all(script(keys=[self.base, *page], args=[number]) for page in _pages(keys))

    def _queue_keys(self) -> Iterator[str]:
        for kind in ("queue:", "pinned:", "mine:", "gone:"):
            pattern = "".join(f"\\{c}" if c in "*?[]\\" else c for c in self.key(kind)) + "*"
            yield from (name.decode() for name in self.client.scan_iter(pattern, count=1000))


def _pages(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[i : i + _PAGE] for i in range(0, len(keys), _PAGE))


def _since(now: int, then: str | None) -> float | None:
    return None if then is None else max(0, now - int(then)) / 1000
