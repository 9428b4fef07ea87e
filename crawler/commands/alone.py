"""Commands that look at a page or measure Scrapy: they do not join the crawl.

``scrapy shell``, ``fetch``, ``view``, ``parse``, ``check`` and ``bench`` start an engine as ``crawl`` does. On a shared
frontier they would take requests of a running crawl, so they get Scrapy's own scheduler, write no feeds, open no port,
and leave the seeds where they are. The page is one that somebody named by hand: it may be on a private address.
"""

from __future__ import annotations

import argparse
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request, Spider, signals
from scrapy.exceptions import UsageError
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.conf import arglist_to_dict
from scrapy.utils.spider import spidercls_for_request
from scrapy_redis.spiders import RedisMixin
from w3lib.url import is_url

from crawler import config
from crawler.commands.spider import check_arguments, check_methods, find_spider, one_line
from crawler.errors import ConfigError
from crawler.starts import is_web

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
        """Runs Scrapy's command, if there is such a spider and it can be made."""
        url = self.page(args[0]) if args else ""
        if spider_class := self._spider_class(url, getattr(opts, "spider", None)):
            _tell(spider_class, url, getattr(opts, "spargs", {}))
        super().run(args, opts)  # type: ignore[misc]

    @staticmethod
    def page(word: str) -> str:
        """The URL that Scrapy takes the argument for."""
        if not is_url(word):
            raise ConfigError("URL", word, "must begin with http://, https:// or file://")
        return word

    def _spider_class(self, url: str, name: str | None) -> type[Spider] | None:
        """The one that Scrapy will take."""
        settings: Any = self.settings  # type: ignore[attr-defined]
        if name:
            return find_spider(settings, [name], "--spider SPIDER")
        try:
            return spidercls_for_request(get_spider_loader(settings), Request(url), None) if url else None
        except ValueError as error:
            raise ConfigError("URL", url, f"is not one that can be fetched ({error})") from None


class OnePage(Alone):
    """For commands that follow no link: the page may be a local file, and ``-a`` gives the spider its arguments."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """``-a NAME=VALUE``, as for ``crawl`` and ``parse``."""
        super().add_options(parser)  # type: ignore[misc]
        parser.add_argument("-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE",
                            help="set spider argument (may be repeated)")  # fmt: skip

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """The arguments as a dict."""
        super().process_options(args, opts)
        settings: Any = self.settings  # type: ignore[attr-defined]
        schemes = config.words(settings, "CRAWLER_SCHEMES", "http,https") | {"file"}
        settings.set("CRAWLER_SCHEMES", ",".join(sorted(schemes)), priority=PRIORITY)
        try:
            opts.spargs = arglist_to_dict(opts.spargs)
        except ValueError:
            raise UsageError("Invalid -a value, use -a NAME=VALUE", print_help=False) from None


def _tell(spider_class: type[Spider], url: str, arguments: dict[str, str]) -> None:
    """Spiders will be made with the `arguments`; one that asks where to ``start`` begins at the page, if not told.

    One is made for trial, so that what is missing is one line: Scrapy would show it as a traceback.
    """
    if is_web(url) and "start" in inspect.signature(spider_class.__init__).parameters:
        arguments = {"start": url, **arguments}
    check_arguments(spider_class, arguments)
    check_methods(spider_class(**arguments), arguments)
    make = spider_class.from_crawler

    def from_crawler(crawler: Crawler, *args: Any, **kwargs: Any) -> Spider:
        return make(crawler, *args, **{**arguments, **kwargs})

    spider_class.from_crawler = from_crawler  # type: ignore[method-assign]


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
