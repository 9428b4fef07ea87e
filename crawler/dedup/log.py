"""What Scrapy's users expect of a filtered duplicate: a stat, and a debug line for the first one or for all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.request import referer_str

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger(__name__)


class DuplicateLog:
    """Counts ``dupefilter/filtered`` and logs the first duplicate, or with `debug` each one."""

    def __init__(self, stats: StatsCollector | None = None, *, debug: bool = False) -> None:
        self._stats = stats
        self._debug = debug
        self._shown = False

    def __call__(self, request: Request, spider: Spider) -> None:
        """To be called for each filtered request."""
        if self._stats is not None:
            self._stats.inc_value("dupefilter/filtered")
        if self._shown and not self._debug:
            return
        self._shown = True
        hint = "" if self._debug else " - the only one shown (DUPEFILTER_DEBUG shows all)"
        logger.debug(
            "Filtered duplicate request: %s (referer: %s)%s",
            request,
            referer_str(request),
            hint,
            extra={"spider": spider},
        )
