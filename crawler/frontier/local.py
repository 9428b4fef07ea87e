"""Requests that can't be written down (a lambda as callback, a lock in meta): they run in the worker that made them.

Their parents stay leased until they are finished, so if the worker dies, the parent runs again elsewhere and makes them
anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from scrapy import Request

from crawler.frontier.outbox import NOTHING, Entry, Outbox, Span


@dataclass(slots=True, eq=False)
class LocalRun:
    """One local-only request: its place in the outbox's order and the span of what it produced."""

    request: Request
    ordinal: int
    fingerprint: bytes
    span: Span = NOTHING


class Locals:
    """Local-only requests that were admitted: waiting, running, and finished but with output not confirmed yet."""

    def __init__(self) -> None:
        self._waiting: deque[LocalRun] = deque()
        self._running: dict[Request, LocalRun] = {}
        self._done: list[LocalRun] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running) + len(self._done)

    def admit(self, entry: Entry) -> None:
        """The frontier says that nobody has seen this one."""
        self._waiting.append(LocalRun(entry.request, entry.ordinal, entry.admission[3]))

    def take(self, tail: int) -> Request | None:
        """The next one for the engine."""
        if not self._waiting:
            return None
        run = self._waiting.popleft()
        run.span = Span(tail, tail)
        self._running[run.request] = run
        return run.request

    def end(self, request: Request, tail: int) -> bool:
        """The engine is done with it; False if it is none of these."""
        run = self._running.pop(request, None)
        if run is None:
            return False
        run.span = Span(run.span.start, tail)
        self._done.append(run)
        return True

    def abandon(self) -> None:
        """What is not finished never will be here: their parents go back."""
        self._waiting.clear()
        self._running.clear()

    def settled(self, outbox: Outbox) -> list[bytes]:
        """Fingerprints of those whose output is all safe; their parents no longer wait for them."""
        safe = [run for run in self._done if outbox.needs(run.span, 0) is not None]
        for run in safe:
            outbox.local_done(run.ordinal)
        gone = set(safe)
        self._done = [run for run in self._done if run not in gone]
        return [run.fingerprint for run in safe]
