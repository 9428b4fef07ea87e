"""``scrapy fetch``: prints one page, beside the crawl and not in it."""

from __future__ import annotations

from scrapy.commands import fetch

from crawler.commands.alone import Alone


class Command(Alone, fetch.Command):
    """Scrapy's command, without the shared frontier."""
