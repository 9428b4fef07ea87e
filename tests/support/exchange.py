"""A worker without Scrapy: speaks the frontier's exchange with the real scripts, for tests of what Redis does."""

from __future__ import annotations

from typing import Any

import redis

from crawler.frontier.message import Admission, Message, Reply
from crawler.frontier.script import source

BASE = "{crawler:plain:0}"
SEED_KEY = "plain:start_urls"
# Seen before, exactly: a Redis set. The contract is the dupefilters' (crawler/dedup/admission.py).
SET_DEDUP = """
local function dedup_open(base, conf) return {key = base .. ':seen', epoch = '1'} end
local function dedup_add(state, item) return redis.call('SADD', state.key, item) end
local function dedup_has(state, item) return redis.call('SISMEMBER', state.key, item) end
local function dedup_close(state) end
local function dedup_forget(state, item) return redis.call('SREM', state.key, item) end
"""
CONSTANTS: dict[str, Any] = {
    "lease": 60_000, "idle": 0, "delay": 0, "concurrency": 8, "order": "priority", "max_deliveries": 5,
    "dead_max": 10_000, "hosts": {}, "backoff": 1000, "backoff_max": 600_000, "host_max_pages": 0, "dedup": {},
    "info": "host 1 scrapy=2.19.0", "fed": False,
}  # fmt: skip


def entry(
    payload: bytes, *, host: str = "a.example", flags: int = 3, priority: int = 0, key: bytes | None = None
) -> Admission:
    """An admission: filtered and remembered by its payload unless told otherwise."""
    fingerprint = payload if key is None else key
    return (host, flags, fingerprint, fingerprint, priority, payload)


class Exchange:
    """Runs the scripts on one frontier; `constants` override a worker's."""

    def __init__(self, client: redis.Redis, base: str = BASE, **constants: Any) -> None:
        self.client, self.base = client, base
        self.constants = CONSTANTS | constants
        self._exchange = client.register_script("#!lua\n" + SET_DEDUP + source("exchange"))
        self._join = client.register_script(source("join"))

    def join(self, worker: str = "w1", versions: str = "payload=1") -> str:
        """Joins or begins a run; returns its number."""
        return str(self._join(keys=[self.base], args=[worker, "", versions, "0", "0"])[1].decode())

    def send(self, message: Message) -> Reply:
        """One exchange."""
        return Reply.unpack(self.send_raw(message))

    def send_raw(self, message: Message) -> bytes:
        """One exchange; the reply as it travels."""
        reply: bytes = self._exchange(keys=[self.base, self.base, SEED_KEY], args=[message.pack(self.constants)])
        return reply


class FakeWorker:
    """A worker with a name and numbers its messages."""

    def __init__(self, exchange: Exchange, name: str = "w1") -> None:
        self.exchange, self.name, self.seq = exchange, name, 0
        self.run = exchange.join(name)

    def message(self, **fields: Any) -> Message:
        """The next message."""
        self.seq += 1
        return Message(worker=self.name, seq=self.seq, run=self.run, **fields)

    def send(self, **fields: Any) -> Reply:
        """One exchange."""
        return self.exchange.send(self.message(**fields))
