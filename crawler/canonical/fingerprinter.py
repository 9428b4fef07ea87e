"""Scrapy's ``REQUEST_FINGERPRINTER_CLASS``: the canonical URL, the method, the body and chosen headers become one key.

Per request:

- ``meta["canonical"] = False``: keyed by its exact URL (which then never equals the canonical key of any page);
- ``meta["verbatim_url"] = True`` (Scrapy's own): the URL is taken as it is written instead of being canonicalised;
- ``meta["redirect_classes"]`` is written by the redirect middlewares of this package (see ``redirects.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from crawler.canonical import sources
from crawler.canonical.keys import request_key, visit_key
from crawler.canonical.url import Canonicaliser
from crawler.canonical.version import FINGERPRINT_VERSION

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

CLASSES = "redirect_classes"
"""Meta key: the class keys (hex) of a chain of redirects, this request's own last."""

Mode = tuple[bool, bool]  # (verbatim, exact)
_REPORT_EVERY = 50


class CanonicalFingerprinter:
    """Fingerprints of requests by canonical URL: 20 bytes, the first is the version.

    `version` says by which code and rules: it changes with either, so that what Redis remembers is never mixed.
    """

    def __init__(
        self,
        canonicaliser: Canonicaliser,
        stats: StatsCollector | None = None,
        *,
        include_headers: Iterable[str] = (),
        keep_fragments: bool = False,
        rules_version: str = "",
    ) -> None:
        self.canonicaliser = canonicaliser
        self._stats = stats
        self._headers = tuple(sorted(name.lower().encode("latin-1") for name in include_headers))
        self._keep_fragments = keep_fragments
        choices = [rules_version, "fragments" if keep_fragments else "", *(name.decode() for name in self._headers)]
        self.version = "-".join([FINGERPRINT_VERSION, *filter(None, choices)])
        self._class_keys: WeakKeyDictionary[Request, tuple[Mode, bytes]] = WeakKeyDictionary()
        self._urls = self._changed = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> CanonicalFingerprinter:
        """Reads ``CANONICAL_RULES``, ``CANONICAL_GROUPS``, ``CANONICAL_OFF``, ``CANONICAL_INCLUDE_HEADERS`` (names
        that count besides URL, method and body) and ``CANONICAL_KEEP_FRAGMENTS``. Raises ConfigError."""
        from scrapy import signals

        ruleset = sources.load(crawler.settings, crawler.spider or crawler.spidercls)
        fingerprinter = cls(
            ruleset.checked(),
            crawler.stats,
            include_headers=crawler.settings.getlist("CANONICAL_INCLUDE_HEADERS"),
            keep_fragments=crawler.settings.getbool("CANONICAL_KEEP_FRAGMENTS"),
            rules_version=ruleset.version,
        )
        crawler.signals.connect(fingerprinter.report, signals.spider_closed)
        return fingerprinter

    def fingerprint(self, request: Request) -> bytes:
        """The key of `request`; equal keys mean the same page."""
        key = self.class_key(request)
        classes = request.meta.get(CLASSES)
        return key if not classes else _visited(key, classes)

    def class_key(self, request: Request) -> bytes:
        """The key of `request` without regard to the redirects that led to it."""
        meta = request.meta
        mode = (bool(meta.get("verbatim_url")), meta.get("canonical") is False)
        cached = self._class_keys.get(request)
        if cached is not None and cached[0] == mode:
            return cached[1]
        key = self._make(request, *mode)
        self._class_keys[request] = mode, key
        return key

    def canonical_url(self, url: str) -> str:
        """The canonical form of `url`, site rules included."""
        return self.canonicaliser.canonical(url, keep_fragments=self._keep_fragments)

    def canonical_host(self, url: str) -> str:
        """The host that decides the queue and the pace of `url`, site rules included."""
        return self.canonicaliser.host(url)

    def report(self) -> None:
        """Bring Scrapy's stats up to date: ``canonical/urls``, ``/changed``, ``/stripped/CATEGORY``.

        Called now and then and at the end: a stats call per URL would cost as much as the hash.
        """
        if self._stats is None:
            return
        self._stats.inc_value("canonical/urls", self._urls)
        self._stats.inc_value("canonical/changed", self._changed)
        self._urls = self._changed = 0
        for category, count in self.canonicaliser.stripped.items():
            self._stats.set_value(f"canonical/stripped/{category}", count)

    def _make(self, request: Request, verbatim: bool, exact: bool) -> bytes:
        url = request.url
        if not verbatim and not exact:
            canonical = self.canonical_url(url)
            self._changed += canonical != url
            url = canonical
        self._urls += 1
        if self._urls >= _REPORT_EVERY:
            self.report()
        headers: list[tuple[bytes, list[bytes]]] = []
        if self._headers:
            headers = [(name, request.headers.getlist(name)) for name in self._headers if name in request.headers]
        return request_key(request.method, url, request.body, headers, exact=exact)


def _visited(key: bytes, classes: Any) -> bytes:
    """`key`, or its own key for each return if the chain `classes` ends in it and has been there before.

    A chain that ends elsewhere was copied along with a spider's meta and says nothing about this request.
    """
    name = key.hex()
    if not isinstance(classes, (list, tuple)) or classes[-1] != name:
        return key
    visit = classes.count(name) - 1
    return visit_key(key, visit) if visit else key
