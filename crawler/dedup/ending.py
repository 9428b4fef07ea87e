"""The end of a crawl whose memory records nothing more: pages that link to each other would be crawled for ever."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

FULL = "bloom_full"
"""Close reason of a full memory, the same as the shared frontier's."""

_FULL_TEXT = (
    "The memory of what was seen is full (BLOOM_CAPACITY) and BLOOM_GROWTH=0: the crawl ends; raise BLOOM_CAPACITY or "
    "set BLOOM_GROWTH=1 and start again to go on"
)


class Ending:
    """Closes the spider of `crawler`, once, with one line in the log; without a crawler there is only the line."""

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._crawler = crawler
        self._over = False

    def __call__(self, reason: str, message: str = _FULL_TEXT) -> None:
        """Ends it for `reason`; what it is asked later changes nothing."""
        if self._over:
            return
        self._over = True
        logger.error(message)
        if self._crawler is not None and self._crawler.crawling:
            deferred_from_coro(self._crawler.engine.close_spider_async(reason=reason))
