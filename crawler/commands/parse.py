"""``scrapy parse``: what a spider makes of one page, beside the crawl and not in it."""

from __future__ import annotations

from scrapy.commands import parse

from crawler.commands.alone import Alone


class Command(Alone, parse.Command):
    """Scrapy's command, without the shared frontier."""
