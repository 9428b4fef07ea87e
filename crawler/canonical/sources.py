"""Where rules come from: ``crawler/rules.toml``, the files in ``CANONICAL_RULES``, a spider's ``canonical_rules``.

All are read once, in this order, and all examples are run with all rules loaded. What is wrong stops the crawl before
it starts, in one line that names file, rule and example.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler.canonical import rules
from crawler.canonical.policy import Site
from crawler.canonical.trackers import Trackers, categories, group_names
from crawler.canonical.url import Canonicaliser
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

RULES = Path(__file__).parents[1] / "rules.toml"
"""The project's own rules."""


class RuleSet:
    """The rules, groups and switched-off categories of one crawl.

    `canonicaliser()` is ready to use and checked; `version` changes when an edit may give a URL another key, and stays
    when only words, order of files or examples change.
    """

    def __init__(self, sites: Iterable[Site], groups: Iterable[str] = (), off: Iterable[str] = ()) -> None:
        self.sites = list(sites)
        self.groups = sorted(set(groups))
        self.off = sorted(set(off))
        _check_words("CANONICAL_GROUPS", self.groups, group_names())
        _check_words("CANONICAL_OFF", self.off, [*categories(), "sites"])

    def canonicaliser(self) -> Canonicaliser:
        """A canonicaliser by these rules. Examples are not run: see :meth:`failures`."""
        return Canonicaliser(Trackers(groups=self.groups, off=self.off), self.sites)

    def checked(self) -> Canonicaliser:
        """The same, after all examples held. Raises the first one that did not as ConfigError."""
        canonicaliser = self.canonicaliser()
        for error in rules.failures(canonicaliser, self.sites):
            raise error
        canonicaliser.stripped.clear()
        return canonicaliser

    @property
    def version(self) -> str:
        """Eight hex digits that stand for everything here that can change a key."""
        parts = [_essence(site) for site in self.sites]
        text = repr((parts, self.groups, self.off))
        return blake2b(text.encode(), digest_size=4).hexdigest()


def load(settings: BaseSettings, spider: object = None, extra: Iterable[Path] = ()) -> RuleSet:
    """The rules of a crawl; `extra` are files named on the command line, read after all others.

    Reads ``CANONICAL_RULES`` (paths), ``CANONICAL_GROUPS``, ``CANONICAL_OFF``. Raises ConfigError.
    """
    paths = [RULES] if RULES.exists() else []
    paths += [Path(path).expanduser() for path in _words(settings, "CANONICAL_RULES")]
    sites = [site for path in paths for site in rules.read(path)]
    sites += _spider_rules(spider)
    sites += [site for path in extra for site in rules.read(path, "--rules")]
    return RuleSet(sites, _words(settings, "CANONICAL_GROUPS"), _words(settings, "CANONICAL_OFF"))


def _spider_rules(spider: object) -> list[Site]:
    """Rules in a spider's ``canonical_rules``: a list of tables as in ``[[site]]``, or TOML text."""
    value: Any = getattr(spider, "canonical_rules", None)
    if not value:
        return []
    source = f"spider {getattr(spider, 'name', '?')}"
    if isinstance(value, str):
        return rules.parse_text(value, source)
    return rules.sites({"site": [*value] if isinstance(value, list | tuple) else value}, source)


def _words(settings: BaseSettings, name: str) -> list[str]:
    try:
        return [word.strip() for word in map(str, settings.getlist(name)) if word.strip()]
    except TypeError:
        raise ConfigError(name, settings.get(name), "must be a list, or words with commas") from None


def _check_words(name: str, words: Iterable[str], known: list[str]) -> None:
    for word in words:
        if word not in known:
            raise ConfigError(name, word, f"must be one of {', '.join(known)}")


def _essence(site: Site) -> tuple[object, ...]:
    """What of a rule can change a key."""
    return (
        site.hosts, site.path, site.path_re and site.path_re.pattern, site.keep, site.strip, site.restore, site.groups,
        tuple(sorted(site.fold)), site.order, site.fragment, [(regex.pattern, to) for regex, to in site.path_sub],
        site.host,
    )  # fmt: skip
