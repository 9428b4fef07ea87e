"""What commands about one spider share: finding it, whole numbers, and errors in one line."""

from __future__ import annotations

import argparse
import difflib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import redis

from crawler.errors import ConfigError, CrawlerError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings, Settings
    from scrapy.spiderloader import SpiderLoaderProtocol

Run = Callable[[Any, list[str], argparse.Namespace], None]


def one_line(run: Run) -> Run:
    """A command's ``run`` whose expected errors are one line on standard error and the exit code (2 for bad input)."""

    @functools.wraps(run)
    def wrapped(command: Any, args: list[str], opts: argparse.Namespace) -> None:
        try:
            run(command, args, opts)
            sys.stdout.flush()
        except BrokenPipeError:  # `| head` has enough; nothing is to be flushed to it at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            command.exitcode = 130
        except CrawlerError as error:
            print(error, file=sys.stderr)
            command.exitcode = 2 if isinstance(error, ConfigError) else 1
        except redis.RedisError as error:
            print(f"Redis did not answer as expected: {' '.join(str(error).split())}", file=sys.stderr)
            command.exitcode = 1

    return wrapped


def one_line_flags(parser: argparse.ArgumentParser) -> None:
    """Errors of the parser's own (a flag without its value) are one line as well, and exit code 2."""

    def error(message: str) -> NoReturn:
        parser.exit(2, f"{' '.join(message.split())}\n")

    parser.error = error  # type: ignore[method-assign]


def find_spider(settings: BaseSettings, args: Sequence[str], usage: str) -> type[Spider]:
    """The class of the spider named by the only element of `args`."""
    if not args or args[0].startswith("-"):
        raise ConfigError("spider", args[0] if args else "(not given)", f"name one: {usage}")
    loader = _loader(settings)
    try:
        return loader.load(args[0])
    except KeyError:
        known = sorted(loader.list())
        near = difflib.get_close_matches(args[0], known, 1)
        remedy = f"did you mean {near[0]}?" if near else f"this project has {', '.join(known) or 'no spiders'}"
        raise ConfigError("spider", args[0], f"no such spider; {remedy}") from None


def _loader(settings: BaseSettings) -> SpiderLoaderProtocol:
    from scrapy.spiderloader import get_spider_loader

    modules = settings.getlist("SPIDER_MODULES")
    try:
        return get_spider_loader(settings)
    except ModuleNotFoundError as error:
        if not any(f"{module}.".startswith(f"{error.name}.") for module in modules):
            raise  # an import in a spider of the user's, who needs the traceback
        raise ConfigError("SPIDER_MODULES", ",".join(modules), f"there is no module {error.name}") from None


def check_arguments(spider_class: type[Spider], arguments: dict[str, str]) -> None:
    """Raises ConfigError if the spider's constructor needs another argument, or takes none of that name."""
    try:
        inspect.signature(spider_class).bind(**arguments)
    except TypeError as error:
        remedy = f"cannot be made ({error}): give its arguments with -a NAME=VALUE"
        raise ConfigError("spider", spider_class.name, remedy) from None


def check_methods(spider: Spider, arguments: dict[str, str]) -> None:
    """Raises ConfigError if one of the `arguments` stands in a method's place: what no ``__init__`` takes, Scrapy makes
    an attribute of the spider.
    """
    cls = type(spider)
    taken = inspect.signature(cls).parameters
    for name, value in arguments.items():
        if name not in taken and vars(spider).get(name) is value and callable(getattr(cls, name, None)):
            raise ConfigError(
                f"-a {name}", value,
                f"it would replace the method {name} of {cls.__name__}: leave it out (in .env: SPIDER_ARGS), or take "
                f'it with def __init__(self, {name}="", **kwargs)',
            )  # fmt: skip


def whole_number(name: str, value: object, *, low: int | None = 0) -> int:
    """The flag's value as an int of at least `low`."""
    try:
        number = int(str(value))
    except ValueError:
        raise ConfigError(name, value, "must be a whole number") from None
    if low is not None and number < low:
        raise ConfigError(name, value, f"must be at least {low}")
    return number


def make_fingerprinter(settings: Settings, spider_class: type[Spider]) -> Any:
    """The fingerprinter that a crawl of the spider would have; `settings` include the spider's own."""
    from scrapy.crawler import Crawler
    from scrapy.utils.misc import build_from_crawler, load_object

    crawler = Crawler(spider_class, settings)
    crawler.stats = load_object(settings["STATS_CLASS"])(crawler)
    return build_from_crawler(load_object(settings["REQUEST_FINGERPRINTER_CLASS"]), crawler)
