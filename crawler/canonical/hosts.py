"""Look-up of things by host name: a dict over suffixes, so that its cost depends on the host and never on how many
patterns are known.

====================  ==========================================================================
pattern               hosts
====================  ==========================================================================
``example.com``       example.com and everything below it
``=example.com``      example.com alone
``example.*``         example.com, example.de, example.co.uk and everything below them
``*``                 every host
====================  ==========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_PUBLIC_ENDING = re.compile(r"com|net|org|[a-z]{2}|(?:com?|net|org)\.[a-z]{2}")
_DNS_MAX = 253  # characters, RFC 1035
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_PATTERN = re.compile(rf"\*|=?{_LABEL}(?:\.{_LABEL})*(?:\.\*)?|=?\[[0-9a-f:.]+\]")


def is_pattern(text: str) -> bool:
    """Whether `text` (lower case, punycode) is one of the patterns above."""
    return bool(_PATTERN.fullmatch(text))


class HostIndex(Generic[T]):
    """Values by host pattern."""

    def __init__(self, items: Iterable[tuple[str, T]] = ()) -> None:
        self._items: dict[str, list[T]] = {}
        for pattern, value in items:
            self._items.setdefault(pattern, []).append(value)

    def find(self, host: str) -> list[T]:
        """Values of all patterns that match `host` (lower case, punycode), the most general pattern first."""
        if not self._items:
            return []
        return [value for pattern in _patterns(host) for value in self._items.get(pattern, ())]


def _patterns(host: str) -> Iterator[str]:
    """Every pattern that matches `host`, the most general first."""
    yield "*"
    host = host.removesuffix(".")
    if len(host) > _DNS_MAX:
        return  # no such host can exist, and its suffixes would be many
    labels = host.split(".")
    for start in range(len(labels) - 1, -1, -1):
        suffix = ".".join(labels[start:])
        yield suffix
        for ending in (1, 2):
            if start < len(labels) - ending and _PUBLIC_ENDING.fullmatch(".".join(labels[-ending:])):
                yield ".".join(labels[start:-ending]) + ".*"
    for ending in (1, 2):
        if ending < len(labels) and _PUBLIC_ENDING.fullmatch(".".join(labels[-ending:])):
            yield "=" + ".".join(labels[:-ending]) + ".*"
    yield "=" + host
