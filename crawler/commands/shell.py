"""``scrapy shell``: a console for one page, beside the crawl and not in it."""

from __future__ import annotations

from scrapy.commands import shell

from crawler.commands.alone import OnePage


class Command(OnePage, shell.Command):
    """Scrapy's command, without the shared frontier."""
