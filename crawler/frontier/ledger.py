"""The leases that this worker holds, from the inbox to the acknowledgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scrapy import Request

from crawler.frontier.message import Ack, Lease
from crawler.frontier.outbox import NOTHING, Outbox, Span


@dataclass(slots=True, eq=False)
class Held:
    """One lease. `request` is None until it is started."""

    lease: Lease
    start_at: float
    request: Request | None = None
    span: Span = NOTHING
    downloading: bool = False
    give: bool = False
    reached_at: float | None = None  # when it was sent to its host, None for one that never was
    reason: str = ""
    url: str = ""
    forget: bytes = b""  # what a failure makes the dupefilter forget
    trail: Sequence[tuple[str, bytes]] = ()  # host and the same, of each page that redirected to the failed one


class Ledger:
    """Who holds what; leases are found by id (the frontier's) and by request object (Scrapy's).

    The request object is the key, never its ``meta``: redirects and retries copy that.
    """

    def __init__(self) -> None:
        self._held: dict[bytes, Held] = {}
        self._running: dict[Request, Held] = {}
        self._done: list[Held] = []
        self._gives: list[Held] = []
        self._downloading: Counter[str] = Counter()
        self.finished = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def running(self) -> int:
        """Requests that the engine has."""
        return len(self._running)

    @property
    def downloading(self) -> int:
        """Requests between the engine and their response."""
        return self._downloading.total()

    @property
    def unsettled(self) -> int:
        """Finished or given back, but not confirmed."""
        return len(self._done) + len(self._gives)

    @property
    def at_risk(self) -> int:
        """Requests that would be fetched again if this worker died now."""
        return len(self._running) + len(self._done)

    def load(self, host: str) -> int:
        """Requests of a host between the engine and their response."""
        return self._downloading[host]

    def ids(self) -> list[bytes]:
        """Every lease that must be kept alive."""
        return list(self._held)

    def by_request(self, request: Request) -> Held | None:
        """The lease of a request that the engine has."""
        return self._running.get(request)

    def add(self, lease: Lease, start_at: float) -> Held:
        """A new lease; it may start at `start_at` (the loop's clock, seconds)."""
        held = self._held[lease.id] = Held(lease, start_at)
        return held

    def begin(self, held: Held, request: Request, tail: int) -> None:
        """The engine takes the request; whatever is enqueued from here on may be its output."""
        held.request, held.span, held.downloading = request, Span(tail, tail), True
        self._running[request] = held
        self._downloading[held.lease.host] += 1

    def downloaded(self, request: Request) -> Held | None:
        """The download is over, its callback is not."""
        held = self._running.get(request)
        if held is not None and held.downloading:
            held.downloading = False
            host = held.lease.host
            self._downloading[host] -= 1
            if self._downloading[host] <= 0:
                del self._downloading[host]
        return held

    def end(self, request: Request, tail: int) -> Held | None:
        """The engine is done with the request: it is acknowledged once its span is confirmed."""
        held = self.downloaded(request)
        if held is None:
            return None
        del self._running[request]
        held.span = Span(held.span.start, tail)
        self.finished += 1
        if self.holds(held):  # not so when the lease was lost meanwhile
            (self._gives if held.give else self._done).append(held)
        return held

    def refuse(self, held: Held, reason: str) -> None:
        """A lease that can't be started is done, with the reason for the dead letters."""
        held.reason = reason
        self._done.append(held)

    def settle(self, held: Held, span: Span) -> None:
        """A lease that never was a request (a seed) is done once `span` is confirmed."""
        held.span = span
        self._done.append(held)

    def give(self, helds: Iterable[Held]) -> None:
        """Leases go back to the queue, not started."""
        self._gives.extend(helds)

    def give_running(self) -> None:
        """Everything that the engine still has goes back; what it yields from now on is nobody's."""
        self._gives.extend(held for held in self._running.values() if self.holds(held))
        self._running.clear()
        self._downloading.clear()

    def give_everything(self) -> None:
        """The worker leaves: whatever is not acknowledged goes back."""
        self._gives = list(self._held.values())
        self._done.clear()
        self._running.clear()
        self._downloading.clear()

    def acks(self, outbox: Outbox, batch: int) -> list[Ack]:
        """What may be acknowledged together with the first `batch` entries of the outbox."""
        acks = []
        for held in self._done:
            needed = outbox.needs(held.span, batch)
            if needed is not None:
                acks.append((held.lease.id, needed, held.reason, held.url, held.forget))
        return acks

    def trails(self, acked: Iterable[Ack]) -> list[tuple[str, bytes]]:
        """What is to be forgotten besides the failures among `acked` themselves."""
        failed = (self._held.get(ack[0]) for ack in acked if ack[2])
        return [one for held in failed if held is not None for one in held.trail]

    def gives(self) -> list[bytes]:
        """Ids of the leases that go back."""
        return [held.lease.id for held in self._gives]

    def settled(self, acked: Iterable[bytes], given: Iterable[bytes]) -> None:
        """The frontier has taken these acks and give-backs."""
        gone = set(acked) | set(given)
        for lease_id in gone:
            self._held.pop(lease_id, None)
        self._done = [held for held in self._done if held.lease.id not in gone]
        self._gives = [held for held in self._gives if held.lease.id not in gone]

    def lose(self, ids: Iterable[bytes]) -> int:
        """These leases went to somebody else; says how many of them were still held here."""
        lost = [self._held.pop(lease_id) for lease_id in ids if lease_id in self._held]
        gone = {held.lease.id for held in lost}
        self._done = [held for held in self._done if held.lease.id not in gone]
        self._gives = [held for held in self._gives if held.lease.id not in gone]
        return len(lost)

    def holds(self, held: Held) -> bool:
        """Whether the lease is still this worker's. A server that lost its latest writes may give an id anew."""
        return self._held.get(held.lease.id) is held
