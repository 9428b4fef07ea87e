"""``scrapy frontier``: look at a spider's shared frontier and steer it while workers run."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from crawler.commands.explain import explain
from crawler.commands.spider import find_spider, one_line, whole_number
from crawler.errors import ConfigError

if TYPE_CHECKING:
    import redis
    from scrapy import Spider
    from scrapy.settings import Settings

    from crawler.frontier.control import Control
    from crawler.frontier.deadletters import DeadLetters


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
        from crawler import connection

        assert self.settings is not None
        action = _action(args[:1])
        spider_class = find_spider(self.settings, args[1:2], f"scrapy frontier {args[0]} SPIDER")
        _check_arguments(args, opts, action)
        connection.check(self.settings)
        with connection.sync_client(self.settings) as client:
            action.function(Frontier(self.settings, spider_class, client), opts, args[2:])


class Frontier:
    """What an action works on."""

    def __init__(self, settings: Settings, spider_class: type[Spider], client: redis.Redis) -> None:
        from crawler.frontier.seedkey import SeedKey
        from crawler.frontier.spread import control_of, stored_shards
        from crawler.keys import Keys

        self.settings = settings.copy()
        spider_class.update_settings(self.settings)
        self.spider_class, self.client, self.name = spider_class, client, spider_class.name
        self.keys = Keys.from_settings(self.settings, spider_class.name)
        self.shards = self.keys.spread(stored_shards(client, self.keys, self.settings))
        self.control: Control = control_of(client, self.shards, SeedKey.of(spider_class, self.settings))

    @property
    def dead(self) -> DeadLetters:
        """Its dead letters."""
        from crawler.frontier.deadletters import DeadLetters

        return DeadLetters(self.control, str(self.settings.get("FRONTIER_ORDER") or "priority"))


# Actions --------------------------------------------------------------------------------------------------------------


def status(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Everything in numbers."""
    facts = frontier.control.status()
    if opts.json:
        print(json.dumps({"spider": frontier.name, **facts}))
        return
    if facts["run"] is None:
        print(f"{frontier.name}: never crawled with this frontier; {facts['seeds']} seeds wait")
        return
    paused = ", PAUSED" if facts["paused"] else ""
    full = ", MEMORY FULL (see BLOOM_CAPACITY)" if facts["memory_full"] else ""
    print(f"run       {facts['run']}: {facts['state']}{paused}{full}, begun {_age(facts['age_seconds'])} ago, "
          f"last work {_age(facts['idle_seconds'])} ago, start(): {facts['start']}")  # fmt: skip
    fallen = f" ({facts['dead_fallen']} older ones fell out: FRONTIER_DEAD_MAX)" if facts["dead_fallen"] else ""
    print(f"requests  {facts['queued']} queued, {facts['leased']} leased, {facts['done']} done, "
          f"{facts['dead']} dead{fallen}")  # fmt: skip
    if facts["dropped"]:
        print("dropped   " + ", ".join(f"{n} {reason}" for reason, n in sorted(facts["dropped"].items())))
    print(f"seeds     {facts['seeds']} wait")
    print(
        f"hosts     {facts['hosts_queued']} with queued requests ({facts['hosts_due']} due), {facts['hosts_busy']} busy"
        + (f", {facts['hosts_given_up']} given up" if facts["hosts_given_up"] else "")
    )
    if facts["next_due_seconds"] is not None:
        print(f"next host due in {facts['next_due_seconds']:.1f} s, longest overdue {facts['overdue_seconds']:.1f} s")
    print(f"workers   {facts['workers_live']} live, {facts['workers_dead']} not heard of")


