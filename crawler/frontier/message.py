"""What travels in the one exchange: the message to the script and its reply, as msgpack.

The envelope is packed without msgpack's ``bin`` type, which the server's ``cmsgpack`` does not read; the reply is
unpacked as raw bytes, since payloads are bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import msgpack

BATCH = 128  # admissions per message at most: what each costs, times this, is how long the server may be held

# Flags of an admission (the script knows the same numbers).
FILTER = 1  # drop it when its fingerprint was seen
ADD = 2  # remember its fingerprint
START = 4  # a start request: once per run, in spite of dont_filter
LOCAL = 8  # stays in this worker: only the verdict is asked for

SEED = b"seed:"  # what the payload of a lease that is a seed begins with (exchange.lua writes it)

# Verdicts, one byte each. SEEN_NOW: seen, but it may become new again, so it must not be remembered here. CAPPED and
# ENDLESS: its host or its calendar has had its share. FULL and LATER: not admitted, nor anything after it.
NEW, SEEN, FULL, SEEN_NOW, CAPPED, LATER, ENDLESS = b"1023456"

# Host, flags, dedup item, fingerprint, priority, payload; and, for the few that have any, `jar`: the cookie jar whose
# requests all go to one worker, `calendar`: the endless calendar that it may belong to, and `dead`: why it can't be
# queued, and its URL, of a request that goes to the dead letters at once.
More = dict[str, str | list[str]]
Admission = tuple[str, int, bytes, bytes, int, bytes] | tuple[str, int, bytes, bytes, int, bytes, More]
Health = tuple[str, int, int, int]  # host, 1 fine or 0 failing, how long ago that request started, Retry-After
# Lease id, entries of this message it depends on, failure reason or "", URL of a failure, dedup item to forget or b"".
Ack = tuple[bytes, int, str, str, bytes]

MOST_PRIORITY = 2**31  # either way
_ROW = struct.Struct(">HBdIII")
_PLAIN = {FILTER | ADD}


def bounded(priority: int) -> int:
    """`priority`, or the nearest one that travels."""
    return max(-MOST_PRIORITY, min(MOST_PRIORITY, priority))


def columns(outbox: Sequence[Admission]) -> list[Any]:
    """The admissions as the script reads them: what was seen before, most of it, costs it next to nothing.

    Host names, each once; per entry a row of fixed length (position of its host, flags, priority, where its fingerprint
    begins, where its payload begins and ends; from 1); the dedup items; one text of all fingerprints and payloads in
    turn; cookie jars, calendars and reasons to bury by position; whether all are only to be filtered and remembered.
    """
    if not outbox:
        return []
    hosts, flags, items, fingerprints, priorities, payloads = zip(*[entry[:6] for entry in outbox], strict=True)
    places = {host: place for place, host in enumerate(dict.fromkeys(hosts), start=1)}
    texts = list(chain.from_iterable(zip(fingerprints, payloads, strict=True)))
    ends = list(accumulate(map(len, texts), initial=0))
    begins = [end + 1 for end in ends]
    rows = map(_ROW.pack, map(places.__getitem__, hosts), flags, priorities, begins[::2], begins[1::2], ends[2::2])
    more = {place: entry[6] for place, entry in enumerate(outbox, start=1) if len(entry) > 6}
    jars, calendars, dead = (
        {place: fields[name] for place, fields in more.items() if name in fields}
        for name in ("jar", "calendar", "dead")
    )
    plain = set(flags) == _PLAIN and not calendars
    return [list(places), b"".join(rows), items, b"".join(texts), jars, calendars, dead, plain]


@dataclass(slots=True)
class Message:
    """One exchange's questions and news. Times are milliseconds."""

    worker: str
    seq: int
    run: str
    outbox: Sequence[Admission] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    gives: list[bytes] = field(default_factory=list)
    renew: list[bytes] = field(default_factory=list)
    started: list[tuple[str, int]] = field(default_factory=list)  # host, when its next request may start from now
    turns: list[str] = field(default_factory=list)  # hosts of which a turn is wanted that no lease stands for
    refunds: list[tuple[str, int]] = field(default_factory=list)  # host, how long ago its unused turn was
    crawl_delays: list[tuple[str, int]] = field(default_factory=list)  # host, Crawl-delay of its robots.txt
    health: list[Health] = field(default_factory=list)
    forgets: list[tuple[str, bytes]] = field(default_factory=list)  # host, dedup item of what led to a failure
    locals: list[bytes] = field(default_factory=list)  # fingerprints of local-only requests that are finished
    skip: list[str] = field(default_factory=list)  # hosts of which this worker holds enough
    want: int = 0
    ahead: int = 0  # how many of a host may be held beyond its concurrency
    seeds: int = 0
    start: str = ""  # "", want, hold, done, failed
    busy: bool = False
    full: bool = False  # with `bye`: it leaves because the memory is full, and so may the others
    bye: bool = False
    held: int = 0
    finish: str = "decide"  # whether the run is over: decide (the only shard, or a run's home), yes or no (the others)
    quiet: int = -1  # for the home: its `ids` when all shards were empty together, -2 they were not, -1 without shards
    revive: bool = False  # for the home: another shard got work after the end
    finished: int = 0  # requests that this worker did since it began, and those of them that failed
    failed: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # reason → requests not queued on purpose since the last time

    def pack(self, constants: dict[str, Any], drain: bool = False) -> bytes:
        """The message with the worker's `constants` (:meth:`Policy.constants`) as one msgpack map."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        fields["outbox"], fields["drain"] = columns(self.outbox), drain
        packed: bytes = msgpack.packb(fields | constants, use_bin_type=False, unicode_errors="replace")
        return packed


@dataclass(slots=True)
class Lease:
    """A request that this worker may run until its lease ends."""

    id: bytes
    in_ms: int
    redeliveries: int
    host: str
    payload: bytes
    delay: int = 0  # between two requests of the host, as the frontier knows it now
    failing: bool = False  # whether the host's last answer to anybody was none
    own_delay: bool = False  # whether a person set the delay: no Crawl-delay changes it


@dataclass(slots=True)
class Reply:
    """The script's answer, in the order the script packs it. Times are milliseconds."""

    seq: int
    now: int
    verdicts: bytes
    leases: list[Lease]
    lost: list[bytes]
    unacked: list[bytes]
    state: str  # running, finished, full, lost
    queued: int
    leased: int
    dead: int
    next_due: int  # until the next host is due, -1 when nothing is queued
    start: str  # "", yours, other, done, failed
    paused: bool
    idle: int  # since the last admission, lease or ack anywhere
    epoch: bytes  # of the memory of what was seen: another one means that something may be new again
    ids: int  # how many were ever given: moves with everything that comes in
    gone: list[str] = field(default_factory=list)  # hosts that this exchange gave up
    odd_seeds: str | None = None  # type of a seed key that nothing can be taken from, "" in order, None not looked at
    turns: list[tuple[str, int]] = field(default_factory=list)  # host, time until the turn that was asked for
    misfits: list[str] = field(default_factory=list)  # keys of queues that something else wrote

    @classmethod
    def unpack(cls, data: bytes) -> Reply:
        """The reply from the script's two msgpack arrays: itself, and the payloads of its leases."""
        documents = msgpack.Unpacker(raw=True)
        documents.feed(data)
        raw, payloads = documents
        raw[3] = [
            Lease(lease_id, in_ms, tries, host.decode(), payload, delay, failing, own)
            for (lease_id, in_ms, tries, host, delay, failing, own), payload in zip(raw[3], payloads, strict=True)
            if payload  # gone in the meantime: only in the replay of an old reply
        ]
        raw[6], raw[11], raw[12] = raw[6].decode(), raw[11].decode(), bool(raw[12])
        raw[16] = [host.decode() for host in raw[16]]
        raw[17] = raw[17].decode() if raw[17] is not False else None
        raw[18] = [(host.decode(), in_ms) for host, in_ms in raw[18]]
        raw[19] = [key.decode() for key in raw[19]]
        return cls(*raw)
