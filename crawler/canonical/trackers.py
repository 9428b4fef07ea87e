"""Which query parameters carry no page identity: the data file, its guards, and the look-up by name.

The data (``params.toml``) is read once. Look-ups are by name in a dict that remembers its answers, so the cost of a
parameter does not depend on how many are listed.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

_MEMO_MAX: Final = 20_000
_UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class Tracker:
    """One reason to drop a parameter, with the guards that protect pages for which the name means something else."""

    category: str
    why: str
    value: re.Pattern[str] | None = None
    together: frozenset[str] = frozenset()
    except_paths: tuple[str, ...] = ()
    guarded: bool = False

    def applies(self, value: str, names: frozenset[str], path: str) -> bool:
        """Whether the guards allow dropping; `names` are the lower-case names in the query, `path` is as written."""
        if self.value and not self.value.fullmatch(value):
            return False
        if self.together and not self.together <= names:
            return False
        if self.except_paths:
            lower = path.lower()
            return not any(word in lower for word in self.except_paths)
        return True


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``[[tracker]]`` table: a tracker and where its names hold."""

    tracker: Tracker
    names: frozenset[str]
    prefixes: tuple[str, ...]
    pattern: re.Pattern[str] | None
    hosts: tuple[str, ...]
    except_hosts: tuple[str, ...]
    path: bool


def entry(table: dict[str, Any]) -> Entry:
    """An :class:`Entry` from its TOML table."""
    names = frozenset(name.lower() for name in table.get("names", ()))
    value, pattern = table.get("value"), table.get("pattern")
    tracker = Tracker(
        category=table["category"],
        why=table["why"],
        value=re.compile(value) if value else None,
        together=names if table.get("together") else frozenset(),
        except_paths=tuple(table.get("except_paths", ())),
        guarded=bool(value or table.get("together") or table.get("except_paths")),
    )
    return Entry(
        tracker,
        names,
        tuple(prefix.lower() for prefix in table.get("prefixes", ())),
        re.compile(pattern) if pattern else None,
        tuple(table.get("hosts", ())),
        tuple(table.get("except_hosts", ())),
        bool(table.get("path")),
    )


@cache
def builtin() -> tuple[Entry, ...]:
    """Every entry of the data file that ships with the project."""
    data = tomllib.loads((files(__package__) / "params.toml").read_text("utf-8"))
    return tuple(entry(table) for table in data["tracker"])


class Names:
    """Look-up of parameter names for a set of entries that hold on one host."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._exact: dict[str, Tracker] = {}
        for item in reversed(entries):
            self._exact.update(dict.fromkeys(item.names, item.tracker))
        self._prefixes = tuple((prefix, item.tracker) for item in entries for prefix in item.prefixes)
        self._starts = tuple(prefix for prefix, _ in self._prefixes)
        self._patterns = tuple((item.pattern, item.tracker) for item in entries if item.pattern)
        self._memo: dict[str, Tracker | None] = {}
        self.in_path = tuple(
            (re.compile(rf"(?<!/\.)(?<!/\.\.);{re.escape(name)}=([^;/]*)", re.IGNORECASE), item.tracker)
            for item in entries
            if item.path
            for name in sorted(item.names)
        )

    def get(self, name: str) -> Tracker | None:
        """The tracker of a parameter called `name` (any letter case), else None."""
        found = self._memo.get(name, _UNKNOWN)
        if found is _UNKNOWN:
            if len(self._memo) >= _MEMO_MAX:
                self._memo.clear()
            found = self._memo[name] = self._find(name.lower())
        return found  # type: ignore[return-value]

    def _find(self, name: str) -> Tracker | None:
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        if name.startswith(self._starts):
            return next(tracker for prefix, tracker in self._prefixes if name.startswith(prefix))
        return next((tracker for pattern, tracker in self._patterns if pattern.fullmatch(name)), None)


def host_matches(host: str, pattern: str) -> bool:
    """Whether `host` is `pattern` or below it; a last label ``*`` in the pattern stands for any public ending.

    >>> host_matches("www.amazon.co.uk", "amazon.*"), host_matches("notamazon.com", "amazon.*")
    (True, False)
    """
    if not pattern.endswith(".*"):
        return host == pattern or host.endswith("." + pattern)
    name = pattern[:-2]
    labels = host.split(".")
    return any(label == name and 1 <= len(labels) - at - 1 <= 2 for at, label in enumerate(labels))


class Trackers:
    """All entries of the chosen categories; hands out the :class:`Names` that hold on a host."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._special = {host for item in entries for host in (*item.hosts, *item.except_hosts)}
        self._entries = entries
        self._general = Names(tuple(item for item in entries if not item.hosts))
        self._by_choice: dict[tuple[bool, ...], Names] = {}

    def for_host(self, host: str) -> Names:
        """The names that hold on `host` (lower case, punycode)."""
        if not any(host_matches(host, pattern) for pattern in self._special):
            return self._general
        choice = tuple(
            (not item.hosts or any(host_matches(host, pattern) for pattern in item.hosts))
            and not any(host_matches(host, pattern) for pattern in item.except_hosts)
            for item in self._entries
        )
        if choice not in self._by_choice:
            self._by_choice[choice] = Names(
                tuple(item for item, holds in zip(self._entries, choice, strict=True) if holds)
            )
        return self._by_choice[choice]
