"""From a URL to the canonical URL that stands for all its spellings.

A WHATWG parser (ada) settles scheme, host, port, dots and backslashes. Path and query are settled here: escapes get one
spelling, empty pairs go, pairs are sorted by key (stably, so ``a=1&a=2`` is not ``a=2&a=1``), and parameters that only
track are dropped. What the parser does not know (other schemes, broken hosts) is only tidied by RFC 3986.

The request is fetched as found; only its key is canonical.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, partial
from typing import Final, NamedTuple

from ada_url import normalize_url

from crawler.canonical.escapes import ascii_url, normal_path, normal_query
from crawler.canonical.trackers import Names, Tracker, Trackers, builtin

_MEMO_MAX: Final = 10_000
_SPECIAL = re.compile(r"[\x00-\x20]*(?:https?|wss?|ftp):", re.IGNORECASE)
_PATH_ODD = re.compile(r'[%"<>\[\\\]^`{|}]')
_QUERY_ODD = re.compile(r"""[%"'<>\[\\\]^`{|}]""")
_SURROGATE = re.compile("[\ud800-\udfff]")
_GENERIC = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)


class View(NamedTuple):
    """What an origin (scheme, userinfo, host and port) means: found once, then remembered."""

    host: str
    names: Names


class Canonicaliser:
    """Makes canonical URLs; `stripped` counts dropped parameters by category."""

    def __init__(self, trackers: Trackers) -> None:
        self._trackers = trackers
        self._views: dict[str, View] = {}
        self.stripped: Counter[str] = Counter()

    def canonical(self, url: str, *, keep_fragments: bool = False) -> str:
        """The canonical form of `url`; never raises, and is its own canonical form.

        >>> canonicaliser().canonical("HTTP://Example.com:80/%7Ejo/./?b=2&utm_source=x&a=1#top")
        'http://example.com/~jo/?a=1&b=2'
        """
        href = _whatwg(url)
        if href is None:
            return _generic(url, keep_fragments)
        head, mark, fragment = href.partition("#")
        head, _, query = head.partition("?")
        slash = head.index("/", head.index("://") + 3)
        origin, path = head[:slash], head[slash:]
        view = self._views.get(origin) or self._view(origin)
        if _PATH_ODD.search(path):
            path = normal_path(path)
        if ";" in path:
            path = self._path_parameters(path, view.names)
        if query:
            query = self._query(query, path, view.names)
        result = f"{origin}{path}?{query}" if query else origin + path
        return f"{result}#{fragment}" if mark and keep_fragments else result

    def host(self, url: str) -> str:
        """The host whose queue and pace `url` belongs to: lower case, punycode, no port; empty if there is none."""
        href = _whatwg(url)
        if href is None:
            found = _GENERIC.fullmatch(url.strip())
            return _bare_host(ascii_url(found[2])).lower() if found else ""
        origin = href[: href.index("/", href.index("://") + 3)]
        return (self._views.get(origin) or self._view(origin)).host

    def _view(self, origin: str) -> View:
        if len(self._views) >= _MEMO_MAX:
            self._views.clear()
        host = _bare_host(origin[origin.index("://") + 3 :])
        view = self._views[origin] = View(host, self._trackers.for_host(host))
        return view

    def _path_parameters(self, path: str, names: Names) -> str:
        for pattern, tracker in names.in_path:
            path = pattern.sub(partial(self._path_parameter, tracker, path), path)
        return path

    def _path_parameter(self, tracker: Tracker, path: str, found: re.Match[str]) -> str:
        if not tracker.applies(found[1], frozenset(), path):
            return found[0]
        self.stripped[tracker.category] += 1
        return ""

    def _query(self, query: str, path: str, names: Names) -> str:
        if _QUERY_ODD.search(query):
            query = normal_query(query)
        if ":/" in path or "://" in query.partition("=")[0]:  # another URL is inside: its parts are not ours to judge
            return query
        pairs = [pair for pair in query.split("&") if pair]
        if "=" in query:
            pairs = self._kept(pairs, path, names)
        if len(pairs) > 1:
            pairs.sort(key=_key)
        return "&".join(pairs)

    def _kept(self, pairs: list[str], path: str, names: Names) -> list[str]:
        kept, all_names = [], None
        for pair in pairs:
            key, _, value = pair.partition("=")
            tracker = names.get(key)
            if tracker is not None:
                if tracker.guarded and all_names is None:
                    all_names = frozenset(_key(other).lower() for other in pairs)
                if not tracker.guarded or tracker.applies(value, all_names or frozenset(), path):
                    self.stripped[tracker.category] += 1
                    continue
            kept.append(pair)
        return kept


def _bare_host(authority: str) -> str:
    """The host of ``userinfo@host:port``; an IPv6 address keeps its brackets."""
    host = authority.rpartition("@")[2]
    return host[: host.find("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def _key(pair: str) -> str:
    return pair.partition("=")[0]


def _whatwg(url: str) -> str | None:
    """`url` as a browser writes it, or None if it is no web address or a browser would refuse it."""
    if not url.startswith(("http://", "https://")) and not _SPECIAL.match(url):
        return None
    try:
        return normalize_url(url)
    except ValueError:
        if _SURROGATE.search(url):  # no text has one: it can only be meant as its octets
            return _whatwg(ascii_url(url))
        return None


def _generic(url: str, keep_fragments: bool) -> str:
    """RFC 3986's safe steps only: scheme and host in lower case, escapes in one spelling, no fragment."""
    found = _GENERIC.fullmatch(url.strip())
    if not found:
        return url  # data:, about: and the like: every octet may matter
    scheme, authority, path, query, fragment = (ascii_url(part or "") for part in found.groups())
    result = f"{scheme.lower()}://{_generic_host(authority)}{normal_path(path)}"
    if query and query != "?":
        result += normal_path(query)
    return result + fragment if keep_fragments else result


def _generic_host(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    return f"{userinfo}{at}{host.lower()}"


@cache
def canonicaliser() -> Canonicaliser:
    """The canonicaliser without site rules: what is the same everywhere on the web."""
    return Canonicaliser(Trackers(builtin()))


def canonical_url(url: str, *, keep_fragments: bool = False) -> str:
    """The canonical form of `url` by the general rules, without site rules. Never raises on a str."""
    return canonicaliser().canonical(url, keep_fragments=keep_fragments)


def canonical_host(url: str) -> str:
    """The host that decides the queue and the pace of `url`: lower case, punycode, no port, "" if it has none."""
    return canonicaliser().host(url)
