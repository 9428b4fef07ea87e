"""Which query parameters carry no page identity: the data file, its guards, and the look-up by name.

The data (``params.toml``) is read once. A look-up is by name in a dict that remembers its answers, so its cost does not
depend on how many names are listed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final

from crawler.canonical.escapes import QUERY_ODD, ascii_url, normal_query
from crawler.canonical.hosts import HostIndex

_MEMO_MAX: Final = 10_000
_MEMO_MAX_SITE: Final = 500
_MEMO_NAME_MAX: Final = 64
_UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class Tracker:
    """One reason to drop a parameter, with the guards that protect pages for which the name means something else."""

    category: str
    why: str
    value: re.Pattern[str] | None = None
    together: frozenset[str] = frozenset()
    except_words: tuple[str, ...] = ()
    guarded: bool = False

    def applies(self, value: str, around: Surroundings) -> bool:
        """Whether the guards allow dropping a parameter with this `value`."""
        if self.value and not self.value.fullmatch(value):
            return False
        if self.together and not self.together <= around.names:
            return False
        return not (self.except_words and around.contains(self.except_words))


class Surroundings:
    """What guards look at besides the value, worked out when first asked for."""

    def __init__(self, path: str, pairs: Sequence[str]) -> None:
        self._path, self._pairs = path, pairs
        self._found: dict[tuple[str, ...], bool] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the query, in lower case."""
        return frozenset(pair.partition("=")[0].lower() for pair in self._pairs)

    @cached_property
    def _text(self) -> str:
        return "&".join([self._path, *self._pairs]).lower()

    def contains(self, words: tuple[str, ...]) -> bool:
        """Whether path or query contains one of the lower-case `words`."""
        if words not in self._found:
            self._found[words] = any(word in self._text for word in words)
        return self._found[words]


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``[[tracker]]`` table: a tracker, and the names and hosts for which it holds."""

    tracker: Tracker
    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    hosts: tuple[str, ...] = ()
    except_hosts: tuple[str, ...] = ()
    group: str = ""
    path: bool = False


def entry(table: dict[str, Any]) -> Entry:
    """An :class:`Entry` from its TOML table."""
    names = frozenset(map(plain_name, table.get("names", ())))
    value, pattern = table.get("value"), table.get("pattern")
    tracker = Tracker(
        category=table["category"],
        why=table["why"],
        value=re.compile(value) if value else None,
        together=names if table.get("together") else frozenset(),
        except_words=tuple(table.get("except_words", ())),
        guarded=bool(value or table.get("together") or table.get("except_words")),
    )
    return Entry(
        tracker,
        names,
        tuple(map(plain_name, table.get("prefixes", ()))),
        re.compile(pattern) if pattern else None,
        tuple(table.get("hosts", ())),
        tuple(table.get("except_hosts", ())),
        table.get("group", ""),
        bool(table.get("path")),
    )


def plain_name(name: str) -> str:
    """A parameter's name as look-ups compare it: escapes in their one spelling, lower case."""
    if QUERY_ODD.search(name) or not (name.isascii() and name.isprintable()) or " " in name:
        name = normal_query(ascii_url(name))
    return name.lower()


class PathParameter:
    """A tracker as a path parameter, ``;name=value``, which ends at ``;`` or ``/``."""

    def __init__(self, name: str, tracker: Tracker) -> None:
        self.name, self.tracker = name, tracker
        # Behind /. or /.. it stays: without it the segment would climb.
        self._pattern = re.compile(rf"(?<!/\.)(?<!/\.\.);{re.escape(name)}=([^;/]*)", re.IGNORECASE)

    def dropped(self, path: str) -> str:
        """`path` without it, where its guards allow."""
        around = Surroundings(path, ())
        return self._pattern.sub(lambda found: "" if self.tracker.applies(found[1], around) else found[0], path)


@cache
def builtin() -> tuple[Entry, ...]:
    """Every entry of the data file that ships with the project, groups included."""
    data = tomllib.loads((files(__package__) / "params.toml").read_text("utf-8"))
    return tuple(entry(table) for table in data["tracker"])


def group_names() -> list[str]:
    """Names of the groups that rules and ``CANONICAL_GROUPS`` may switch on."""
    return sorted({item.group for item in builtin()} - {""})


def categories() -> list[str]:
    """Names of the categories that ``CANONICAL_OFF`` may switch off."""
    return sorted({item.tracker.category for item in builtin() if not item.group})


