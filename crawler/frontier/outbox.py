"""Requests on their way to the frontier, and the arithmetic of when a finished request may be acknowledged.

Every admission gets the next ordinal. Whatever a request produced was enqueued between its start and its end, so its
children lie in the ordinals ``(start, end]``, together with some of its neighbours': waiting for all of them needs no
book-keeping of parents, and never says "safe" too early.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from scrapy import Request

from crawler.frontier.message import FULL, LATER, LOCAL, NEW, Admission

_MOST_BYTES = 8 * 1024 * 1024  # payloads in one message: the server takes 512 MB, and answers nobody meanwhile


@dataclass(slots=True)
class Entry:
    """An admission that is not confirmed yet."""

    ordinal: int
    admission: Admission
    request: Request

    @property
    def local(self) -> bool:
        """Whether only the verdict is asked for: the request itself stays in this worker."""
        return bool(self.admission[1] & LOCAL)

    @property
    def buried(self) -> bool:
        """Whether it goes to the dead letters instead of a queue."""
        return len(self.admission) > 6 and "dead" in self.admission[6]


class Span(NamedTuple):
    """The ordinals ``(start, end]`` that were enqueued while a request ran."""

    start: int
    end: int


NOTHING = Span(0, 0)


class Outbox:
    """FIFO of admissions; knows which spans are confirmed."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._open_locals: set[int] = set()  # local-only requests that are not finished, verdict or not
        self.tail = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, admission: Admission, request: Request) -> None:
        """Enqueues an admission."""
        self.tail += 1
        entry = Entry(self.tail, admission, request)
        self._entries.append(entry)
        if entry.local:
            self._open_locals.add(entry.ordinal)

    def batch(self, limit: int) -> list[Admission]:
        """The oldest admissions, at most `limit` and as many as one message carries; they stay here until confirmed."""
        batch: list[Admission] = []
        room = _MOST_BYTES
        for entry in islice(self._entries, limit):
            room -= len(entry.admission[5])
            if room < 0 and batch:
                break
            batch.append(entry.admission)
        return batch

    def confirm(self, verdicts: bytes) -> Iterator[tuple[Entry, int]]:
        """Takes the oldest entries out, one per verdict, as (entry, verdict). Stops at the first FULL or LATER."""
        for verdict in verdicts:
            if verdict in (FULL, LATER):
                return
            entry = self._entries.popleft()
            if verdict != NEW:
                self._open_locals.discard(entry.ordinal)
            yield entry, verdict

    def local_done(self, ordinal: int) -> None:
        """A local-only request and everything it produced is safe."""
        self._open_locals.discard(ordinal)

    def needs(self, span: Span, batch: int) -> int | None:
        """How many of the first `batch` entries `span` waits for, or None if it waits for more than those."""
        if span.start == span.end:
            return 0  # it made nothing, whatever else waits for room
        confirmed = self.tail - len(self._entries)
        missing = max(0, span.end - confirmed)
        if missing > batch or any(span.start < local <= span.end for local in self._open_locals):
            return None
        return missing
