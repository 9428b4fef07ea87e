"""What to do with the URLs of one place: the general rules, or they together with the site rules that match.

Site rules are layers: all that match a URL apply, from the general (``*``) to the particular (exact host, longer path).
Lists add up; of single values the most particular wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from crawler.canonical import folds
from crawler.canonical.folds import Origin
from crawler.canonical.trackers import NameRules, Names, Tracker, builtin


@dataclass(frozen=True, slots=True)
class Site:
    """One ``[[site]]`` rule, checked. `label` says where it stands, for messages and explanations."""

    label: str
    hosts: tuple[str, ...]
    path: str = ""
    path_re: re.Pattern[str] | None = None
    keep: tuple[str, ...] | None = None
    strip: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    fold: tuple[str, ...] = ()
    order: str = ""
    fragment: str = ""
    path_sub: tuple[tuple[re.Pattern[str], str], ...] = ()
    host: str = ""
    same: tuple[tuple[str, str], ...] = ()
    different: tuple[tuple[str, str], ...] = ()

    @property
    def everywhere(self) -> bool:
        """Whether the rule holds for every path of its hosts."""
        return not self.path and self.path_re is None

    def covers(self, path: str) -> bool:
        """Whether the rule holds for `path` (with its escapes in their one spelling)."""
        if self.path_re is not None and not self.path_re.search(path):
            return False
        return path.startswith(self.path)


@dataclass(slots=True)
class Policy:
    """Everything the canonicaliser needs to know about a place, ready to use."""

    names: Names
    sort: bool = True
    fragment: str = "drop"
    pctu: bool = False
    unmangle: bool = False
    duppairs: bool = False
    amp: bool = False
    origin_folds: tuple[Callable[[Origin], Origin], ...] = ()
    host: str = ""
    path_subs: tuple[tuple[str, Callable[[str], str]], ...] = ()
    path_folds: tuple[tuple[str, Callable[[str], str]], ...] = ()
    query_steps: tuple[tuple[str, Callable[[str], str]], ...] = ()
    labels: tuple[str, ...] = ()
    rewrites: bool = field(init=False)
    on_path: bool = field(init=False)

    def __post_init__(self) -> None:
        self.rewrites = self.pctu or self.unmangle
        self.on_path = bool(self.path_subs or self.path_folds)

    @property
    def why(self) -> str:
        """The rules at work, for explanations."""
        return "site rule " + ", ".join(self.labels)

    def origin(self, origin: Origin) -> Origin:
        """The canonical origin: folds until nothing changes, then the host that all are known by."""
        before = None
        while origin != before:
            before = origin
            for fold in self.origin_folds:
                origin = fold(origin)
        return origin._replace(host=self.host) if self.host else origin


def merged(sites: Sequence[Site], base: Names) -> Policy:
    """The policy of a place where `sites` hold, the most particular last, on top of the general names `base`."""
    if not sites:
        return Policy(base)
    wanted = {fold for site in sites for fold in site.fold}
    return Policy(
        names=_names(sites, base),
        sort=_last(site.order for site in sites) != "keep",
        fragment=_last(site.fragment for site in sites) or "drop",
        pctu="pctu" in wanted,
        unmangle="unmangle" in wanted,
        duppairs="duppairs" in wanted,
        amp="amp" in wanted,
        origin_folds=tuple(fold for name, fold in folds.ORIGIN.items() if name in wanted),
        host=_last(site.host for site in sites),
        path_subs=tuple(
            (f"path_sub {pattern.pattern}", _substitution(pattern, to))
            for site in sites
            for pattern, to in site.path_sub
        ),
        path_folds=tuple((f"fold {name}", fold) for name, fold in folds.PATH.items() if name in wanted),
        query_steps=tuple((f"fold {name}", step) for name, step in folds.QUERY.items() if name in wanted),
        labels=tuple(site.label for site in sites),
    )


def _names(sites: Sequence[Site], base: Names) -> Names:
    keeps = [site.keep for site in sites if site.keep is not None]
    rules = NameRules(
        keep=keeps[-1] if keeps else None,
        strip=tuple(name for site in sites for name in site.strip),
        restore=tuple(name for site in sites for name in site.restore),
        tracker=Tracker("rule", ", ".join(site.label for site in sites)),
    )
    groups = {group for site in sites for group in site.groups}
    if not groups and rules.keep is None and not rules.strip and not rules.restore:
        return base
    return Names((item for item in builtin() if item.group and item.group in groups), base, rules)


def _substitution(pattern: re.Pattern[str], to: str) -> Callable[[str], str]:
    def substitute(path: str) -> str:
        path = pattern.sub(to, path)
        return path if path.startswith("/") else "/" + path

    return substitute


def _last(values: Iterable[str]) -> str:
    """The last value that is not empty, else ``""``."""
    return next((value for value in reversed(list(values)) if value), "")
