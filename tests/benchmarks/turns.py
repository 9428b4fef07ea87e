"""Metrics on and off in turn within one crawl, so that both meet the same machine: what a worker did in each turn.

The turns are the wall clock's, so that whoever scrapes knows them without being told.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from crawler.frontier.scheduler import shared_scheduler
from crawler.metrics.extension import MetricsExtension


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether metrics were on, pages that came meanwhile, seconds, and CPU seconds of the worker."""

    on: bool
    pages: int
    seconds: float
    cpu: float


def _nothing(_: float) -> None:
    """Instead of timing an exchange."""


def is_on(seconds: float, moment: float) -> bool:
    """Whether `moment` (``time.time()``) is in a turn of `seconds` with metrics."""
    return int(moment / seconds) % 2 == 0


class Turns:
    """Switches a worker's metrics; `done` are the whole turns as JSON objects."""

    def __init__(self, crawler: Crawler, seconds: float) -> None:
        self._crawler, self._seconds = crawler, seconds
        self._pages = 0
        self.done: list[dict[str, Any]] = []
        crawler.signals.connect(self._count, signals.response_received)

    def _count(self) -> None:
        self._pages += 1

    async def watch(self) -> None:
        """Until it is cancelled."""
        assert self._crawler.extensions is not None
        (extension,) = (one for one in self._crawler.extensions.middlewares if isinstance(one, MetricsExtension))
        scheduler = shared_scheduler(self._crawler)
        assert scheduler is not None
        assert scheduler.link is not None
        observe = scheduler.link.observe
        await self._rest()
        while True:
            on = is_on(self._seconds, time.time())
            (self._crawler.signals.connect if on else self._crawler.signals.disconnect)(
                extension.response_downloaded, signals.response_downloaded
            )
            scheduler.link.observe = observe if on else _nothing
            pages, began, cpu = self._pages, time.perf_counter(), time.process_time()
            await self._rest()
            turn = Turn(on, self._pages - pages, time.perf_counter() - began, time.process_time() - cpu)
            self.done.append(asdict(turn))

    async def _rest(self) -> None:
        """Until the next turn begins."""
        await asyncio.sleep(self._seconds - time.time() % self._seconds + 0.001)
