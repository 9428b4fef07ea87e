"""Commands that look at a page or measure Scrapy: they do not join the crawl.

``scrapy shell``, ``fetch``, ``view``, ``parse``, ``check`` and ``bench`` start an engine as ``crawl`` does. On a shared
frontier they would take requests of a running crawl, so they get Scrapy's own scheduler, write no feeds, open no port,
and leave the seeds where they are. The page is one that somebody named by hand: it may be on a private address.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Spider, signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy_redis.spiders import RedisMixin

from crawler.commands.spider import find_spider, one_line

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

ALONE: dict[str, Any] = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
    "FEEDS": {},
    "METRICS_ENABLED": False,
    "CRAWLER_ALLOW_PRIVATE": True,
}
# Above what a spider sets for itself, below -s on the command line.
PRIORITY = (SETTINGS_PRIORITIES["spider"] + SETTINGS_PRIORITIES["cmdline"]) // 2


class Alone:
    """Mixin for Scrapy's commands."""

    alone: ClassVar[dict[str, Any]] = ALONE

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Adds the settings of a process that works alone."""
        settings: Any = self.settings  # type: ignore[attr-defined]
        settings.setdict(self.alone, priority=PRIORITY)
        settings["EXTENSIONS"].set("crawler.commands.alone.NoSeeds", 0)
        super().process_options(args, opts)  # type: ignore[misc]

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Runs Scrapy's command, if the spider that is asked for exists."""
        if name := getattr(opts, "spider", None):
            find_spider(self.settings, [name], "--spider SPIDER")  # type: ignore[attr-defined]
        super().run(args, opts)  # type: ignore[misc]


class NoSeeds:
    """Extension: a fed spider takes no seeds and does not wait for any."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        extension = cls()

        def leave_the_seeds(spider: Spider) -> None:
            if isinstance(spider, RedisMixin):
                crawler.signals.disconnect(spider.spider_idle, signal=signals.spider_idle)

        crawler.signals.connect(leave_the_seeds, signal=signals.spider_opened, weak=False)
        return extension
