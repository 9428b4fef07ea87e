"""A frontier shard without Scrapy: tests speak the one exchange themselves, as any number of workers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redis import Redis

from crawler.frontier.message import ADD, FILTER, Message, Reply
from crawler.frontier.script import source
from crawler.keys import Keys

# A memory as small as can be: a Redis set, with a size at which it is full.
SET_MEMORY = """
local function dedup_open(base, conf) return {key = base .. ':memory', full = conf.full, epoch = '1'} end
local function dedup_add(state, item)
  if redis.call('SISMEMBER', state.key, item) == 1 then return 0 end
  if redis.call('SCARD', state.key) >= state.full then return -1 end
  redis.call('SADD', state.key, item)
  return 1
end
local function dedup_add_all(state, items)
  local verdicts = {}
  for i, item in ipairs(items) do verdicts[i] = dedup_add(state, item) end
  return verdicts
end
local function dedup_close(state) end
local function dedup_forget(state, item) return redis.call('SREM', state.key, item) end
"""

CONSTANTS: dict[str, Any] = {
    "lease": 10_000, "idle": 0, "delay": 0, "concurrency": 8, "order": "priority", "max_deliveries": 3,
    "dead_max": 100,
    "hosts": {}, "backoff": 1000, "backoff_max": 600_000, "host_max_pages": 0,
    "give_up": 0, "calendar_max": 0,
    "dedup": {"full": 1_000_000}, "info": "test", "fed": False, "replicas": 0,
}  # fmt: skip


@dataclass
class Shard:
    """Speaks to one shard; `constants` are the same for all workers unless a call says otherwise."""

    client: Redis
    keys: Keys = field(default_factory=lambda: Keys("test", "spider"))
    constants: dict[str, Any] = field(default_factory=lambda: dict(CONSTANTS))
    run: str = "1"
    seqs: dict[str, int] = field(default_factory=dict)
    seed_key: str = "spider:start_urls"

    def join(
        self, worker: str = "w", pinned: str = "", versions: str = "v=1", empty: str = "0", emptied: str = "0"
    ) -> Any:
        """What join.lua answers; a begun or joined run becomes the one that `say` speaks for."""
        raw: Any = self.client.eval(source("join"), 1, self.keys.frontier, worker, pinned, versions, empty, emptied)
        answer = [value.decode() if isinstance(value, bytes) else value for value in raw]
        if answer[0] in ("begun", "joined"):
            self.run = answer[1]
        return answer

    def say(self, worker: str = "w", *, repeat: bool = False, drain: bool = False, **fields: Any) -> Reply:
        """One exchange; `repeat` sends the worker's last number again, `drain` by the script that spares memory."""
        constants = self.constants | {name: fields.pop(name) for name in list(fields) if name in CONSTANTS}
        seq = self.seqs.get(worker, 0) + (0 if repeat else 1)
        self.seqs[worker] = seq
        message = Message(worker=worker, seq=seq, run=self.run, **fields)
        text = ("#!lua flags=allow-oom\n" if drain else "#!lua\n") + SET_MEMORY + source("exchange")
        keys = (self.keys.frontier, self.keys.dedup, self.seed_key)
        self.client.script_load(text)
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        reply: Any = self.client.evalsha(sha, 3, *keys, message.pack(constants, drain))
        return Reply.unpack(reply)

    def put(
        self, *names: str, host: str = "h", flags: int = FILTER | ADD, priority: int = 0, worker: str = "w"
    ) -> Reply:
        """Admits requests whose fingerprint and payload are their names."""
        return self.say(worker, outbox=[admission(name, host, flags, priority) for name in names])

    def take(self, want: int = 100, worker: str = "w", **fields: Any) -> list[str]:
        """Leases requests and gives their payloads."""
        return [lease.payload.decode() for lease in self.say(worker, want=want, ahead=100, **fields).leases]


class Snapshot:
    """All of Redis at one moment."""

    def __init__(self, client: Redis) -> None:
        self.client: Any = client
        self.keys = {key: self.client.dump(key) for key in self.client.keys("*")}

    def restore(self) -> None:
        """The server stands where it stood then."""
        self.client.flushdb()
        for key, dump in self.keys.items():
            self.client.restore(key, 0, dump)


def admission(name: str, host: str = "h", flags: int = FILTER | ADD, priority: int = 0) -> tuple[Any, ...]:
    """One outbox entry whose fingerprint and payload are `name`."""
    return (host, flags, name.encode(), name.encode(), priority, name.encode())


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Asks until it holds: leases end by the server's clock."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"


def dead_letters(redis: Redis, shard: Shard) -> list[dict[bytes, bytes]]:
    stream: Any = redis.xrange(shard.keys.frontier + ":dead")
    return [letter for _, letter in stream]


def finish(shard: Shard, worker: str = "w") -> str:
    """Ends the run as an orderly worker does."""
    while leases := shard.say(worker, want=100, ahead=100).leases:
        shard.say(worker, acks=[(lease.id, 0, "", "", b"") for lease in leases])
    shard.say(worker, start="want")
    return shard.say(worker, start="done").state
