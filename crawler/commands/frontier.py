"""``scrapy frontier``: look at a spider's shared frontier and steer it while workers run."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence

from scrapy.commands import ScrapyCommand

from crawler.commands import looks, steering
from crawler.commands.explain import explain
from crawler.commands.place import Frontier, limit
from crawler.commands.spider import find_spider, one_line, one_line_flags
from crawler.errors import ConfigError


class Command(ScrapyCommand):
    """One action on the frontier of one spider."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        """Shown in the usage line."""
        return "ACTION SPIDER [options]"

    def short_desc(self) -> str:
        """Shown in the list of commands."""
        return "Look at a spider's shared queue and steer it"

    def long_desc(self) -> str:
        """Shown by ``scrapy frontier -h``."""
        return "Actions: " + ", ".join(f"{name} ({action.help})" for name, action in ACTIONS.items()) + "."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The flags; which action takes which is checked in run()."""
        super().add_options(parser)
        one_line_flags(parser)
        parser.add_argument(
            "--json", action="store_true", default=None, help="one JSON object per line instead of text"
        )
        parser.add_argument("--reason", metavar="TEXT", help="only dead letters whose reason contains TEXT")
        parser.add_argument("--limit", metavar="N", help="show at most N (default: 20; 0 shows all)")
        parser.add_argument("--delay", metavar="SECONDS", help="host: between two requests, for all workers together")
        parser.add_argument("--concurrency", metavar="N", help="host: requests at once, for all workers together")
        parser.add_argument(
            "--block", action=argparse.BooleanOptionalAction, help="host: its requests wait until --no-block"
        )
        parser.add_argument("--reset", action="store_true", default=None, help="host: back to the settings")
        parser.add_argument("--yes", action="store_true", default=None, help="flush, drop: yes, delete")
        parser.add_argument(
            "--keep-seen", action="store_true", default=None, help="flush: keep the memory of what was seen"
        )

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Exit code 0: done; 1: the server or its data; 2: bad arguments."""
        import redis

        from crawler import connection
        from crawler.frontier.refusal import is_wrong_type, wrong_type

        assert self.settings is not None
        action = _action(args[:1])
        spider_class = find_spider(self.settings, args[1:2], f"scrapy frontier {args[0]} SPIDER")
        _check_arguments(args, opts, action)
        connection.check(self.settings)
        with connection.sync_client(self.settings) as client:
            frontier = Frontier(self.settings, spider_class, client)
            try:
                action.function(frontier, opts, args[2:])
            except redis.ResponseError as error:
                if not is_wrong_type(error):
                    raise
                frontier.control.seeds.check(client)
                raise wrong_type(client, frontier.shards) from None


@dataclasses.dataclass(frozen=True)
class Action:
    """A function, what it is for, the flags and the number of further arguments it takes."""

    function: Callable[[Frontier, argparse.Namespace, list[str]], None]
    help: str
    flags: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


ACTIONS = {
    "status": Action(looks.status, "numbers of queue, hosts, workers", ("json",)),
    "watch": Action(looks.watch, "the same, live"),
    "workers": Action(looks.workers, "who works, who died", ("json",)),
    "hosts": Action(looks.hosts, "queued and leased by host", ("json", "limit")),
    "host": Action(
        steering.host,
        "one host's own delay and concurrency, or block it",
        ("json", "delay", "concurrency", "block", "reset"),
        ("HOST",),
    ),
    "dead": Action(looks.dead, "what failed for good, and why", ("json", "limit", "reason")),
    "requeue": Action(steering.requeue, "dead letters back to the queue", ("reason",)),
    "drop": Action(steering.drop, "delete dead letters", ("reason", "yes")),
    "pause": Action(steering.pause, "no request starts"),
    "resume": Action(steering.resume, "go on"),
    "flush": Action(steering.flush, "delete queue and memory", ("yes", "keep_seen")),
    "explain": Action(explain, "what became of a URL", ("json",), ("URL",)),
}


_FLAGS = ("json", "reason", "limit", "delay", "concurrency", "block", "reset", "yes", "keep_seen")


def _action(args: Sequence[str]) -> Action:
    if not args or args[0] not in ACTIONS:
        raise ConfigError("action", args[0] if args else "(not given)", f"must be one of {', '.join(ACTIONS)}")
    return ACTIONS[args[0]]


def _check_arguments(args: list[str], opts: argparse.Namespace, action: Action) -> None:
    usage = f"scrapy frontier {args[0]} SPIDER {' '.join(action.rest)}".rstrip()
    if flags := [arg for arg in args if arg.startswith("-")]:
        raise ConfigError("option", flags[0], "no such option; see scrapy frontier -h")
    if len(args) != 2 + len(action.rest):
        raise ConfigError("arguments", " ".join(args), f"write {usage}")
    for flag in _FLAGS:
        if getattr(opts, flag) is not None and flag not in action.flags:
            raise ConfigError(f"--{flag.replace('_', '-')}", getattr(opts, flag), f"not an option of {usage}")
    limit(opts)
