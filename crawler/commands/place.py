"""What the actions of ``scrapy frontier`` share: the frontier they work on, and how they print."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from crawler.commands.spider import whole_number
from crawler.errors import ConfigError

if TYPE_CHECKING:
    import redis
    from scrapy import Spider
    from scrapy.settings import Settings

    from crawler.frontier.control import Control
    from crawler.frontier.deadletters import DeadLetters


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


def limit(opts: argparse.Namespace) -> int:
    """How many rows ``--limit`` allows; 0: all."""
    return whole_number("--limit", 20 if opts.limit is None else opts.limit)


def confirm(opts: argparse.Namespace, what: str) -> None:
    """Raises ConfigError unless ``--yes`` was said."""
    if not opts.yes:
        raise ConfigError("--yes", "(not given)", f"this {what}; say --yes")


def age(seconds: float | None) -> str:
    """A time span for people."""
    if seconds is None:
        return "never"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def json_lines(rows: Iterable[dict[str, Any]]) -> None:
    """One object per line."""
    for row in rows:
        print(json.dumps(row))


def table(head: list[str], rows: list[list[str]], empty: str) -> None:
    """Columns as wide as their cells (60 at most); `empty` when there are no rows."""
    if not rows:
        print(empty)
        return
    widths = [min(60, max(map(len, column))) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
