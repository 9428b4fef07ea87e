"""A worker that got no page because what it asked for was refused: its last line says why, and what would allow it.

The refusals themselves are debug lines in Scrapy, or stand above its statistics; the exit code is Scrapy's for a crawl
that came to its end, 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

# Scrapy's or the guard's count → what was refused, what decides that.
_REASONS = {
    "guard/refused": ("at a private address", "CRAWLER_PRIVATE_HOSTS lists hosts that may be, CRAWLER_ALLOW_PRIVATE=1"),
    "guard/scheme": ("with another URL scheme", "CRAWLER_SCHEMES"),
    "offsite/filtered": ("to another site", "the spider's allowed_domains"),
    "robotstxt/forbidden": ("forbidden by the site's robots.txt", "ROBOTSTXT_OBEY"),
}


def line(stats: Mapping[str, Any], start_urls: Iterable[str]) -> str:
    """What to say at the end of a crawl; "" when it got a page, or nothing was refused."""
    pages = stats.get("response_received_count", 0) - stats.get("robotstxt/response_count", 0)
    reasons = [f"{what} ({by})" for name, (what, by) in _REASONS.items() if stats.get(name)]
    if pages > 0 or not reasons:
        return ""
    begun = ", ".join(islice(start_urls, 3))
    return f"This worker fetched no page{f' from {begun}' if begun else ''}: requests were refused {'; '.join(reasons)}"