def watch(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """The numbers, live, until Ctrl-C or the end of the run."""
    from crawler.commands.watch import watch as show

    with contextlib.suppress(KeyboardInterrupt):
        show(frontier.control, frontier.dead, frontier.name)


def workers(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Who works on it."""
    rows = frontier.control.workers()
    if opts.json:
        _json_lines({**dataclasses.asdict(row), "live": row.live} for row in rows)
        return
    table = [
        [row.name, "live" if row.live else "dead", f"{row.age:.1f} s ago", str(row.held), row.info] for row in rows
    ]
    _table(["worker", "state", "heard of", "holds", "host pid versions"], table, "no workers")


def hosts(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Hosts in the order of their turn."""
    rows = frontier.control.hosts(_limit(opts) or 100_000)
    if opts.json:
        _json_lines(map(dataclasses.asdict, rows))
        return
    table = [
        [
            row.host or "(seeds)",
            str(row.queued),
            str(row.leased),
            "busy" if row.due_in is None else f"{row.due_in:.1f} s",
        ]
        for row in rows
    ]
    _table(["host", "queued", "leased (with a delay)", "due in"], table, "no hosts with queued requests")


def host(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """One host's own pace; without a flag it is shown."""
    record = frontier.control.host(rest[0], **_host_changes(opts))
    if opts.json:
        print(json.dumps({"host": rest[0], **record}))
        return
    said = [
        f"delay {record['delay'] / 1000:g} s" if "delay" in record else "",
        f"concurrency {record['concurrency']}" if "concurrency" in record else "",
        "BLOCKED: its requests wait" if record.get("blocked") else "",
        f"Crawl-delay {record['crawl_delay'] / 1000:g} s (robots.txt)" if record.get("crawl_delay") else "",
        f"{record['failures']} failures in a row" if record.get("failures") else "",
        "GIVEN UP: its requests go to the dead letters" if record.get("given_up") else "",
    ]
    print(f"{rest[0]}: " + (", ".join(filter(None, said)) or "nothing special: the settings count"))


def _host_changes(opts: argparse.Namespace) -> dict[str, int | bool]:
    changes: dict[str, int | bool] = {}
    if opts.reset:
        changes = {"delay": False, "concurrency": False, "blocked": False}
    if opts.delay is not None:
        try:
            changes["delay"] = round(1000 * float(opts.delay))
        except (ValueError, OverflowError):
            raise ConfigError("--delay", opts.delay, "must be a number of seconds") from None
        if changes["delay"] < 0:
            raise ConfigError("--delay", opts.delay, "must be at least 0")
    if opts.concurrency is not None:
        changes["concurrency"] = whole_number("--concurrency", opts.concurrency, low=1)
    if opts.block is not None:
        changes["blocked"] = opts.block
    return changes


def dead(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Dead letters, the newest first."""
    letters = frontier.dead
    shown = islice(letters(opts.reason or ""), _limit(opts) or None)
    if opts.json:
        _json_lines(
            {
                "id": letter.id.decode(), "time": letter.time, "reason": letter.reason, "url": letter.url,
                "seed": letter.seed, "host": letter.host, "worker": letter.worker, "deliveries": letter.deliveries,
            }
            for letter in shown
        )  # fmt: skip
        return
    table = [
        [
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(letter.time)), str(letter.deliveries), letter.reason,
            letter.url or (f"seed {letter.seed!r}" if letter.seed is not None else "(no URL)"),
        ]
        for letter in shown
    ]  # fmt: skip
    _table(["time", "deliveries", "reason", "request"], table, "no dead letters")
    if len(table) < (total := len(letters)) and not opts.reason:
        print(f"{len(table)} of {total}; --limit 0 shows all")


def requeue(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Dead letters get another chance."""
    requests, seeds = frontier.dead.requeue(opts.reason or "")
    print(f"{requests} requests queued again, {seeds} seeds pushed again; {len(frontier.dead)} dead letters left")


def drop(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Dead letters are deleted."""
    _confirm(opts, f"deletes dead letters of {frontier.name}")
    print(f"{frontier.dead.drop(opts.reason or '')} dead letters deleted; {len(frontier.dead)} left")


def pause(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """No new request starts, on any worker."""
    frontier.control.pause()
    print(f"{frontier.name} is paused: within a second no worker starts a request; go on with scrapy frontier resume")


def resume(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """The end of a pause."""
    frontier.control.resume()
    print(f"{frontier.name} goes on")


def flush(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Everything but waiting seeds is deleted; a memory that spiders share is kept."""
    _confirm(opts, f"deletes the queue, the dead letters, the runs and the memory of what {frontier.name} has seen")
    live = [worker.name for worker in frontier.control.workers() if worker.live]
    keeps_seen = bool(opts.keep_seen or frontier.keys.scope)
    dropped = frontier.control.flush(keep_versions=keeps_seen)
    said = [f"{dropped} requests dropped"]
    if opts.keep_seen:
        said.append("what was seen is kept")
    elif frontier.keys.scope:
        said.append(f"what was seen is kept: DEDUP_SCOPE={frontier.keys.scope} shares it with other spiders")
    else:
        said.append("what was seen is forgotten" if _forget(frontier) else "its dupefilter can't forget: it is kept")
    if seeds := frontier.control.waiting_seeds():
        said.append(f"{seeds} seeds still wait in {frontier.control.seeds.name}")
    if live:
        said.append(f"{len(live)} workers will stop")
    print(f"{frontier.name}: " + "; ".join(said))


# Helpers --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Action:
    """A function, what it is for, the flags and the number of further arguments it takes."""

    function: Callable[[Frontier, argparse.Namespace, list[str]], None]
    help: str
    flags: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


ACTIONS = {
    "status": Action(status, "numbers of queue, hosts, workers", ("json",)),
    "watch": Action(watch, "the same, live"),
    "workers": Action(workers, "who works, who died", ("json",)),
    "hosts": Action(hosts, "queued and leased by host", ("json", "limit")),
    "host": Action(
        host,
        "one host's own delay and concurrency, or block it",
        ("json", "delay", "concurrency", "block", "reset"),
        ("HOST",),
    ),
    "dead": Action(dead, "what failed for good, and why", ("json", "limit", "reason")),
    "requeue": Action(requeue, "dead letters back to the queue", ("reason",)),
    "drop": Action(drop, "delete dead letters", ("reason", "yes")),
    "pause": Action(pause, "no request starts"),
    "resume": Action(resume, "go on"),
    "flush": Action(flush, "delete queue and memory", ("yes", "keep_seen")),
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
    _limit(opts)


def _limit(opts: argparse.Namespace) -> int:
    return whole_number("--limit", 20 if opts.limit is None else opts.limit)


def _confirm(opts: argparse.Namespace, what: str) -> None:
    if not opts.yes:
        raise ConfigError("--yes", "(not given)", f"this {what}; say --yes")


def _forget(frontier: Frontier) -> bool:
    from scrapy.utils.misc import load_object

    from crawler.canonical import findings
    from crawler.dedup.memory import clear
    from crawler.nodes import node_of

    dupefilter = load_object(frontier.settings["DUPEFILTER_CLASS"])
    findings.forget(node_of(frontier.client, frontier.keys.tag), frontier.keys.audit)
    if not hasattr(dupefilter, "admission"):
        return False
    for keys in frontier.shards:
        clear(node_of(frontier.client, keys.tag), keys.dedup)
    return True


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _json_lines(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        print(json.dumps(row))


def _table(head: list[str], rows: list[list[str]], empty: str) -> None:
    if not rows:
        print(empty)
        return
    widths = [min(60, max(map(len, column))) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
