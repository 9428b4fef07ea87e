"""``scrapy fetch``: prints one page, beside the crawl and not in it."""

from __future__ import annotations

from scrapy.commands import fetch

from crawler.commands.alone import OnePage


class Command(OnePage, fetch.Command):
    """Scrapy's command, without the shared frontier."""
