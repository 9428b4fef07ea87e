"""Site rules: reading ``[[site]]`` tables, and refusing what is unclear before a single page is fetched.

A rule that merges too much loses pages silently. So every rule brings at least one pair of URLs that must stay
``different``, and all examples are run at start-up with all rules loaded.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from crawler.canonical import parse
from crawler.canonical.escapes import ascii_url, normal_path
from crawler.canonical.folds import FOLDS
from crawler.canonical.hosts import HostIndex, is_pattern
from crawler.canonical.policy import Site
from crawler.canonical.trackers import group_names, plain_name
from crawler.canonical.url import Canonicaliser
from crawler.errors import ConfigError

_KEYS = (
    "hosts", "path", "path_re", "keep", "strip", "restore", "groups", "fold", "order", "fragment", "path_sub", "host",
    "same", "different",
)  # fmt: skip
_ORDERS = ("sort", "keep")
_FRAGMENTS = ("drop", "keep", "route")


class _Table:
    """One ``[[site]]`` table, with errors that say where in which file."""

    def __init__(self, source: str, number: int, table: Any) -> None:
        self.label = f"{source}: site {number}"
        if not isinstance(table, dict):
            raise ConfigError(self.label, repr(table), "must be a table of keys")
        self.table = table
        hosts = table.get("hosts")
        if isinstance(hosts, list) and hosts and isinstance(hosts[0], str):
            self.label += f" ({hosts[0]})"
        for key in table:
            if key not in _KEYS:
                raise self.error(key, table[key], f"unknown key; use one of {', '.join(_KEYS)}")

    def error(self, key: str, value: object, remedy: str) -> ConfigError:
        return ConfigError(f"{self.label}: {key}", value, remedy)

    def text(self, key: str, choices: Iterable[str] = ()) -> str:
        value = self.table.get(key, "")
        if not isinstance(value, str):
            raise self.error(key, repr(value), "must be text")
        if choices and key in self.table and value not in choices:
            raise self.error(key, value or "''", f"must be one of {', '.join(choices)}")
        return value

    def words(self, key: str, choices: Iterable[str] = (), clean: Callable[[str], str] = str) -> tuple[str, ...]:
        value = self.table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
            raise self.error(key, repr(value), f'must be a list of words, like {key} = ["a", "b"]')
        for word in value:
            if choices and word not in choices:
                raise self.error(key, word, f"must be one of {', '.join(choices)}")
        return tuple(map(clean, value))

    def regex(self, key: str, value: object) -> re.Pattern[str]:
        if not isinstance(value, str):
            raise self.error(key, repr(value), "must be a regular expression as text")
        try:
            with warnings.catch_warnings(action="error", category=FutureWarning):
                return re.compile(value)
        except FutureWarning as warning:
            remedy = f"a later Python may read it otherwise ({warning}): put a backslash before that character"
            raise self.error(key, value, remedy) from None
        except (re.error, RecursionError, OverflowError) as error:
            raise self.error(key, value, f"is no regular expression: {error}") from None

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        value = self.table.get(key, [])
        if not isinstance(value, list):
            raise self.error(key, repr(value), "must be a list of pairs of URLs")
        for pair in value:
            if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(url, str) for url in pair)):
                raise self.error(key, repr(pair), 'must be a pair of URLs, like ["https://…", "https://…"]')
        return tuple((first, second) for first, second in value)


def sites(data: dict[str, Any], source: str) -> list[Site]:
    """The rules in `data` (``{"site": [{...}, ...]}``); `source` is what messages call it. Raises ConfigError."""
    for key, value in data.items():
        if key != "site":
            raise ConfigError(f"{source}: {key}", repr(value), "unknown key; rules are [[site]] tables")
    tables = data.get("site", [])
    if not isinstance(tables, list):
        raise ConfigError(f"{source}: site", repr(tables), "must be an array of tables: write [[site]]")
    return [_site(_Table(source, number, table)) for number, table in enumerate(tables, 1)]


def _site(table: _Table) -> Site:
    site = Site(
        label=table.label,
        hosts=tuple(_host_pattern(table, "hosts", pattern) for pattern in table.words("hosts")),
        path=normal_path(ascii_url(table.text("path"))),
        path_re=table.regex("path_re", table.table["path_re"]) if "path_re" in table.table else None,
        keep=table.words("keep", clean=plain_name) if "keep" in table.table else None,
        strip=table.words("strip", clean=plain_name),
        restore=table.words("restore", clean=plain_name),
        groups=table.words("groups", group_names()),
        fold=table.words("fold", FOLDS),
        order=table.text("order", _ORDERS),
        fragment=table.text("fragment", _FRAGMENTS),
        path_sub=_substitutions(table),
        host=_host_pattern(table, "host", table.text("host")) if "host" in table.table else "",
        same=table.pairs("same"),
        different=table.pairs("different"),
    )
    _check(table, site)
    return site


def _check(table: _Table, site: Site) -> None:
    if not site.hosts:
        raise table.error("hosts", "[]", 'name the hosts, like hosts = ["shop.example"], or ["*"] for all')
    if site.path and site.path_re:
        raise table.error("path_re", site.path_re.pattern, "give path or path_re, not both")
    if site.path and not site.path.startswith("/"):
        raise table.error("path", site.path, "must begin with /")
    if site.keep is not None and site.strip:
        raise table.error("strip", list(site.strip), "keep already drops all others; give keep or strip, not both")
    if site.host and (site.host == "*" or site.host[0] == "=" or site.host.endswith(".*")):
        raise table.error("host", site.host, "must be one host name")
    if not site.different:
        raise table.error(
            "different", "[]", "give at least one pair of URLs that must stay apart, so that the rule cannot eat pages"
        )
    for pair in site.same:
        if not any(_governs(site, url) for url in pair):
            raise table.error("same", " ".join(pair), "the rule holds for neither URL (see hosts and path)")
    if not any(all(_governs(site, url) for url in pair) for pair in site.different):
        remedy = "the rule holds for both URLs of no pair (see hosts and path): no proof"
        raise table.error("different", " ".join(site.different[0]), remedy)


def _governs(site: Site, url: str) -> bool:
    """Whether the rule takes part in the canonical form of `url`."""
    href = parse.whatwg(url)
    if href is None:
        return False
    head = re.split("[?#]", href, maxsplit=1)[0]
    slash = head.index("/", head.index("://") + 3)
    index = HostIndex((pattern, site) for pattern in site.hosts)
    return bool(index.find(parse.split_origin(head[:slash]).host)) and site.covers(normal_path(head[slash:]))


def _host_pattern(table: _Table, key: str, pattern: str) -> str:
    clean = pattern.strip().lower()
    head = clean[:1] if clean[:1] == "=" else ""
    bare, star = (clean[:-2], ".*") if clean.endswith(".*") else (clean, "")
    if not bare.isascii():
        href = parse.whatwg(f"http://{bare.removeprefix('=')}/")
        bare = head + parse.split_origin(href[: href.index("/", 7)]).host if href else bare
    if not is_pattern(bare + star):
        raise table.error(key, repr(pattern), "must be a host name like shop.example, =shop.example or *; no scheme")
    return bare + star


def _substitutions(table: _Table) -> tuple[tuple[re.Pattern[str], str], ...]:
    value = table.table.get("path_sub", [])
    if not isinstance(value, list):
        raise table.error("path_sub", repr(value), 'must be a list, like path_sub = [{ re = "/ref=[^/]+", to = "" }]')
    made = []
    for item in value:
        if not isinstance(item, dict) or set(item) != {"re", "to"} or not isinstance(item["to"], str):
            raise table.error("path_sub", repr(item), 'must be { re = "…", to = "…" }')
        if set(item["to"]) & set("?# "):
            raise table.error("path_sub", repr(item["to"]), "must stay a path: no ?, # or space")
        if not item["to"].isprintable():
            raise table.error("path_sub", repr(item["to"]), "must stay a path: no control characters")
        pattern = table.regex("path_sub", item["re"])
        try:
            pattern.sub(item["to"], "/")
            re.compile(pattern.pattern + "|").sub(item["to"], "")  # runs the template even if "/" did not match
        except (re.error, IndexError) as error:
            raise table.error("path_sub", item["to"], f"is no replacement for {pattern.pattern}: {error}") from None
        made.append((pattern, item["to"]))
    return tuple(made)


def parse_text(text: str, source: str) -> list[Site]:
    """The rules in TOML `text`. Raises ConfigError."""
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and a number of more digits than Python reads
        raise ConfigError(source, "not TOML", str(error)) from None
    except RecursionError:
        raise ConfigError(source, "not TOML", "values are nested too deeply") from None
    return sites(data, source)


def read(path: Path, named_by: str = "CANONICAL_RULES") -> list[Site]:
    """The rules in the TOML file at `path`; `named_by` is the setting or flag that named it. Raises ConfigError."""
    try:
        text = path.read_text("utf-8-sig")  # a byte order mark is none of the rules
    except OSError as error:
        raise ConfigError(named_by, path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(named_by, path, f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    return parse_text(text, _short(path))


def _short(path: Path) -> str:
    """`path` as seen from where the user is, if it is below."""
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def failures(canonicaliser: Canonicaliser, rules: Iterable[Site]) -> list[ConfigError]:
    """The examples of `rules` that `canonicaliser` does not bear out, each as an error to show or to raise."""
    found = []
    for site in rules:
        for key, pairs in (("same", site.same), ("different", site.different)):
            for number, (first, second) in enumerate(pairs, 1):
                one, two = canonicaliser.canonical(first), canonicaliser.canonical(second)
                if (one == two) != (key == "same"):
                    outcome = f"both become {one}" if one == two else f"stay apart as {one} and {two}"
                    found.append(ConfigError(f"{site.label}: {key} {number}", f"{first} {second}", f"they {outcome}"))
    return found
