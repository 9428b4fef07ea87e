"""Endless sites: which links lead nowhere new. Pure. (The per-host page cap is the frontier's own.)"""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

REPEATED = "repeated_segments"


def repeats(url: str, limit: int) -> bool:
    """Whether one path segment stands more than `limit` times in the URL: ``/a/b/a/b/a/b``, a link that grew by itself.

    0 switches it off. Empty segments (``//``) and numbers (a date's ``1/1/1``) don't count.
    """
    if not limit:
        return False
    segments = [part for part in urlsplit(url).path.split("/") if part and not part.isdigit()]
    return len(segments) > limit and max(Counter(segments).values(), default=0) > limit
