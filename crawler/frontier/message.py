"""What travels in the one exchange: the message to the script and its reply, as msgpack.

The envelope is packed without msgpack's ``bin`` type, which the server's ``cmsgpack`` does not read; the reply is
unpacked as raw bytes, since payloads are bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

# Flags of an admission (the script knows the same numbers).
FILTER = 1  # drop it when its fingerprint was seen
ADD = 2  # remember its fingerprint
START = 4  # a start request: once per run, in spite of dont_filter
LOCAL = 8  # stays in this worker: only the verdict is asked for

# Verdicts, one byte each. SEEN_NOW: seen, but it may become new again, so it must not be remembered here. FULL and
# LATER: not admitted, nor anything after it.
NEW, SEEN, FULL, SEEN_NOW, CAPPED, LATER = b"102345"

# Host, flags, dedup item, fingerprint, priority, payload; and, for the few that have any, `jar`: the cookie jar whose
# requests all go to one worker.
Admission = tuple[str, int, bytes, bytes, int, bytes] | tuple[str, int, bytes, bytes, int, bytes, dict[str, str]]
Health = tuple[str, int, int, int]  # host, 1 fine or 0 failing, how long ago that request started, Retry-After
# Lease id, entries of this message it depends on, failure reason or "", URL of a failure, dedup item to forget or b"".
Ack = tuple[bytes, int, str, str, bytes]


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
    refunds: list[str] = field(default_factory=list)  # hosts whose lease never reached them
    crawl_delays: list[tuple[str, int]] = field(default_factory=list)  # host, Crawl-delay of its robots.txt
    health: list[Health] = field(default_factory=list)
    locals: list[bytes] = field(default_factory=list)  # fingerprints of local-only requests that are finished
    skip: list[str] = field(default_factory=list)  # hosts of which this worker holds enough
    want: int = 0
    ahead: int = 0  # how many of a host may be held beyond its concurrency
    seeds: int = 0
    start: str = ""  # "", want, hold, done
    busy: bool = False
    full: bool = False
    bye: bool = False
    held: int = 0

    def pack(self, constants: dict[str, Any], drain: bool = False) -> bytes:
        """The message with the worker's `constants` (:meth:`Policy.constants`) as one msgpack map."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        fields["drain"] = drain
        packed: bytes = msgpack.packb(fields | constants, use_bin_type=False)
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
    start: str  # "", yours, other, done
    paused: bool
    idle: int  # since the last admission, lease or ack anywhere

    epoch: bytes  # of the memory of what was seen: another one means that something may be new again

    @classmethod
    def unpack(cls, data: bytes) -> Reply:
        """The reply from the script's msgpack array."""
        raw = msgpack.unpackb(data, raw=True, strict_map_key=False)
        raw[3] = [
            Lease(lease_id, in_ms, redeliveries, host.decode(), payload, delay)
            for lease_id, in_ms, redeliveries, host, payload, delay in raw[3]
            if payload  # gone in the meantime: only in the replay of an old reply
        ]
        raw[6], raw[11], raw[12] = raw[6].decode(), raw[11].decode(), bool(raw[12])
        return cls(*raw)
