"""URL → canonical URL → fingerprint. Importing this package costs nothing: each name is loaded when first used.

Pure, without Scrapy: ``canonical_url``, ``canonical_host``, ``Canonicaliser``, ``FINGERPRINT_VERSION``.
For Scrapy's settings: ``CanonicalFingerprinter``, ``RedirectMiddleware``, ``MetaRefreshMiddleware``,
``AuditMiddleware``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawler.canonical.audit import AuditMiddleware
    from crawler.canonical.fingerprinter import CanonicalFingerprinter
    from crawler.canonical.redirects import MetaRefreshMiddleware, RedirectMiddleware
    from crawler.canonical.url import Canonicaliser, canonical_host, canonical_url
    from crawler.canonical.version import FINGERPRINT_VERSION

_HOME = {
    "AuditMiddleware": "audit",
    "FINGERPRINT_VERSION": "version",
    "Canonicaliser": "url",
    "canonical_host": "url",
    "canonical_url": "url",
    "CanonicalFingerprinter": "fingerprinter",
    "MetaRefreshMiddleware": "redirects",
    "RedirectMiddleware": "redirects",
}

__all__ = [
    "FINGERPRINT_VERSION",
    "AuditMiddleware",
    "CanonicalFingerprinter",
    "Canonicaliser",
    "MetaRefreshMiddleware",
    "RedirectMiddleware",
    "canonical_host",
    "canonical_url",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
