"""Seeds of one worker: how many it takes from the seed key, and what becomes of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.frontier import seeds
from crawler.frontier.message import ADD, BATCH, SEED
from crawler.frontier.outbox import Span

if TYPE_CHECKING:
    from scrapy import Spider

    from crawler.frontier.admissions import Admissions
    from crawler.frontier.ledger import Held, Ledger

_AHEAD = 1000  # seeds are taken while fewer requests than this are queued
_MOST = 128  # seeds of one exchange


class Planting:
    """Takes seeds while the frontier has little else, and makes requests of them."""

    def __init__(self, spider: Spider, admissions: Admissions, ledger: Ledger) -> None:
        self._spider, self._admissions, self._ledger = spider, admissions, ledger

    def wanted(self, queued: int, capacity: int) -> int:
        """Seeds to ask for when `queued` requests wait in the frontier."""
        return min(capacity, _MOST) if queued < _AHEAD and len(self._admissions.outbox) < BATCH else 0

    def plant(self, held: Held) -> None:
        """A seed becomes requests; it is done when they are in the frontier. Raises SeedError."""
        outbox = self._admissions.outbox
        start = outbox.tail
        for request in seeds.requests_from_seed(held.lease.payload.removeprefix(SEED), self._spider):
            self._admissions.enqueue(request, ADD)
        self._ledger.settle(held, Span(start, outbox.tail))
