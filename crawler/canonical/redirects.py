"""Redirects that lead back into their own class, followed without fetching any page twice by mistake.

When ``/a`` redirects to ``/a?utm_source=x`` both have the same key: a dupefilter would drop the target and lose the
page, and the HTTP cache would answer the target with the stored redirect, for ever. So a chain of redirects remembers
the class keys it went through (``meta["redirect_classes"]``), and each return to a class within the chain has a key of
its own (see ``CanonicalFingerprinter``). That holds for any scheduler, dupefilter and cache, since all of them only ask
for the fingerprint, and it needs no clean-up: meta copied to other requests ends in a foreign class and is ignored.

A redirect to its own class is followed until ``REDIRECT_MAX_TIMES``. A return by way of another class is followed once,
and only where cookies are in play (the detour set one); otherwise it is a loop, left to the dupefilter as ever.
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

_RETURNS_BY_DETOUR = 1


class _FollowsInsideClass:
    """What both middlewares add to Scrapy's: the chain of classes on each redirected request."""

    crawler: Crawler

    def follow(self, request: Request, response: Response, redirected: Request) -> Request:
        """`redirected` with its chain of classes, so that a return to a class is not taken for a duplicate."""
        fingerprinter = self.crawler.request_fingerprinter
        if not isinstance(fingerprinter, CanonicalFingerprinter):
            return redirected
        source, target = fingerprinter.class_key(request).hex(), fingerprinter.class_key(redirected).hex()
        chain = _chain(request.meta.get(CLASSES), source)
        returns = chain.count(target)
        if returns and target != source and (returns > _RETURNS_BY_DETOUR or not _cookies(request, response)):
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


def _cookies(request: Request, response: Response) -> bool:
    return b"Set-Cookie" in response.headers or b"Cookie" in request.headers
