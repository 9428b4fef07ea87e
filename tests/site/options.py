"""What a test site looks like: one frozen record, checked once, the same for class, command line and truth."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

SHAPES = ("web", "tree")
MAX_HOSTS = 200  # host k listens on 127.0.0.(k+1)


@dataclass(frozen=True, slots=True)
class Options:
    """A site is decided by its options alone: equal options give equal pages, links and spellings."""

    pages: int = 100  #: pages, each of another URL class
    hosts: int = 1  #: pages are dealt to this many hosts, 127.0.0.1, 127.0.0.2 ...
    shape: str = "web"  #: web (a tree and further links) or tree (each page is linked from its parent alone)
    seed: int = 1  #: of links and spellings
    branching: int = 3  #: children of a page
    links: int = 4  #: further links per page in a web
    spellings: float = 0.7  #: share of the links written in another equal spelling
    redirects: float = 0.04  #: share of pages that redirect /a to /a?utm_source=...: the same class
    refreshes: float = 0.02  #: share of pages that do so by a meta refresh
    moved: float = 0.04  #: share of pages that are linked by another class, /go/N, which redirects to them
    slow: float = 0.02  #: share of pages that take slow_seconds
    slow_seconds: float = 0.3
    flaky: float = 0.02  #: share of pages whose first answer is 503
    items: int = 1  #: <article class="item"> per page
    latency: float = 0.0  #: seconds before each answer
    traps: int = 0  #: 1: each page links into an endless calendar
    robots: int = 1  #: 1: robots.txt forbids /private/, which pages link to; 0: no robots.txt
    crawl_delay: float = 0.0  #: Crawl-delay in robots.txt, seconds; 0: none

    def __post_init__(self) -> None:
        for name, low in (("pages", 1), ("hosts", 1), ("branching", 1), ("links", 0), ("items", 0)):
            if getattr(self, name) < low:
                raise ValueError(f"--{name} {getattr(self, name)}: must be at least {low}")
        if self.hosts > min(MAX_HOSTS, self.pages):
            raise ValueError(f"--hosts {self.hosts}: must be at most the number of pages and at most {MAX_HOSTS}")
        if self.shape not in SHAPES:
            raise ValueError(f"--shape {self.shape}: must be one of {', '.join(SHAPES)}")
        for name in ("spellings", "redirects", "refreshes", "moved", "slow", "flaky"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"--{name} {getattr(self, name)}: must be between 0 and 1")
        if self.redirects + self.refreshes + self.moved + self.slow + self.flaky > 1:
            raise ValueError("--redirects + --refreshes + --moved + --slow + --flaky: must be at most 1 together")
        for name in ("slow_seconds", "latency", "crawl_delay"):
            if not 0 <= getattr(self, name) < 3600:
                raise ValueError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be 0 or more seconds")


def plain(**changes: Any) -> Options:
    """Options of a site without any difficulty: no other spellings, redirects, slow or failing pages."""
    quiet = dict.fromkeys(("spellings", "redirects", "refreshes", "moved", "slow", "flaky"), 0.0)
    return Options(**{**quiet, **changes})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag per option."""
    for field in fields(Options):
        kind = {"int": int, "float": float}.get(str(field.type), str)
        flag = "--" + field.name.replace("_", "-")
        parser.add_argument(flag, type=kind, default=field.default, help=f"default {field.default}")


def from_arguments(namespace: argparse.Namespace) -> Options:
    """The options of parsed flags; ValueError names a bad one."""
    return Options(**{field.name: getattr(namespace, field.name) for field in fields(Options)})


def to_arguments(options: Options) -> Sequence[str]:
    """The flags that give `options` again."""
    return [f"--{f.name.replace('_', '-')}={getattr(options, f.name)}" for f in fields(Options)]
