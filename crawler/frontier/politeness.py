"""The last gate before the downloader: a host's pace is kept, and how it fares is noted.

A lease carries the time at which it may start. Media, and pages that were held up for long, ask the frontier for a turn
of their host's. robots.txt takes the turn of the page that waits for it; it and what is a little late go at the host's
delay, and the frontier is told when the next one may start. On the way back the gate tells the frontier of hosts that
fail or ask to be left alone; the waiting is the frontier's, for all workers.
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
_HELD_UP = 0.2  # seconds, or half the delay: what starts later than this may meet the next one, given to another worker
_PATIENCE = 5.0  # seconds to wait for the frontier's word on a turn; then this worker's own pace must do
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
        delay, loop = worker.hosts.delay(host), asyncio.get_running_loop()
        if not delay:
            worker.reaches_host(request, loop.time())
            return
        planned = worker.planned(request)
        media = planned is None and not request.url.endswith("/robots.txt")
        late = 0.0 if planned is None else max(loop.time(), self._next.get(host, 0.0)) - planned
        turn = await self._turn(worker, host) if media or late > max(_HELD_UP, delay / 2) else None
        now = loop.time()
        start = max(now, self._next.get(host, 0.0) if turn is None else turn)
        worker.reaches_host(request, start)
        if turn is None:
            self._next[host] = start + delay
            if planned is None or start - planned > _LATE:
                worker.hosts.starts(host, start - now + delay)
                worker.kick()
        await self._wait(worker, request, start - now, media)
        self._next[host] = max(self._next.get(host, 0.0), start + delay)
        if len(self._next) > 10_000:
            self._next = {host: when for host, when in self._next.items() if when > now}

    @staticmethod
    async def _turn(worker: Worker, host: str) -> float | None:
        """When the host's next turn is, which nobody else gets; None when the frontier does not answer."""
        turn = worker.hosts.ask_turn(host)
        worker.kick()
        try:
            async with asyncio.timeout(_PATIENCE):
                return await turn
        except TimeoutError:
            return None

    @staticmethod
    async def _wait(worker: Worker, request: Request, seconds: float, media: bool) -> None:
        """Sleeps, but not into the end of the worker; media belong to a page that may be finished yet."""
        if media:
            await asyncio.sleep(seconds)
        elif seconds > 0 and not await worker.sleep(seconds):
            worker.give_back(request)
            raise IgnoreRequest("given back: this worker closes")

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
