"""The last gate before the downloader: what did not come as a lease of the frontier still keeps the host's pace.

A lease carries the time at which it may start. robots.txt, media and requests that were held up on their way do not:
the gate lets a host's requests through at its delay and tells the frontier when its next one may start.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.exceptions import IgnoreRequest, NotConfigured

from crawler.frontier.payload import host_of
from crawler.frontier.policy import host_delays
from crawler.frontier.scheduler import shared_scheduler

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

_LATE = 0.02  # seconds: what starts less late than this is on time


class Politeness:
    """Downloader middleware; stands nearest to the downloader, so that cached and refused requests cost nothing."""

    def __init__(self, crawler: Crawler, delay: float, delays: dict[str, float]) -> None:
        self._crawler, self._delay, self._delays = crawler, delay, delays
        self._next: dict[str, float] = {}  # host → when its next request may start (this loop's clock, seconds)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured when no host has a delay."""
        delay, delays = host_delays(crawler.settings)
        if not delay and not any(delays.values()):
            raise NotConfigured
        return cls(crawler, delay, delays)

    async def process_request(self, request: Request) -> None:
        """Waits until the host may be asked. Raises IgnoreRequest when the worker closes meanwhile."""
        scheduler = shared_scheduler(self._crawler)
        worker = scheduler.worker if scheduler is not None else None
        if worker is None:
            return
        host = host_of(request)
        delay = self._delays.get(host, self._delay)
        if not delay:
            return
        now = asyncio.get_running_loop().time()
        start = max(now, self._next.get(host, 0.0))
        self._next[host] = start + delay
        planned = worker.planned_start(request)
        if planned is None or start - planned > _LATE:
            worker.host_starts(host, start - now + delay)
        if start > now and not await worker.sleep(start - now):
            worker.give_back(request)
            raise IgnoreRequest("given back: this worker closes")
        if len(self._next) > 10_000:
            self._next = {host: when for host, when in self._next.items() if when > now}
