"""From a URL to the canonical URL that stands for all its spellings.

A WHATWG parser (ada) settles scheme, host, port, dots and backslashes. Path and query are settled here: escapes get one
spelling, empty pairs go, pairs are sorted by key (stably, so ``a=1&a=2`` is not ``a=2&a=1``), and parameters that only
track are dropped. Site rules add to that where they match. What the parser refuses (broken hosts), and schemes that are
not the web's, are only tidied by RFC 3986.

The request is fetched as found; only its key is canonical.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from crawler.canonical import parse
from crawler.canonical.escapes import PATH_ODD, QUERY_ODD, normal_path, normal_query
from crawler.canonical.folds import amp_pair, pctu, unmangle
from crawler.canonical.hosts import HostIndex
from crawler.canonical.policy import Policy, Site, merged
from crawler.canonical.trace import Trace
from crawler.canonical.trackers import Names, Surroundings, Tracker, Trackers

_MEMO_MAX: Final = 10_000
_MEMO_ORIGIN_MAX: Final = 300


class View(NamedTuple):
    """What an origin means: found once per origin, then remembered.

    `origin` is its canonical text. Where rules depend on the path, `sites` are all that may hold there, and `by_path`
    the views found so far, by which of them do.
    """

    policy: Policy
    origin: str
    host: str
    sites: tuple[Site, ...] = ()
    by_path: dict[tuple[bool, ...], View] | None = None


class Canonicaliser:
    """Makes canonical URLs by the general rules and `sites`; `stripped` counts dropped parameters by category."""

    def __init__(self, trackers: Trackers | None = None, sites: Sequence[Site] = ()) -> None:
        self._trackers = trackers or Trackers()
        # In this order rules of one host pattern are found: the particular after the general.
        ordered = sorted(sites, key=lambda site: (not site.everywhere, len(site.path)))
        self._sites = HostIndex((host, site) for site in ordered for host in site.hosts)
        self._views: dict[str, View] = {}
        self._policies: dict[tuple[str, ...], Policy] = {}
        self.stripped: Counter[str] = Counter()

    def canonical(self, url: str, *, keep_fragments: bool = False, trace: Trace | None = None) -> str:
        """The canonical form of `url`; never raises, and is its own canonical form. `trace` receives the steps.

        >>> canonicaliser().canonical("HTTP://Example.com:80/%7Ejo/./?b=2&utm_source=x&a=1#top")
        'http://example.com/~jo/?a=1&b=2'
        """
        parts = self._parts(url)
        if parts is None:
            result = parse.generic(url, keep_fragments=keep_fragments)
            if trace is not None:
                trace.note("generic", "not a web address a browser would take: RFC 3986 only", url, result)
            return result
        view, origin, raw_path, query, fragment = parts
        path = normal_path(raw_path) if PATH_ODD.search(raw_path) else raw_path
        if view.by_path is not None:
            view = self._view_by_path(view, path, origin)
        policy = view.policy
        if trace is not None:
            trace.note(
                "parse", "WHATWG: scheme, host, port, dots, backslashes, raw characters", url, parse.whatwg(url) or ""
            )
            trace.note("origin", policy.why, origin, view.origin)
            trace.note("path escapes", "RFC 3986 6.2.2: one spelling for each octet", raw_path, path)
        if policy.rewrites:
            path, query = _rewritten(raw_path, query, policy, trace)
        path, query = self._path_and_query(path, query, policy, trace)
        while policy.unmangle and not query:  # what a tracker's query or a folder's index page hid from the fold
            before = path
            path, query = unmangle(path, query)
            if path == before:
                break
            path, query = self._path_and_query(path, query, policy, trace)
        result = f"{view.origin}{path}?{query}" if query else view.origin + path
        if fragment is not None:
            result += parse.kept_fragment(fragment, "keep" if keep_fragments else policy.fragment)
            if trace is not None:
                trace.note("fragment", "not sent to the server", fragment, result.partition("#")[2])
        return result

    def _path_and_query(self, path: str, query: str, policy: Policy, trace: Trace | None) -> tuple[str, str]:
        if ";" in path or policy.on_path:
            path = self._path(path, policy, trace)
        return path, self._query(query, path, policy, trace) if query else ""

    def host(self, url: str) -> str:
        """The host whose queue and pace `url` belongs to: lower case, punycode, no port; empty if there is none."""
        parts = self._parts(url)
        if parts is None:
            return parse.generic_host(url)
        view, origin, path, _, _ = parts
        return (view if view.by_path is None else self._view_by_path(view, normal_path(path), origin)).host

    def _parts(self, url: str) -> tuple[View, str, str, str, str | None] | None:
        """View, origin, path, query and fragment (None without ``#``) of what a browser takes; None of the rest."""
        plain = parse.PLAIN.fullmatch(url)
        if plain is not None and "/." not in plain[2]:
            known = self._views.get(plain[1])
            if known is not None:  # an origin the parser made, and nothing else that it would touch: no need to ask
                return known, plain[1], plain[2], plain[3] or "", None
        href = parse.whatwg(url)
        if href is None:
            return None
        head, mark, fragment = href.partition("#")
        head, _, query = head.partition("?")
        slash = head.index("/", head.index("://") + 3)
        origin = head[:slash]
        return self._views.get(origin) or self._view(origin), origin, head[slash:], query, fragment if mark else None

    def _view(self, origin: str) -> View:
        host = parse.split_origin(origin).host
        sites = tuple(dict.fromkeys(self._sites.find(host)))  # a rule may match by several of its hosts
        always = tuple(site for site in sites if site.everywhere)
        view = self._made(origin, host, always)
        if len(always) < len(sites):
            view = view._replace(sites=sites, by_path={})
        if len(self._views) >= _MEMO_MAX:
            self._views.clear()
        if len(origin) <= _MEMO_ORIGIN_MAX:
            self._views[origin] = view
        return view

    def _view_by_path(self, view: View, path: str, origin: str) -> View:
        assert view.by_path is not None
        holds = tuple(site.covers(path) for site in view.sites)
        found = view.by_path.get(holds)
        if found is None:
            here = tuple(site for site, hold in zip(view.sites, holds, strict=True) if hold)
            found = view.by_path[holds] = self._made(origin, parse.split_origin(origin).host, here)
        return found

    def _made(self, origin: str, host: str, sites: tuple[Site, ...]) -> View:
        names = self._trackers.for_host(host)
        policy = self._policy(sites, names)
        parts = parse.split_origin(origin)
        parts = policy.origin(parts._replace(userinfo=normal_path(parts.userinfo)))
        return View(policy, str(parts), parts.host)

    def _policy(self, sites: tuple[Site, ...], names: Names) -> Policy:
        key = (str(id(names)), *(site.label for site in sites))
        if key not in self._policies:
            self._policies[key] = merged(sites, names)
        return self._policies[key]

    def _path(self, path: str, policy: Policy, trace: Trace | None) -> str:
        if ";" in path:
            path = self._path_parameters(path, policy, trace)
        for name, substitute in policy.path_subs:
            before, path = path, substitute(path)
            if trace is not None:
                trace.note(name, policy.why, before, path)
        start = None
        while policy.path_folds and path != start:  # one fold may make work for another: /a/index.html/
            start = path
            for name, fold in policy.path_folds:
                before, path = path, fold(path)
                if trace is not None:
                    trace.note(name, policy.why, before, path)
        return path

    def _path_parameters(self, path: str, policy: Policy, trace: Trace | None) -> str:
        for item in policy.names.in_path:
            before, path = path, item.dropped(path)
            if path != before:
                self._count(item.tracker, f"drop ;{item.name}", before, path, trace)
        return path

    def _count(self, tracker: Tracker, step: str, before: str, after: str, trace: Trace | None) -> None:
        """What is explained is a question, not a page: it does not count."""
        if trace is None:
            self.stripped[tracker.category] += 1
        else:
            trace.note(step, f"{tracker.category}: {tracker.why}", before, after)

    def _query(self, raw: str, path: str, policy: Policy, trace: Trace | None) -> str:
        query = normal_query(raw) if QUERY_ODD.search(raw) else raw
        if trace is not None:
            trace.note("query escapes", "RFC 3986 6.2.2, HTML forms: one spelling for each octet", raw, query)
        for name, step in policy.query_steps:
            before, query = query, step(query)
            if trace is not None:
                trace.note(name, policy.why, before, query)
        if ":/" in path or "://" in query.partition("=")[0]:  # another URL is inside: its parts are not ours to judge
            return query
        pairs = [pair for pair in query.split("&") if pair]
        if trace is not None:
            trace.note("empty pairs", "they carry nothing", query, "&".join(pairs))
        if "=" in query:
            pairs = self._kept(pairs, path, policy, trace)
        if policy.duppairs:
            pairs = list(dict.fromkeys(pairs))
        if policy.sort and len(pairs) > 1:
            before = "&".join(pairs) if trace is not None else ""
            pairs.sort(key=_key)
            if trace is not None:
                trace.note("order", "the order of different keys means nothing to a form", before, "&".join(pairs))
        return "&".join(pairs)

    def _kept(self, pairs: list[str], path: str, policy: Policy, trace: Trace | None) -> list[str]:
        kept: list[str] = []
        around: Surroundings | None = None
        get = policy.names.get
        for pair in pairs:
            key, _, value = pair.partition("=")
            tracker = get(key)
            if tracker is None:
                if not (policy.amp and amp_pair(pair)):
                    kept.append(pair)
                continue
            if tracker.guarded:
                around = around or Surroundings(path, pairs)
                if not tracker.applies(value, around):
                    kept.append(pair)
                    continue
            self._count(tracker, f"drop {key}", pair, "", trace)
        return kept


def _key(pair: str) -> str:
    return pair.partition("=")[0]


def _rewritten(path: str, query: str, policy: Policy, trace: Trace | None) -> tuple[str, str]:
    before = f"{path}?{query}" if query else path
    if policy.pctu:
        path, query = pctu(path), pctu(query)
    path = normal_path(path)
    if policy.pctu and "/." in path:
        path = parse.without_dots(path)  # %u002E is a dot
    if policy.unmangle:
        path, query = unmangle(path, query)
    if trace is not None:
        trace.note("rewrite", policy.why, before, f"{path}?{query}" if query else path)
    return path, query


@cache
def canonicaliser() -> Canonicaliser:
    """The canonicaliser without site rules: what is the same everywhere on the web."""
    return Canonicaliser()


def canonical_url(url: str, *, keep_fragments: bool = False) -> str:
    """The canonical form of `url` by the general rules, without site rules. Never raises on a str."""
    return canonicaliser().canonical(url, keep_fragments=keep_fragments)


def canonical_host(url: str) -> str:
    """The host that decides the queue and the pace of `url`: lower case, punycode, no port, "" if it has none."""
    return canonicaliser().host(url)
