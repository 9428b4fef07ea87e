"""``start()`` runs once per crawl: one worker at a time executes it, the others wait and take over if that one dies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy import Request

from crawler.frontier.scheduler import shared_scheduler

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler


class StartOnce:
    """Spider middleware that lets ``start()`` run only while this worker holds the frontier's claim on it.

    It must stand nearest to the engine: whatever the other middlewares make of the start requests passes here. With
    another scheduler than ours it does nothing.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Scrapy's constructor."""
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yields what `start` yields if this worker may execute it, else nothing once somebody has."""
        scheduler = shared_scheduler(self._crawler)
        claim = scheduler.start if scheduler is not None else None
        if claim is None:
            async for item_or_request in start:
                yield item_or_request
            return
        if not await claim.claim():
            return
        try:
            async for item_or_request in start:
                if isinstance(item_or_request, Request):
                    claim.note(item_or_request)
                yield item_or_request
                if not await claim.may_continue():
                    return
        except Exception:
            claim.done(failed=True)  # the error is Scrapy's to report
            raise
        claim.done()
