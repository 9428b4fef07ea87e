"""Workers without Scrapy on a frontier of several shards: the real carrier and the real scripts, at a dice's mercy."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.frontier.link import Send
from crawler.frontier.message import ADD, FILTER, SEED, START, Message
from crawler.frontier.outbox import Outbox, Span
from crawler.frontier.script import source
from crawler.frontier.shards import Shards
from crawler.keys import Keys
from tests.support.shard import CONSTANTS, SET_MEMORY, admission


@dataclass
class Fleet:
    """Workers that crawl a tree of names; the first letter is the host. Links lead two below, and to any two."""

    client: Redis
    dice: random.Random
    shards: int = 3
    pages: int = 25
    chain: bool = False  # each page has one link: all shards but one are empty, all the time
    losses: float = 0.0  # share of calls whose reply (or whose request) is lost
    constants: dict[str, Any] = field(default_factory=lambda: dict(CONSTANTS))
    seed_key: str = "spider:start_urls"
    links: dict[str, list[str]] = field(default_factory=dict)  # page → what it links to
    crawled: list[str] = field(default_factory=list)
    finished: int = 0

    def __post_init__(self) -> None:
        self.keys = Keys("test", "spider").spread(self.shards)
        self.time = itertools.count()
        self.sha = self.client.script_load("#!lua\n" + SET_MEMORY + source("exchange"))
        self.names = [f"{self.dice.choice('abcdefgh')}{number}" for number in range(self.pages)]
        for number, name in enumerate(self.names):
            if self.chain:
                self.links[name] = self.names[number + 1 : number + 2]
                continue
            self.links[name] = [self.names[i] for i in (2 * number + 1, 2 * number + 2) if i < self.pages]
            self.links[name] += self.dice.sample(self.names, 2)  # and somewhere else
        self.join()

    def join(self) -> None:
        """Begins the run on all shards."""
        home = self.keys[0]
        answer: Any = self.client.eval(
            source("join"), 2, home.frontier, home.dedup, "w", "", "v=1", "0", "0", str(self.shards)
        )
        self.run = answer[1].decode() if isinstance(answer[1], bytes) else str(answer[1])
        for keys in self.keys[1:]:
            self.client.eval(source("adopt"), 1, keys.frontier, self.run, answer[2], "v=1")

    def clock(self) -> float:
        """A steady clock of which a call takes 10 ms."""
        return next(self.time) / 100

    def send(self, keys: Keys) -> Send:
        """Talks to one shard, by way of a network that loses things."""

        async def send(message: Message, sparing: bool) -> bytes:
            await self.dawdle()
            if self.dice.random() < self.losses:
                raise RedisConnectionError("request lost")
            names = (keys.frontier, keys.dedup, f"{keys.frontier}:seeds" if keys.shard else self.seed_key)
            reply: Any = self.client.evalsha(self.sha, 3, *names, message.pack(self.constants))
            await self.dawdle()
            if self.dice.random() < self.losses:
                raise RedisConnectionError("reply lost")
            return bytes(reply)

        return send

    async def dawdle(self) -> None:
        """Lets others come first, or not."""
        for _ in range(self.dice.randrange(4)):
            await asyncio.sleep(0)

    def held(self) -> int:
        """Requests in all shards."""
        return sum(int(self.client.hlen(f"{keys.frontier}:requests")) for keys in self.keys)

    def bury(self, worker: str) -> None:
        """The time of a dead worker's leases is over, and its last heartbeat long ago."""
        for keys in self.keys:
            owners: Any = self.client.hgetall(f"{keys.frontier}:owners")
            for lease, owner in owners.items():
                if owner.startswith(worker.encode() + b"\n"):
                    self.client.zadd(f"{keys.frontier}:leases", {lease: 1})
            self.client.hdel(f"{keys.frontier}:workers", worker)


@dataclass
class Walker:
    """One worker: leases, "fetches", enqueues the links, acknowledges when they are safe."""

    fleet: Fleet
    name: str
    roots: list[str] = field(default_factory=list)  # what its start() would yield
    outbox: Outbox = field(default_factory=Outbox)
    fetched: list[tuple[bytes, Span]] = field(default_factory=list)
    state: str = "running"
    start: str = ""
    start_end: int = 0

    def __post_init__(self) -> None:
        fleet = self.fleet
        self.carrier = Shards([fleet.send(keys) for keys in fleet.keys], clock=fleet.clock)
        self.wish = "want" if self.roots else ""
        self.seq = 0

    async def deliver(self, send: Send, message: Message) -> bytes:
        """As the link does it."""
        while True:
            try:
                return await send(message, False)
            except RedisConnectionError:
                continue

    async def turn(self) -> None:
        """One exchange."""
        dice, self.seq = self.fleet.dice, self.seq + 1
        acks = [lease for lease, span in self.fetched if self.outbox.needs(span, 0) is not None]
        over = self.wish == "done" and self.outbox.needs(Span(0, self.start_end), 0) is not None
        message = Message(
            self.name, self.seq, self.fleet.run, outbox=self.outbox.batch(dice.randrange(1, 6)),
            acks=[(lease, 0, "", "", b"") for lease in acks], want=dice.randrange(5), ahead=5, seeds=2,
            start="done" if over else "hold" if self.wish == "done" else self.wish, busy=bool(len(self.outbox)),
        )  # fmt: skip
        reply = await self.carrier.carry(message, self.deliver)
        list(self.outbox.confirm(reply.verdicts))
        self.fetched = [one for one in self.fetched if one[0] not in acks]
        if reply.start == "yours" and self.wish in ("want", "hold"):
            self._start()
        elif reply.start in ("done", "other"):
            self.wish = "" if reply.start == "done" else self.wish
        for lease in reply.leases:
            self._fetch(lease.id, lease.payload)
        self.state = reply.state

    def _start(self) -> None:
        self.wish = "hold"
        if self.roots:
            self._enqueue(self.roots.pop(0), START | ADD)
        else:
            self.wish, self.start_end = "done", self.outbox.tail

    def _fetch(self, lease: bytes, payload: bytes) -> None:
        before = self.outbox.tail
        if payload.startswith(SEED):
            self._enqueue(payload[len(SEED) :].decode(), ADD)
        else:
            name = payload.decode()
            self.fleet.crawled.append(name)
            for link in self.fleet.links[name]:
                self._enqueue(link, FILTER | ADD)
        self.fetched.append((lease, Span(before, self.outbox.tail)))

    def _enqueue(self, name: str, flags: int) -> None:
        self.outbox.add(admission(name, name[0], flags), None)  # type: ignore[arg-type]

    async def crawl(self, died: Callable[[], bool] = lambda: False) -> None:
        """Until the run is over, or it dies: what it held comes back to the others."""
        for _ in range(3000):
            if died():
                self.fleet.bury(self.name)
                return
            await self.turn()
            if self.state == "finished":
                assert not self.fetched
                assert not len(self.outbox)
                assert not self.fleet.held(), "the run was ended with requests in it"
                self.fleet.finished += 1
                return
        raise AssertionError("the run does not end")
