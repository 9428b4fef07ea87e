"""``scrapy dedup``: plan, inspect and tend the memory of what was seen."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from scrapy.commands import ScrapyCommand

from crawler.commands import figures
from crawler.commands.exports import export, import_
from crawler.commands.plan import plan
from crawler.commands.seen import Seen
from crawler.commands.spider import find_spider, one_line, one_line_flags
from crawler.errors import ConfigError, StoredDataError

if TYPE_CHECKING:
    from crawler.dedup.report import Part


class Command(ScrapyCommand):
    """One action on the memory of one spider; ``plan`` needs neither spider nor server."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        """Shown in the usage line."""
        return "ACTION [SPIDER] [arguments] [options]"

    def short_desc(self) -> str:
        """Shown in the list of commands."""
        return "Plan, inspect and tend the memory of what was seen"

    def long_desc(self) -> str:
        """Shown by ``scrapy dedup -h``."""
        return "Actions: " + ", ".join(f"{action.usage} ({action.help})" for action in ACTIONS.values()) + "."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The flags of all actions."""
        super().add_options(parser)
        one_line_flags(parser)
        parser.add_argument("--json", action="store_true", help="JSON instead of text")
        parser.add_argument("--capacity", metavar="N", help="plan: pages, such as 100M (default: BLOOM_CAPACITY)")
        parser.add_argument("--error-rate", metavar="P", help="plan: such as 1e-6 (default: BLOOM_ERROR_RATE)")
        parser.add_argument("--yes", action="store_true", help="clear: yes, forget everything")

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Exit code 0: done; 1: the server, its data, or a thing this kind cannot do; 2: bad arguments."""
        import redis

        from crawler import connection
        from crawler.frontier.refusal import is_wrong_type

        assert self.settings is not None
        action = ACTIONS.get(args[0] if args else "")
        if action is None:
            raise ConfigError("action", args[0] if args else "(not given)", f"must be one of {', '.join(ACTIONS)}")
        if args[0] == "plan":
            _arguments(args[1:], action)
            plan(self.settings, opts)
            return
        spider = find_spider(self.settings, args[1:2], f"scrapy dedup {action.usage}")
        rest = _arguments(args[2:], action)
        connection.check(self.settings)
        with connection.sync_client(self.settings) as client:
            shards = Seen.shards(self.settings, spider, client)
            try:
                self.exitcode = _on_shards(action, shards, opts, rest)
            except redis.ResponseError as error:
                if not is_wrong_type(error):
                    raise
                raise StoredDataError(f"Something else wrote a key that begins with {shards[0].base}:dedup: "
                                      f"delete it, or choose another REDIS_KEY_PREFIX ({error})") from None  # fmt: skip


def _on_shards(action: Action, shards: Sequence[Seen], opts: argparse.Namespace, rest: list[str]) -> int:
    """The action where it has something to do: URLs go to their hosts' shard."""
    if action.files is not None:
        action.files(shards, rest[0])
        return 0
    if len(shards) == 1:
        return action.function(shards[0], opts, rest) or 0
    codes = []
    for number, seen in enumerate(shards):
        mine = rest
        if action.function in (check, forget):
            mine = [url for url in rest if seen.shard_of(url, len(shards)) == number]
        if mine or not rest:
            codes.append(action.function(seen, opts, mine) or 0)
    return max(codes, default=0)


# Actions --------------------------------------------------------------------------------------------------------------


def status(seen: Seen, opts: argparse.Namespace, rest: list[str]) -> None:
    """Layers, fill, and how often it errs now."""
    from crawler.dedup import report

    parts = report.status(seen.client, seen.base)
    if opts.json:
        print(
            json.dumps({"spider": seen.name, "base": seen.base, "parts": [dataclasses.asdict(part) for part in parts]})
        )
        return
    if not parts:
        seen.memory()  # ConfigError if there never will be one
        print(f"{seen.name}: nothing seen yet under {seen.base}")
        return
    rows = [["memory", "pages", "layers", "fill", "errs now", "configured", "size"]]
    rows += [_status_row(part) for part in parts]
    figures.print_table(rows)


def _status_row(part: Part) -> list[str]:
    return [
        f"{part.kind} {part.role}".strip(),
        f"{part.elements:,}",
        "" if part.layers is None else str(part.layers),
        "" if part.fill is None else f"{part.fill:.1%}",
        "" if part.error_now is None else f"{part.error_now:.2g}",
        "never" if part.error_rate is None else f"{part.error_rate:g}",
        "" if part.bytes is None else figures.size(part.bytes),
    ]


