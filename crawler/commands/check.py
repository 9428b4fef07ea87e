"""``scrapy check``: runs the contracts of spiders, beside the crawl and not in it."""

from __future__ import annotations

import argparse

from scrapy.commands import check

from crawler.commands.alone import Alone
from crawler.commands.spider import find_spider, one_line


class Command(Alone, check.Command):
    """Scrapy's command, without the shared frontier."""

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Runs Scrapy's command, if the spiders that are asked for exist."""
        assert self.settings is not None
        for name in args:
            find_spider(self.settings, [name], "scrapy check [SPIDER...]")
        check.Command.run(self, args, opts)  # not Alone's, which takes the argument for a page
