"""``scrapy view``: shows one page in a browser, beside the crawl and not in it."""

from __future__ import annotations

from scrapy.commands import view

from crawler.commands.alone import OnePage


class Command(OnePage, view.Command):
    """Scrapy's command, without the shared frontier."""
