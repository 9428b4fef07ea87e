"""Trials: pairs of URLs that share a key, or that might, fetched to see whether they are one page.

Pure: which URLs are tried and what for, and when two pages count as the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from crawler.canonical.explain import Explanation
from crawler.canonical.url import Canonicaliser

LEARN = "learn "
"""Begins the subject of a trial that leaves out a parameter no rule drops."""

_NOT_TRIED = {"parse", "fragment", "generic", "empty pairs"}  # not sent, or the same request for every HTTP client
_SPACE = re.compile(r"\s+")


class Trial(NamedTuple):
    """Is `variant` the page that `reference` is? `subjects` are what tells them apart: names, or steps."""

    variant: str
    reference: str
    subjects: tuple[str, ...]


def chosen(url: str, share: float) -> bool:
    """Whether `url` belongs to the share (0 to 1) of URLs that are tried: always the same ones, on every worker."""
    return int.from_bytes(_digest(url, 8)) < share * 2**64


def merge_trial(canonicaliser: Canonicaliser, url: str) -> Trial | None:
    """The trial of what was done to `url` to make its key; None if nothing that a server could notice.

    Of several dropped parameters one is tried, put back alone into the canonical form, so that none is blamed for
    another; which one depends on the URL alone.
    """
    made = Explanation(canonicaliser, url)
    pairs = [step.before for step in made.steps if step.step.startswith("drop ") and not step.after]
    if pairs:
        pair = pairs[_digest(url, 1)[0] % len(pairs)]
        join = "&" if "?" in made.canonical else "?"
        return Trial(f"{made.canonical}{join}{pair}", made.canonical, (pair.partition("=")[0],))
    steps = [step.step for step in made.steps if step.step not in _NOT_TRIED]
    subjects = tuple(dict.fromkeys(step.removeprefix("drop ").partition("=")[0] for step in steps))
    return Trial(url, made.canonical, subjects) if subjects else None


def learning_trial(canonicaliser: Canonicaliser, url: str) -> Trial | None:
    """The trial of one parameter that no rule drops, left out of `url`: which one depends on the URL alone."""
    canonical = Explanation(canonicaliser, url).canonical
    head, _, query = canonical.partition("?")
    pairs = query.split("&")
    names = sorted({pair.partition("=")[0] for pair in pairs if "=" in pair})
    if not names:
        return None
    name = names[_digest(canonical, 1)[0] % len(names)]
    rest = "&".join(pair for pair in pairs if pair.partition("=")[0] != name)
    return Trial(canonical, f"{head}?{rest}" if rest else head, (LEARN + name,))


def page_digest(status: int, texts: Sequence[str], body: bytes) -> bytes:
    """What stands for a page: its status and its visible `texts` (without layout), or its `body` if it has no text."""
    text = _SPACE.sub(" ", " ".join(texts)).strip()
    return blake2b(b"%d " % status + (text.encode("utf-8", "surrogatepass") or body), digest_size=16).digest()


def verdict(before: bytes, variant: bytes, after: bytes) -> str:
    """``same``, ``changed``, or ``volatile`` if the reference itself differs between two looks."""
    if before != after:
        return "volatile"
    return "same" if variant == before else "changed"


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size, person=b"trial").digest()
