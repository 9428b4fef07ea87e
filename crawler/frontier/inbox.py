"""Leased requests that wait in this worker for their turn: hosts in turn, each at its start time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Waiting(Generic[T]):
    start_at: float
    entry: T


class Inbox(Generic[T]):
    """FIFO per host, round robin over hosts, so that one slow host never blocks the others' requests."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hosts: dict[str, deque[_Waiting[T]]] = {}  # in turn order: the first host is asked first
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, host: str, entry: T, start_at: float) -> None:
        """Adds an entry that may start at `start_at` (this worker's clock, seconds)."""
        self._hosts.setdefault(host, deque()).append(_Waiting(start_at, entry))
        self._size += 1

    def take(self, may_start: Callable[[str], bool]) -> T | None:
        """The next entry that is due and whose host `may_start` allows, or None."""
        now = self._clock()
        for host, waiting in self._hosts.items():
            if waiting[0].start_at <= now and may_start(host):
                entry = waiting.popleft().entry
                del self._hosts[host]
                if waiting:
                    self._hosts[host] = waiting  # to the end of the turn
                self._size -= 1
                return entry
        return None

    def next_start(self) -> float | None:
        """When the next entry that is not due yet will be, or None."""
        now = self._clock()
        later = [waiting[0].start_at for waiting in self._hosts.values() if waiting[0].start_at > now]
        return min(later, default=None)

    def count(self, host: str) -> int:
        """Entries of one host."""
        return len(self._hosts.get(host, ()))

    def hosts(self) -> Iterator[tuple[str, int]]:
        """Every host with its number of entries."""
        return ((host, len(waiting)) for host, waiting in self._hosts.items())

    def remove(self, host: str) -> list[T]:
        """Takes out everything of one host."""
        entries = [item.entry for item in self._hosts.pop(host, ())]
        self._size -= len(entries)
        return entries

    def clear(self) -> list[T]:
        """Takes everything out."""
        entries = [item.entry for waiting in self._hosts.values() for item in waiting]
        self._hosts.clear()
        self._size = 0
        return entries
