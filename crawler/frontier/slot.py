"""Which host's queue a request stands in: that of the slot its user chose, and never of one that Scrapy wrote.

Scrapy notes a download's slot and times in the request's meta, and the next request often gets a copy of that meta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from scrapy.http import Request

from crawler.canonical import canonical_host
from crawler.frontier.values import one_line

# Written by Scrapy for one download of one request; a request that copied its parent's meta must not inherit them.
# "download_slot" is judged apart (_is_default_slot), because users set it as well.
_TRANSIENT = frozenset({"download_latency", "cached_response", "cache_timestamp"})
_SUSPECT = _TRANSIENT | {"download_slot"}


def host_of(request: Request, canonical_host: Callable[[str], str] = canonical_host) -> str:
    """The host whose queue and pace a request belongs to: the slot its user chose, else the URL's canonical host.

    A fingerprinter with site rules has a `canonical_host` of its own: one page must not stand in two queues.
    """
    slot = request.meta.get("download_slot")
    if slot and not _is_default_slot(request, slot):
        return one_line(str(slot)) or canonical_host(request.url)  # a name among the frontier's keys and fields
    return canonical_host(request.url)


def lasting_meta(request: Request) -> dict[Any, Any]:
    """The request's meta without what Scrapy wrote for one download."""
    meta = request.meta
    if _SUSPECT.isdisjoint(meta):
        return meta
    kept = {key: value for key, value in meta.items() if key not in _TRANSIENT}
    if "download_slot" in kept and _is_default_slot(request, kept["download_slot"]):
        del kept["download_slot"]
    return kept


def _is_default_slot(request: Request, slot: object) -> bool:
    """True if `slot` is what Scrapy itself writes: the host name of this request's URL or of one that redirected to it.

    Any other value is the user's and travels. (That a page's slot is not inherited with its copied meta is seen to
    where it is written, in ``crawler/frontier/politeness.py``.)
    """
    redirects = request.meta.get("redirect_urls")
    urls = [request.url, *(redirects if isinstance(redirects, list) else ())]
    return any(_hostname(url) == slot for url in urls)


def _hostname(url: object) -> str:
    try:
        return urlsplit(str(url)).hostname or ""
    except ValueError:
        return ""
