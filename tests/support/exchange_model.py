"""What a frontier should hold, in plain Python, and the comparison of all of Redis with it.

Requests are named by their host's letter and a number; "p" is a paced host, "j" one whose requests belong to cookie
jars, and "g" one that dies, is given up and answers again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crawler.frontier.message import ADD, FILTER, LOCAL, START

FULL_AT = 5  # of 25 names: the memory gets full soon
MAX_DELIVERIES = 3
PACED_CONCURRENCY = 2  # requests of host "p" at once
HOPELESS = 5  # failures of host "g" in a row, until it is given up
SEED_KEY = "spider:start_urls"


@dataclass
class Entry:
    """A request that lives: queued, or leased by `owner`."""

    payload: bytes
    host: str
    order: tuple[int, int]
    owner: str | None = None
    ended: bool = False  # its lease's time is over
    deliveries: int = 0
    seed: bool = False


@dataclass
class Model:
    """What the frontier should hold."""

    live: dict[int, Entry] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    starts: set[str] = field(default_factory=set)
    locals: dict[str, str] = field(default_factory=dict)
    jars: dict[str, str] = field(default_factory=dict)  # jar → worker that leased one of its requests last
    dead: int = 0
    acked: list[int] = field(default_factory=list)
    admitted: int = 0
    ids: int = 0
    seeds: list[bytes] = field(default_factory=list)
    full: bool = False
    failures: int = 0  # of host "g", in a row
    given_up: bool = False
    resting: bool = False  # one request was let through to see whether it answers
    doomed: set[int] = field(default_factory=set)  # of its queue, set aside and not buried yet

    def queued(self, host: str) -> list[int]:
        """Ids of a host's queue in their order."""
        waiting = (i for i, e in self.live.items() if e.host == host and e.owner is None and i not in self.doomed)
        return sorted(waiting, key=self.order)

    def paced(self) -> int:
        """Requests of host "p" that are leased."""
        return sum(entry.host == "p" and entry.owner is not None for entry in self.live.values())

    def fails(self) -> bool:
        """Host "g" does not answer; True when that is the last straw."""
        self.failures += 1
        if self.failures < HOPELESS:
            return False
        self.doomed = self.doomed or set(self.queued("g"))
        last_straw, self.given_up = not self.given_up, True
        return last_straw

    def answers(self) -> None:
        """Host "g" is well."""
        self.failures, self.given_up, self.resting = 0, False, False

    def bury(self) -> None:
        """What was set aside is dead; what came back meanwhile is set aside, unless the host has answered."""
        if self.doomed:
            self.dead += len(self.doomed)
            self.live = {i: entry for i, entry in self.live.items() if i not in self.doomed}
            self.doomed = set()
            self.doomed = set(self.queued("g")) if self.given_up else set()

    def order(self, id_: int) -> tuple[int, int]:
        """Priority, then age."""
        return self.live[id_].order

    def verdict(self, name: str, flags: int, alive: set[str], worker: str) -> int:
        """1 new, 0 seen, 2 full, 3 seen as long as a worker lives that alone can run it."""
        if flags & START and name in self.starts:
            return 0
        if flags & ADD:
            if name not in self.seen:
                if len(self.seen) >= FULL_AT:
                    return 2
                self.seen.add(name)
            elif flags & FILTER:
                holder = self.locals.get(name)
                if holder is None or holder == worker:
                    return 0
                if holder in alive:
                    return 3
                del self.locals[name]
        if flags & START:
            self.starts.add(name)
        return 1

    def admit(self, outbox: list[tuple[str, int, int]], worker: str, alive: set[str]) -> list[int]:
        """Takes an outbox in; its verdicts."""
        verdicts: list[int] = []
        tries = self.given_up and not self.resting and not self.queued("g")
        for position, (name, flags, priority) in enumerate(outbox, start=1):
            verdicts.append(2 if 2 in verdicts else self.verdict(name, flags, alive, worker))
            if verdicts[-1] != 1:
                continue
            if flags & LOCAL:
                self.locals[name] = worker
                continue
            self.admitted += 1
            if self.given_up and name[0] == "g" and not tries:
                self.dead += 1
                continue
            id_ = self.ids + position
            self.live[id_] = Entry(name.encode(), name[0], (-priority, id_))
            if self.given_up and name[0] == "g":
                tries, self.resting = False, True
        self.ids += len(outbox)
        self.full = self.full or 2 in verdicts
        return verdicts

    def reclaim(self) -> None:
        """Leases that ended go back; what was given out too often is dead."""
        for id_, entry in list(self.live.items()):
            if entry.owner is None or not entry.ended:
                continue
            entry.owner, entry.ended, entry.deliveries = None, False, entry.deliveries + 1
            if entry.deliveries >= MAX_DELIVERIES:
                del self.live[id_]
                self.dead += 1
        self.bury()


