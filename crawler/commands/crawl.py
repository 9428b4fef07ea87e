"""``scrapy crawl`` with errors a person can read and an exit code a supervisor can trust."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.commands import crawl
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.exceptions import CloseSpider
from scrapy.utils.log import configure_logging, get_scrapy_root_handler

from crawler.commands import contact, legacy, misspelt, precheck, refused, unused
from crawler.commands.spider import check_arguments, check_methods, find_spider
from crawler.env import Env
from crawler.errors import ConfigError, CrawlerError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import Settings

logger = logging.getLogger(__name__)

_HOLD_SECONDS = 10.0  # the longest that the log is held back: more than the time-outs of a server that does not answer


class Command(crawl.Command):
    """Exit code 0: the crawl ended as it should; 1: it could not start, or closed for a reason that means failure.

    An expected error (:class:`~crawler.errors.CrawlerError`), wherever the start meets it, is one line on standard
    error; with ``LOG_FILE`` it is in the log too. Unexpected ones keep their traceback, in the log.
    """

    requires_crawler_process = False  # made in run(), so that errors in spider modules are caught as well

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Runs the spider named by the only argument."""
        assert self.settings is not None
        log = _HeldLog()
        try:
            self._crawl(args, opts.spargs, log)
        except CrawlerError as error:
            self.exitcode = 1
            if self.settings.get("LOG_FILE") and log.attached:
                log.release()
                logger.critical("%s", error)
            print(" ".join(str(error).split()), file=sys.stderr)

    def _crawl(self, args: list[str], arguments: dict[str, str], log: _HeldLog) -> None:
        assert self.settings is not None
        if flags := [arg for arg in args if arg.startswith("-")]:
            raise ConfigError("option", flags[0], "there is no such option; see scrapy crawl -h")
        if len(args) > 1:
            raise ConfigError("spider", " ".join(args), "one spider at a time: scrapy crawl SPIDER [-a NAME=VALUE]")
        spider_class = find_spider(self.settings, args, "scrapy crawl SPIDER [-a NAME=VALUE]")
        check_arguments(spider_class, arguments)
        precheck.check(self.settings)
        self.crawler_process = process = _process(self.settings, log)
        legacy.warn(self.settings)
        settings = self.settings.copy()
        spider_class.update_settings(settings)
        unused.warn(settings)
        misspelt.warn(settings, Env.load().names())
        contact.warn(settings, spider_class)
        crawler = _Crawler(spider_class, self.settings, log)
        crawler.signals.connect(self._warn_if_feeds_unused, signal=signals.engine_started)
        reasons: list[str] = []

        def started() -> None:
            log.release()

        def closed(reason: str) -> None:
            reasons.append(reason)

        crawler.signals.connect(started, signal=signals.engine_started)
        crawler.signals.connect(closed, signal=signals.spider_closed)
        task = process.crawl(crawler, **arguments)
        task.get_loop().call_later(_HOLD_SECONDS, log.release)
        process.start()
        self._judge(task, reasons, log)
        if reasons and (told := refused.line(crawler.stats.get_stats(), _start_urls(crawler.spider))):
            logger.warning("%s", told)

    def _judge(self, task: asyncio.Task[None], reasons: list[str], log: _HeldLog) -> None:
        assert self.settings is not None
        error = task.exception() if task.done() and not task.cancelled() else None
        if isinstance(error, CrawlerError):
            raise error
        log.release()
        if error is not None:
            logger.critical("The crawl failed: %r", error, exc_info=error)
            self.exitcode = 1
        elif reasons and reasons[-1] in _failed_reasons():
            self.exitcode = 1
            if self.settings.get("LOG_FILE") or not self.settings.getbool("LOG_ENABLED", True):
                print(f"the crawl closed with reason {reasons[-1]}: see its log", file=sys.stderr)


def _failed_reasons() -> frozenset[str]:
    from crawler.frontier import FAILED_REASONS

    return FAILED_REASONS


def _start_urls(spider: Spider | None) -> Iterator[str]:
    """One after the other: a spider may have a generator without end."""
    return (str(url) for url in getattr(spider, "start_urls", None) or ())


def _process(settings: Settings, log: _HeldLog) -> AsyncCrawlerProcess:
    """Scrapy's process, whose very first log lines are held back too: its log handler is installed before it."""
    wanted = settings.getbool("LOG_INSTALL_ROOT_HANDLER")
    try:
        configure_logging(settings)
    except OSError as error:
        raise ConfigError("LOG_FILE", settings["LOG_FILE"], f"cannot be written ({error.strerror})") from None
    except ValueError:
        remedy = "must be DEBUG, INFO, WARNING, ERROR or CRITICAL"
        raise ConfigError("LOG_LEVEL", settings["LOG_LEVEL"], remedy) from None
    log.attach()
    settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")
    process = AsyncCrawlerProcess(settings)
    settings.set("LOG_INSTALL_ROOT_HANDLER", wanted, priority="cmdline")
    return process


class _HeldLog(logging.Filter):
    """Holds the log back until the crawl runs, so that a start that fails is one line and not one in fifty."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] | None = []
        self.attached = False

    def attach(self) -> None:
        """Filters Scrapy's handler, which is another one whenever a spider's settings were applied."""
        if (handler := get_scrapy_root_handler()) is not None and self not in handler.filters:
            handler.addFilter(self)
            self.attached = True

    def filter(self, record: logging.LogRecord) -> bool:
        if self._records is None:
            return True
        self._records.append(record)
        return False

    def release(self) -> None:
        """Writes what was held back, and from now on everything at once."""
        records, self._records = self._records, None
        handler = get_scrapy_root_handler()
        for record in records or []:
            if handler is not None and record.levelno >= handler.level:
                handler.handle(record)


class _Crawler(Crawler):
    def __init__(self, spider_class: type[Spider], settings: Settings, log: _HeldLog) -> None:
        self._held_log = log
        super().__init__(spider_class, settings)

    def _update_root_log_handler(self) -> None:
        super()._update_root_log_handler()
        self._held_log.attach()

    def _create_spider(self, *args: Any, **kwargs: Any) -> Spider:
        spider = super()._create_spider(*args, **kwargs)
        check_methods(spider, kwargs)
        return spider

    def _create_engine(self) -> ExecutionEngine:
        return _Engine(self, lambda _: self.stop_async())


class _Engine(ExecutionEngine):
    """Scrapy 2.19 closes a spider whose opening failed as if it had been open, with three tracebacks in the log."""

    async def open_spider_async(self, *, close_if_idle: bool = True) -> None:
        try:
            await super().open_spider_async(close_if_idle=close_if_idle)
        except CrawlerError:
            self.spider = None  # it was not opened: only the downloader is to be closed
            raise
        except CloseSpider:
            if self.scraper.slot is None:  # asked for by the scheduler: extensions are open, the scraper is not yet
                await self.scraper.open_spider_async()
            raise
