"""``scrapy seed``: give a spider pages to crawl, from the command line or from a file of any length."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from crawler.commands.spider import find_spider, one_line, one_line_flags, whole_number
from crawler.errors import ConfigError, ServerError
from crawler.errors import one_line as in_one_line

if TYPE_CHECKING:
    import redis

    from crawler.frontier.seedfile import Line, Reader
    from crawler.frontier.seedkey import Seed, SeedKey

CHUNK = 1000  # seeds per command: about 100 kB
SHOWN_FAULTS = 20
_POLL = 0.2  # seconds between two looks at a full key


class Command(ScrapyCommand):
    """Pushes seeds onto the spider's seed key, after a look at each; exit code 1 when any was malformed."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        """Shown in the usage line."""
        return "SPIDER (URL... | --file FILE) [options]"

    def short_desc(self) -> str:
        """Shown in the list of commands."""
        return "Give a spider URLs to crawl"

    def long_desc(self) -> str:
        """Shown by ``scrapy seed -h``."""
        return (
            'A seed is a URL or a JSON object: {"url": ...} with any of method, body, formdata, headers, cookies, '
            "meta, cb_kwargs, callback, errback, encoding, priority, dont_filter, flags. Files hold one per line: "
            "blank lines and lines that begin with # are skipped."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The flags. Numbers are checked in run(), where a bad one is one line."""
        super().add_options(parser)
        one_line_flags(parser)
        parser.add_argument("--file", metavar="FILE", help="read seeds from FILE, one per line; - is standard input")
        parser.add_argument("--priority", metavar="N", help="priority of the seeds that have none (default: 0)")
        parser.add_argument(
            "--dedup", action=argparse.BooleanOptionalAction, default=False,
            help="drop seeds whose page this crawl has seen, instead of fetching it again",
        )  # fmt: skip
        parser.add_argument(
            "--first-line", metavar="N", default="1", help="skip the lines before N: to go on after a stop"
        )
        parser.add_argument(
            "--max-waiting",
            metavar="N",
            default="0",
            help="wait while more than N seeds wait to be taken (default: no limit)",
        )

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Exit code 0: all pushed; 1: some malformed, or nothing to push; 2: bad flags, unknown spider."""
        from crawler import connection
        from crawler.frontier.seedfile import Reader
        from crawler.frontier.seedkey import SeedKey
        from crawler.guard import refuses_private

        assert self.settings is not None
        spider_class = find_spider(self.settings, args[:1], "scrapy seed SPIDER URL...")
        settings = self.settings.copy()
        spider_class.update_settings(settings)
        reader = Reader(spider_class, _priority(opts.priority), opts.dedup, refuses_private(settings))
        _check_own_format(reader)
        key = SeedKey.of(spider_class, self.settings)
        with _input(args[1:], opts.file) as (file, name):
            connection.check(self.settings)
            with connection.sync_client(self.settings) as client:
                key.check(client)
                push = Push(client, key, whole_number("--max-waiting", opts.max_waiting))
                with _progress(file, name) as advance:
                    push.all(reader(file, whole_number("--first-line", opts.first_line, low=1)), name, advance)
        print(push.summary(name))
        if push.refused:
            print(push.warning(), file=sys.stderr)
        self.exitcode = 0 if push.pushed and not push.faults else 1


class Push:
    """Pushes lines in chunks and counts. Memory: one chunk."""

    def __init__(self, client: redis.Redis, key: SeedKey, max_waiting: int = 0) -> None:
        self.client, self.key, self.max_waiting = client, key, max_waiting
        self.pushed = self.faults = self.last_line = 0
        self.waiting = self.refused = 0
        self.example = ""  # URL of the first that workers will refuse

    def all(self, lines: Iterator[Line], name: str, advance: Callable[[], None] = lambda: None) -> None:
        """Pushes the good `lines`, reports the malformed ones on standard error."""
        chunk: list[Seed] = []
        for line in lines:
            if line.fault:
                self._report(name, line)
                continue
            if line.refused:
                self.refused += 1
                self.example = self.example or line.refused
            chunk.append((line.seed, line.priority))
            if len(chunk) >= CHUNK:
                self._push(chunk, line.number)
                chunk = []
                advance()
        if chunk:
            self._push(chunk, line.number)
        advance()

    def summary(self, name: str) -> str:
        """What was done, in one line."""
        if not self.pushed and not self.faults:
            return f"{name}: no seeds in it (nothing but blank lines and comments); nothing pushed"
        bad = f", {self.faults} malformed" if self.faults else ""
        return f"{self.pushed} seeds pushed to {self.key.name}{bad}; {self.waiting} wait there"

    def warning(self) -> str:
        """What will become of some of them."""
        return in_one_line(
            f"{self.refused} of these seeds have private or local addresses, the first is {self.example}: with these "
            "settings workers refuse them; set CRAWLER_ALLOW_PRIVATE=1, or list the hosts in CRAWLER_PRIVATE_HOSTS"
        )

    def _push(self, chunk: list[Seed], last_line: int) -> None:
        import redis

        try:
            self.waiting = self.key.push(self.client, chunk)
            self.pushed += len(chunk)
            while self.max_waiting and self.waiting > self.max_waiting:
                time.sleep(_POLL)
                self.waiting = self.key.waiting(self.client)
        except (redis.RedisError, OSError) as error:
            raise ServerError(
                f"Redis stopped answering ({error}) after {self.pushed} seeds; {len(chunk)} more, to line {last_line}, "
                f"may be there or not: go on with --first-line {self.last_line + 1}"
            ) from None
        self.last_line = last_line

    def _report(self, name: str, line: Line) -> None:
        self.faults += 1
        if self.faults <= SHOWN_FAULTS:
            print(f"{name}:{line.number}: {line.fault}", file=sys.stderr)
        elif self.faults == SHOWN_FAULTS + 1:
            print(f"{name}: more malformed lines follow; only their number is shown", file=sys.stderr)


def _priority(value: str | None) -> int | None:
    return None if value is None else whole_number("--priority", value, low=None)


def _check_own_format(reader: Reader) -> None:
    from crawler.frontier.seeds import makes_own_requests

    spider_class = reader.spider_class
    if makes_own_requests(spider_class) and (reader.priority is not None or reader.dedup):
        raise ConfigError(
            "--priority/--dedup", spider_class.name, "this spider reads its seeds itself; put such wishes into the seed"
        )


@contextlib.contextmanager
def _input(urls: list[str], path: str | None) -> Iterator[tuple[IO[bytes], str]]:
    """The stream of lines and its name: the file, standard input, or the URLs given."""
    import io

    if flags := [url for url in urls if url.startswith("-")]:
        raise ConfigError("option", flags[0], "no such option; see scrapy seed -h")
    if bool(urls) == bool(path):
        raise ConfigError(
            "seeds", f"{len(urls)} URLs, --file {path or 'not given'}", "give URLs or --file FILE, not both"
        )
    if path == "-":
        yield sys.stdin.buffer, "standard input"
    elif path:
        if Path(path).is_dir():
            raise ConfigError("--file", path, "is a folder; name a file")
        try:
            file = Path(path).open("rb")  # noqa: SIM115 (closed below; errors of the body are not errors of the file)
        except OSError as error:
            raise ConfigError("--file", path, f"can't be read ({error.strerror})") from None
        with file:
            yield file, path
    else:
        yield (
            io.BytesIO("\n".join(" ".join(url.split("\n")) for url in urls).encode("utf-8", "surrogateescape")),
            "argument",
        )


@contextlib.contextmanager
def _progress(file: IO[bytes], name: str) -> Iterator[Callable[[], None]]:
    """A bar on a terminal (by bytes of the file), nothing elsewhere."""
    if not sys.stderr.isatty() or name in ("argument", "standard input"):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"seeding from {name}", total=Path(name).stat().st_size or None)
        yield lambda: progress.update(task, completed=file.tell())
