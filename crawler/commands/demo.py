"""``scrapy demo``: see the project work, and be killed, on a website whose every page is known."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import NoReturn

from scrapy.commands import ScrapyCommand

from crawler.commands.spider import one_line_flags
from crawler.errors import ConfigError, CrawlerError


class Command(ScrapyCommand):
    """Starts a local website, a private server and some workers; the exit code says whether every page came once."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        """Shown in the usage line."""
        return "[--workers 3] [--pages 1000] [--kill]"

    def short_desc(self) -> str:
        """Shown in the list of commands."""
        return "Crawl a local website of known truth with several workers"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The flags. Numbers are checked in run(), where a bad one is one line."""
        super().add_options(parser)
        one_line_flags(parser)
        parser.add_argument("--workers", default="3", metavar="N", help="worker processes (default: 3)")
        parser.add_argument("--pages", default="1000", metavar="N", help="pages of the website (default: 1000)")
        parser.add_argument("--kill", action="store_true", help="kill -9 one worker half-way and start another")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Exit code 0: every page fetched, none twice but for a kill; 1: not so; 2: bad flags; 130: Ctrl-C."""
        from rich.console import Console

        from crawler.demo import Plan, run

        signal.signal(signal.SIGTERM, _interrupt)
        try:
            if args:
                raise ConfigError("scrapy demo", " ".join(args), "takes --workers N, --pages N and --kill only")
            plan = Plan(_number("--workers", opts.workers), _number("--pages", opts.pages), opts.kill)
            self.exitcode = 0 if run(plan, Console()) else 1
        except KeyboardInterrupt:
            print("interrupted: all processes are stopped, nothing is kept", file=sys.stderr)
            self.exitcode = 130
        except CrawlerError as error:
            print(error, file=sys.stderr)
            self.exitcode = 2 if isinstance(error, ConfigError) else 1


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(name, value, "must be a whole number") from None


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