@dataclass(slots=True)
class NameRules:
    """What a site's rules say about names, on top of the general ones. A name that ends in ``*`` is a beginning."""

    keep: tuple[str, ...] | None = None
    strip: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    tracker: Tracker = field(default_factory=lambda: Tracker("rule", "a site rule"))


class Names:
    """Look-up of parameter names: own entries and rules first, then those of `base`."""

    def __init__(self, entries: Iterable[Entry], base: Names | None = None, rules: NameRules | None = None) -> None:
        entries = tuple(entries)
        self._base = base
        self._rules = rules
        self._exact: dict[str, Tracker] = {}
        for item in reversed(entries):
            self._exact.update(dict.fromkeys(item.names, item.tracker))
        self._prefixes = tuple((prefix, item.tracker) for item in entries for prefix in item.prefixes)
        self._starts = tuple(prefix for prefix, _ in self._prefixes)
        self._patterns = tuple((item.pattern, item.tracker) for item in entries if item.pattern)
        self._memo: dict[str, Tracker | None] = {}
        self._memo_max = _MEMO_MAX if base is None else _MEMO_MAX_SITE
        self.in_path = self._path_parameters(entries)

    def get(self, name: str) -> Tracker | None:
        """The tracker of a parameter called `name` (escapes in their one spelling, any letter case), else None."""
        found = self._memo.get(name, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._find(name.lower())
            if len(self._memo) >= self._memo_max:
                self._memo.clear()
            if len(name) <= _MEMO_NAME_MAX:
                self._memo[name] = found
        return found  # type: ignore[return-value]

    def _path_parameters(self, entries: tuple[Entry, ...]) -> tuple[PathParameter, ...]:
        own = [PathParameter(name, item.tracker) for item in entries if item.path for name in sorted(item.names)]
        if self._base:
            own += self._base.in_path
        return tuple(item for item in own if not self._rules or not listed(item.name, self._rules.restore))

    def _find(self, name: str) -> Tracker | None:
        if self._rules:
            if listed(name, self._rules.restore):
                return None
            if self._rules.keep is not None:
                return None if listed(name, self._rules.keep) else self._rules.tracker
            if listed(name, self._rules.strip):
                return self._rules.tracker
        own = self._own(name)
        return own if own or not self._base else self._base._find(name)

    def _own(self, name: str) -> Tracker | None:
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        if name.startswith(self._starts):
            return next(tracker for prefix, tracker in self._prefixes if name.startswith(prefix))
        return next((tracker for pattern, tracker in self._patterns if pattern.fullmatch(name)), None)


def listed(name: str, patterns: Iterable[str]) -> bool:
    """Whether the plain `name` is one of `patterns`; a pattern that ends in ``*`` is a beginning."""
    return any(name.startswith(item[:-1]) if item.endswith("*") else name == item for item in patterns)


class Trackers:
    """All entries that are switched on; hands out the :class:`Names` that hold on a host.

    `groups` are groups to switch on everywhere, `off` categories to switch off; ``off=["sites"]`` switches off what is
    listed for particular hosts.
    """

    def __init__(
        self, entries: Iterable[Entry] | None = None, *, groups: Iterable[str] = (), off: Iterable[str] = ()
    ) -> None:
        groups, off = {*groups, ""}, set(off)
        on = [
            item
            for item in (builtin() if entries is None else entries)
            if item.group in groups and item.tracker.category not in off and not (item.hosts and "sites" in off)
        ]
        self._entries = tuple(on)
        self._hosts = HostIndex((host, place) for place, item in enumerate(on) for host in item.hosts)
        self._except = HostIndex((host, place) for place, item in enumerate(on) for host in item.except_hosts)
        self._general = Names(item for item in on if not item.hosts)
        self._special: dict[tuple[frozenset[int], frozenset[int]], Names] = {}

    def for_host(self, host: str) -> Names:
        """The names that hold on `host` (lower case, punycode)."""
        only, never = frozenset(self._hosts.find(host)), frozenset(self._except.find(host))
        if not only and not never:
            return self._general
        key = only, never
        if key not in self._special:
            here = tuple(self._entries[place] for place in sorted(only - never))
            general = self._general
            if never:
                general = Names(
                    item for place, item in enumerate(self._entries) if not item.hosts and place not in never
                )
            self._special[key] = Names(here, general) if here else general
        return self._special[key]
