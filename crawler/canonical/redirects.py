"""Redirects that lead back into their own class, followed without fetching any page twice by mistake.

When ``/a`` redirects to ``/a?utm_source=x`` both have the same key: a dupefilter would drop the target and lose the
page, and the HTTP cache would answer the target with the stored redirect, for ever. So a chain of redirects remembers
the class keys it went through (``meta["redirect_classes"]``), and each return to a class within the chain has a key of
its own (see ``CanonicalFingerprinter``). That holds for any scheduler, dupefilter and cache, since all of them only ask
for the fingerprint, and it needs no clean-up: meta copied to other requests ends in a foreign class and is ignored.

A return to a class is followed as long as its exact URL was not requested in this chain yet. An exact URL that comes
again is a loop, left to the dupefilter as ever, unless cookies are in play: then it may have become another page.
Directly it is followed again, by way of another class once. ``REDIRECT_MAX_TIMES`` bounds all of it.

A retry is sent with ``dont_filter``, and its redirect would inherit that and be fetched although its page was seen. So
a request that was not exempt at first is noted in its meta, and the redirect of its retry is filtered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from scrapy import Request
from scrapy.downloadermiddlewares import redirect as scrapy_redirect
from scrapy.http import Response

from crawler.canonical.fingerprinter import CLASSES, CanonicalFingerprinter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

FILTERED = "redirect_filtered"
"""Meta key: the URL of the request, if it was asked of the dupefilter before any retry."""
_RETURNS_BY_DETOUR = 1


class _FollowsInsideClass:
    """What both middlewares add to Scrapy's: the chain of classes on a redirected request, and whether to filter it."""

    crawler: Crawler

    def process_request(self, request: Request) -> None:
        """Note whether `request` is filtered, before a retry makes that unknowable."""
        if not request.dont_filter:
            request.meta[FILTERED] = request.url
        elif not _only_retried(request):
            request.meta.pop(FILTERED, None)  # copied along with another request's meta

    def follow(self, request: Request, response: Response, redirected: Request) -> Request:
        """`redirected` with its chain of classes, so that a return to a class is not taken for a duplicate."""
        if request.dont_filter and _only_retried(request):
            redirected.dont_filter = False
        fingerprinter = self.crawler.request_fingerprinter
        if not isinstance(fingerprinter, CanonicalFingerprinter):
            return redirected
        source, target = fingerprinter.class_key(request).hex(), fingerprinter.class_key(redirected).hex()
        chain = _chain(request.meta.get(CLASSES), source)
        if target in chain and _requested(request, redirected):
            again = target == source or chain.count(target) <= _RETURNS_BY_DETOUR
            if not again or not _cookies(request, response):
                chain = []
        redirected.meta[CLASSES] = [*chain, target]
        return redirected


class RedirectMiddleware(_FollowsInsideClass, scrapy_redirect.RedirectMiddleware):
    """Scrapy's, and redirects inside one class are followed."""

    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        """The redirected request with its chain of classes, or the response."""
        result = super().process_response(request, response)
        return self.follow(request, response, result) if isinstance(result, Request) else result


class MetaRefreshMiddleware(_FollowsInsideClass, scrapy_redirect.MetaRefreshMiddleware):
    """Scrapy's, and refreshes inside one class are followed; a page that only reloads itself is a page."""

    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        """The redirected request with its chain of classes, or the response."""
        result = super().process_response(request, response)
        if not isinstance(result, Request):
            return result
        return response if _only_reloads(request, response, result) else self.follow(request, response, result)


def _only_reloads(request: Request, response: Response, redirected: Request) -> bool:
    """Whether a page refreshes itself for its readers; with a new cookie it may become another page, once."""
    if urldefrag(redirected.url).url != urldefrag(request.url).url:
        return False
    before = request.meta.get("redirect_urls") or [""]
    return b"Set-Cookie" not in response.headers or before[-1] == request.url


def _chain(classes: Any, source: str) -> list[str]:
    """The classes so far, `source` last; a chain that ends elsewhere belongs to another request."""
    if isinstance(classes, (list, tuple)) and classes and classes[-1] == source:
        return list(classes)
    return [source]


def _only_retried(request: Request) -> bool:
    """Whether nothing but a retry exempts `request` from the dupefilter."""
    return "retry_times" in request.meta and request.meta.get(FILTERED) == request.url


def _requested(request: Request, redirected: Request) -> bool:
    """Whether the exact URL of `redirected` stands in the chain that `request` ends."""
    before = {urldefrag(url).url for url in [*request.meta.get("redirect_urls", []), request.url]}
    return urldefrag(redirected.url).url in before


def _cookies(request: Request, response: Response) -> bool:
    return b"Set-Cookie" in response.headers or b"Cookie" in request.headers