def check(seen: Seen, opts: argparse.Namespace, rest: list[str]) -> None:
    """Whether URLs were seen; records nothing."""
    answers = seen.memory().has(seen.fingerprints(rest))
    for url, answer in zip(rest, answers, strict=True):
        if opts.json:
            print(json.dumps({"url": url, "seen": answer == ord("1")}))
        else:
            print(f"{'seen' if answer == ord('1') else 'not seen'}  {url}")


def forget(seen: Seen, opts: argparse.Namespace, rest: list[str]) -> int:
    """URLs may be crawled again."""
    answers = seen.memory().forget(seen.fingerprints(rest)).decode()
    words = {"1": "forgotten", "0": "was not seen", "F": "cannot be forgotten"}
    for url, answer in zip(rest, answers, strict=True):
        print(json.dumps({"url": url, "result": words[answer]}) if opts.json else f"{words[answer]}  {url}")
    if "F" not in answers:
        return 0
    raise StoredDataError("A Bloom filter cannot forget one page: use ExactDupeFilter or CompactDupeFilter, or "
                          "LayeredDupeFilter, which forgets what was seen recently")  # fmt: skip


def rotate(seen: Seen, opts: argparse.Namespace, rest: list[str]) -> None:
    """A window's next generation begins now, and the oldest is given up."""
    from crawler.dedup.stored import read_stored, rotate

    stored = read_stored(seen.client, seen.base)
    if not stored or not stored[0].kind.startswith("window/"):
        raise ConfigError("DEDUP_WINDOW", "(not set)", f"{seen.name} has no windows that could rotate")
    print(f"{seen.name}: generation {rotate(seen.client, stored[0])} begins")


def fold(seen: Seen, opts: argparse.Namespace, rest: list[str]) -> None:
    """A layered memory's recent pages go into its history, in small steps."""
    if "layered" not in getattr(seen.memory().admission, "kind", ""):
        raise ConfigError("DUPEFILTER_CLASS", seen.path, "has no recent set to fold: that is LayeredDupeFilter's")
    memory, steps = seen.memory(), 1
    while memory.fold(128):
        steps += 1
    print(f"{seen.name}: folded in {steps} steps; the recent set is empty")


def clear(seen: Seen, opts: argparse.Namespace, rest: list[str]) -> None:
    """Everything is forgotten."""
    from crawler.dedup.memory import clear as clear_memory

    if not opts.yes:
        raise ConfigError("--yes", "(not given)", f"this forgets all that {seen.name} has seen; say --yes")
    clear_memory(seen.client, seen.base)
    print(f"{seen.name}: forgot everything under {seen.base}")


class Action(NamedTuple):
    """`function` is for each shard, `files` for all of them; from `least` to `most` arguments follow the spider."""

    usage: str
    help: str
    function: Callable[[Seen, argparse.Namespace, list[str]], int | None]
    least: int = 0
    most: int | None = 0
    files: Callable[[Sequence[Seen], str], None] | None = None


def _nothing(*_: object) -> None:
    """For an action that does not work on one shard."""


ACTIONS: dict[str, Action] = {
    "plan": Action("plan", "sizes and errors for --capacity and --error-rate", _nothing),
    "status": Action("status SPIDER", "layers, fill and how often it errs now", status),
    "check": Action("check SPIDER URL...", "whether URLs were seen", check, 1, None),
    "forget": Action("forget SPIDER URL...", "let URLs be crawled again", forget, 1, None),
    "rotate": Action("rotate SPIDER", "begin a window's next generation now", rotate),
    "fold": Action("fold SPIDER", "move the recent set into history", fold),
    "clear": Action("clear SPIDER --yes", "forget everything", clear),
    "export": Action("export SPIDER FILE", "write the memory to a file", _nothing, 1, 1, export),
    "import": Action("import SPIDER FILE", "read a memory from a file", _nothing, 1, 1, import_),
}


def _arguments(rest: list[str], action: Action) -> list[str]:
    if len(rest) < action.least:
        raise ConfigError("arguments", "(too few)", f"usage: scrapy dedup {action.usage}")
    if action.most is not None and len(rest) > action.most:
        raise ConfigError("arguments", " ".join(rest), f"too many; usage: scrapy dedup {action.usage}")
    return rest
