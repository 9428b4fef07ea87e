"""Each item gets a key that a repeat has too: the fingerprint of the request it came from, and its place on the page.

After a crash, the pages that were in flight are fetched again, and their items stand in the feeds twice. Whoever loads
the feeds keeps one item per ``fingerprint``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from itemadapter import ItemAdapter
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

FIELD = "fingerprint"

logger = logging.getLogger(__name__)


class ItemFingerprint(BaseSpiderMiddleware):
    """Spider middleware that sets the field ``fingerprint`` of items: ``HEX-N``, N counting a page's items from 0.

    A value that the spider gave stays. Items without such a field (a dataclass, ``scrapy.Item``) are left as they are,
    and one warning per class says so; dicts get it always. Items that ``start()`` yields have no request and no key.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._counts: WeakKeyDictionary[Response, int] = WeakKeyDictionary()
        self._complained: set[type] = set()

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        """Called by Scrapy for each item of a callback (`response` is None for ``start()``)."""
        if response is None or response.request is None or not ItemAdapter.is_item(item):
            return item
        number = self._counts.get(response, 0)
        self._counts[response] = number + 1
        adapter = ItemAdapter(item)
        if not adapter.get(FIELD):
            key = self.crawler.request_fingerprinter.fingerprint(response.request).hex()
            self._set(adapter, f"{key}-{number}")
        return item

    def _set(self, adapter: ItemAdapter, key: str) -> None:
        try:
            adapter[FIELD] = key
        except (KeyError, AttributeError, ValueError, TypeError) as error:  # no such field, or a frozen item
            kind = type(adapter.item)
            if kind not in self._complained:
                self._complained.add(kind)
                logger.warning("%s items carry no fingerprint (%s): give the class a field `%s: str = \"\"`",
                               kind.__name__, error, FIELD)  # fmt: skip
