"""Where the frontier listens to Scrapy's engine: the few internals it relies on, checked when the spider opens.

Scrapy has no signal for "this request is over, callbacks and pipelines included"; its engine slot knows
(``remove_request``). Nor is there one for "the download finally failed"; the scraper is told (``enqueue_scrape``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import scrapy
from scrapy.http import Request, Response
from twisted.python.failure import Failure

from crawler.errors import CrawlerError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Listener(Protocol):
    """What the engine's internals tell the scheduler."""

    def downloaded(self, request: Request, result: Response | Failure) -> None:
        """The scraper gets the response, or the final failure."""

    def removed(self, request: Request) -> None:
        """The engine is done with the request."""

    def closing(self) -> None:
        """The engine closes: it starts nothing more and waits for what is under way."""


_INTERNALS = (
    "_slot.remove_request",
    "_slot.close",
    "_slot.inprogress",
    "_slot.nextcall.schedule",
    "_slot.close_if_idle",
    "scraper.enqueue_scrape",
    "downloader._delay",
    "downloader._jitter",
    "downloader.per_slot_settings",
    "downloader.active",
)


def check(engine: Any) -> None:
    """Raises CrawlerError naming the first internal that this Scrapy no longer has."""
    for path in _INTERNALS:
        target = engine
        for name in path.split("."):
            target = getattr(target, name, None)
            if target is None:
                raise CrawlerError(
                    f"Scrapy {scrapy.__version__} has no engine.{path}: "
                    "this version moved what the frontier relies on; use the Scrapy that requirements.txt names"
                )


def install(crawler: Crawler, listener: Listener) -> None:
    """Tells `listener` what is downloaded, what is over, and that the engine closes."""
    engine: Any = crawler.engine
    slot, scraper = engine._slot, engine.scraper
    remove_request: Callable[[Request], None] = slot.remove_request
    enqueue_scrape: Callable[[Any, Request], Any] = scraper.enqueue_scrape

    def removed(request: Request) -> None:
        listener.removed(request)
        if request in slot.inprogress:  # not so after the frontier gave up on it at the end of the grace period
            remove_request(request)

    def downloaded(result: Response | Failure, request: Request) -> Any:
        listener.downloaded(request, result)
        return enqueue_scrape(result, request)

    close: Callable[[], Coroutine[Any, Any, None]] = slot.close

    async def closing() -> None:
        listener.closing()
        await close()

    slot.close = closing
    slot.remove_request = removed
    scraper.enqueue_scrape = downloaded


def pace_by_frontier(crawler: Crawler) -> None:
    """Switches the downloader's own delay off, and those that ``DOWNLOAD_SLOTS`` gives hosts: leases keep the pace."""
    downloader: Any = crawler.engine.downloader
    downloader._delay = downloader._jitter = 0.0
    downloader.per_slot_settings = {
        host: {name: value for name, value in slot.items() if name not in ("delay", "jitter", "randomize_delay")}
        for host, slot in downloader.per_slot_settings.items()
    }


def abandon(crawler: Crawler) -> None:
    """Lets the engine close although requests are still under way: they were given back and will run elsewhere."""
    engine: Any = crawler.engine
    slot = engine._slot
    for request in list(slot.inprogress):
        slot.inprogress.discard(request)
    if slot.closing is not None and not slot.closing.called:
        slot._maybe_fire_closing()


def abandon_scraper(crawler: Crawler) -> None:
    """Lets the scraper close although callbacks or pipelines are still under way."""
    scraper_slot: Any = getattr(crawler.engine.scraper, "slot", None)
    if scraper_slot is not None and scraper_slot.closing is not None and not scraper_slot.closing.called:
        closing, scraper_slot.closing = scraper_slot.closing, None
        closing.callback(crawler.spider)
