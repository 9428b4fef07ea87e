"""Scrapy's robots.txt middleware, minus a race: what waits for robots.txt is judged by it.

Scrapy 2.19 lets all waiting requests of a host await one Deferred, and the first to be woken takes its result: the
others get None, which means "no rules", and are fetched whatever robots.txt says. With many requests leased at once
that is every worker's first second. ``tests/integration/test_robots.py`` holds this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapyRobotsTxtMiddleware
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.robotstxt import RobotParser


class RobotsTxtMiddleware(ScrapyRobotsTxtMiddleware):
    """Takes the place of Scrapy's own, with its settings (``ROBOTSTXT_*``)."""

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """The rules for the request's host; None when it has none."""
        parser = await super().robot_parser(request)
        if parser is not None:
            return parser
        known = self._parsers.get(urlparse_cached(request).netloc)
        return None if isinstance(known, Deferred) else known