def everything(client: Any) -> dict[bytes, Any]:
    """All that Redis holds, key by key."""
    read = {
        b"hash": client.hgetall, b"set": client.smembers, b"stream": client.xrange, b"string": client.get,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"list": lambda key: client.lrange(key, 0, -1),
    }  # fmt: skip
    return {key: read[client.type(key)](key) for key in client.keys("*")}


def check(model: Model, client: Any, base: str) -> None:
    """Compares what Redis holds with the model, key by key."""
    requests = client.hgetall(f"{base}:requests")
    assert {int(i): p for i, p in requests.items()} == {i: e.payload for i, e in model.live.items()}
    deliveries = client.hgetall(f"{base}:deliveries")
    assert {int(i): int(n) for i, n in deliveries.items()} == {
        i: e.deliveries for i, e in model.live.items() if e.deliveries
    }
    assert client.xlen(f"{base}:dead") == model.dead
    held_locals = client.hgetall(f"{base}:locals")
    assert {n.decode(): w.decode() for n, w in held_locals.items()} == model.locals
    assert client.llen(SEED_KEY) == len(model.seeds)
    _check_leases(model, client, base)
    _check_queues(model, client, base)
    _check_pinned(model, client, base)


def _check_leases(model: Model, client: Any, base: str) -> None:
    leases, owners = client.zrange(f"{base}:leases", 0, -1), client.hgetall(f"{base}:owners")
    leased = {i: e.owner for i, e in model.live.items() if e.owner is not None}
    assert sorted(map(int, leases)) == sorted(leased)
    assert {int(i): o.split(b"\n")[0].decode() for i, o in owners.items()} == leased
    inflight, paced = client.hgetall(f"{base}:inflight"), model.paced()
    assert {h: int(n) for h, n in inflight.items()} == ({b"p": paced} if paced else {})
    assert paced <= PACED_CONCURRENCY


def _check_queues(model: Model, client: Any, base: str) -> None:
    ready, doomed = client.zrange(f"{base}:ready", 0, -1), client.zrange(f"{base}:gone:queue:g", 0, -1)
    assert {int(i) for i in doomed} == model.doomed
    for host in ("a", "b", "p", "g", ""):
        queue = client.zrange(f"{base}:queue:{host}", 0, -1)
        assert [int(i) for i in queue] == model.queued(host)
        may_wait = host == "p" and model.paced() >= PACED_CONCURRENCY
        assert not queue or host.encode() in ready or may_wait, f"host {host} would never be asked again"


def _check_pinned(model: Model, client: Any, base: str) -> None:
    """Requests of a cookie jar wait in one place, and whoever it belongs to knows of them."""
    found = {b"queue": client.zrange(f"{base}:queue:j", 0, -1)}
    assert not found[b"queue"] or b"j" in client.zrange(f"{base}:ready", 0, -1)
    for holder in client.smembers(f"{base}:holders"):
        found[holder] = client.zrange(f"{base}:pinned:{holder.decode()}:j", 0, -1)
        assert bool(found[holder]) == (b"j" in client.zrange(f"{base}:mine:{holder.decode()}", 0, -1))
    assert sorted(int(i) for ids in found.values() for i in ids) == sorted(model.queued("j"))
    pins = client.hgetall(f"{base}:pins")
    assert {int(i) for i in pins} == {i for i, e in model.live.items() if e.host == "j"}
