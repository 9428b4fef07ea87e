"""The last gate before the downloader: a host's pace is kept, and how it fares is noted.

A lease carries the time at which it may start. robots.txt, media and requests that were held up on their way do not:
the gate lets a host's requests through at its delay and tells the frontier when its next one may start. On the way back
it tells the frontier of hosts that fail or ask to be left alone; the waiting is the frontier's, for all workers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from crawler.frontier.hosts import retry_after
from crawler.frontier.scheduler import shared_scheduler

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

    from crawler.frontier.worker import Worker

_LATE = 0.02  # seconds: what starts less late than this is on time
_BUSY = (429, 503)  # statuses by which a host says "not now"


class Politeness:
    """Downloader middleware; stands nearest to the downloader, so that cached and refused requests cost nothing."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._own_slot: WeakSet[Request] = WeakSet()  # requests whose slot is the user's choice
        self._next: dict[str, float] = {}  # host → when its next request may start (the loop's clock, seconds)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Scrapy's constructor."""
        return cls(crawler)

    @property
    def _worker(self) -> Worker | None:
        scheduler = shared_scheduler(self._crawler)
        return None if scheduler is None else scheduler.worker

    async def process_request(self, request: Request) -> None:
        """Waits until the host may be asked. Raises IgnoreRequest when the worker closes meanwhile."""
        if request.meta.get("download_slot") is not None:
            self._own_slot.add(request)
        worker = self._worker
        if worker is None:
            return
        host = worker.admissions.host_of(request)
        delay = worker.hosts.delay(host)
        now = asyncio.get_running_loop().time()
        start = max(now, self._next.get(host, 0.0)) if delay else now
        held = worker.reaches_host(request, start)
        if not delay:
            return
        self._next[host] = start + delay
        if held is None or start - held.start_at > _LATE:
            worker.hosts.starts(host, start - now + delay)
            worker.kick()
        if start > now and not await worker.sleep(start - now):
            worker.give_back(request)
            raise IgnoreRequest("given back: this worker closes")
        if len(self._next) > 10_000:
            self._next = {host: when for host, when in self._next.items() if when > now}

    def process_response(self, request: Request, response: Response) -> Response:
        """Notes whether the host is well; a cached response says nothing about it."""
        self._clear_slot(request)
        worker = self._worker
        if worker is not None and "cached" not in response.flags:
            if response.status in _BUSY:
                header, sent = (
                    (response.headers.get(name) or b"").decode("latin-1") for name in ("Retry-After", "Date")
                )
                worker.host_failed(request, retry_after(header, sent) if header else 0.0)
            else:
                worker.hosts.fine(worker.admissions.host_of(request))
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Notes a host that can't be reached; what was refused on purpose says nothing about it."""
        self._clear_slot(request)
        worker = self._worker
        if worker is not None and not isinstance(exception, IgnoreRequest):
            worker.host_failed(request)

    def _clear_slot(self, request: Request) -> None:
        """The downloader writes its slot into every request's meta; who copies the meta must not inherit it."""
        if request in self._own_slot:
            self._own_slot.discard(request)
        else:
            request.meta.pop("download_slot", None)
