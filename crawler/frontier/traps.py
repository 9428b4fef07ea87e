"""Traps: links that a site makes without end. What is dropped because of one is counted by its reason.

The frontier keeps the page caps of hosts and calendars, for all workers together (``lua/admit.lua``), and Scrapy's own
middlewares the depth and the length of URLs.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

REPEATED = "repeated_segments"
CALENDAR = "calendar"
_STATS = {
    f"frontier/dropped/{REPEATED}": REPEATED,
    f"frontier/dropped/{CALENDAR}": CALENDAR,
    "frontier/dropped/host_max_pages": "host_max_pages",
    "depth/request_ignored_count": "depth",
    "urllength/request_ignored_count": "url_length",
}


def repeats(url: str, limit: int) -> bool:
    """Whether one path segment stands more than `limit` times in the URL: ``/a/b/a/b/a/b``, a link that grew by itself.

    0 switches it off. Empty segments (``//``) and numbers (a date's ``1/1/1``) don't count.
    """
    if not limit:
        return False
    segments = [part for part in urlsplit(url).path.split("/") if part and not part.isdigit()]
    return len(segments) > limit and max(Counter(segments).values(), default=0) > limit


_LARGEST = {
    **dict.fromkeys(("month", "monat", "mois", "mes"), 12),
    **dict.fromkeys(("week", "woche", "semaine", "semana"), 53),
    **dict.fromkeys(("day", "jour", "dia"), 366),
}
_YEARS = ("year", "jahr", "annee", "ano")
_OTHERS = ("date", "datum", "fecha", "calendar", "kalender", "calendrier", "calendario", "agenda")
_WORDS = (*_LARGEST, *_YEARS, *_OTHERS)
_WORD = re.compile(rf"(?:^|[^a-z])({'|'.join(_WORDS)})(?:$|[^a-z])")
_DAY = r"(?:0[1-9]|[12]\d|3[01])"
_ISO = re.compile(rf"/(\d{{4}})[-/](?:0[1-9]|1[0-2])[-/]{_DAY}/?$")  # at the end of a path
_AFTER_WORD = re.compile(r"/(?:(\d{4})(?:[-/]\d\d?){0,2}|\d\d?[-/](\d{4})|(\d+))/?$")
_DATE = re.compile(r"(\d{4})-\d\d?(?:-\d\d?)?(?:$|[T ])|\d\d?[-/.]\d\d?[-/.](\d{4})$")
_COMPACT = re.compile(rf"(\d{{4}})(?:0[1-9]|1[0-2]){_DAY}?$")
_AHEAD = 2  # a date is usual up to so many years from now
# First usual year of an era, and how far its present year is from ours: the common, the Buddhist, the two Islamic ones
# (solar: Iran; lunar) and the Jewish. Between one and the next lie years that are none: who just counts on gets there.
_ERAS = ((1800, 0), (2400, 543), (1250, -578), (5600, 3761))


def calendar_of(url: str, year: int = 0) -> str:
    """A key of the calendar that `url` belongs to, if its date is one that nobody needs; "" for any other URL.

    An archive's dates lie between 1800 and two years from `year` (0: now), or are as recent in another era (2569 and
    1405 are 2026 in Thailand and Iran): there is an end of them, and they are never meant here. A calendar that makes
    its next page by itself goes beyond, and all such pages of one calendar have the same key: the URL without its
    dates. Numbers count as dates only beside a word that says so, or written as 2031/05/31.
    """
    low = url.lower()
    if not any(word in low for word in _WORDS) and not _ISO.search(low.partition("?")[0]):
        return ""
    latest = (year or time.gmtime().tm_year) + _AHEAD
    parts = urlsplit(low)
    path, odd = _odd_path(parts.path, latest)
    kept = []
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        word = _WORD.search(name)
        if word and value[:1].isdigit():
            odd, value = odd or _odd_value(word[1], value, latest), "#"
        kept.append(f"{name}={value}")
    if not odd:
        return ""
    return "calendar " + hashlib.blake2b(f"{parts.netloc}{path}?{'&'.join(kept)}".encode(), digest_size=8).hexdigest()


def _odd_path(path: str, latest: int) -> tuple[str, bool]:
    """The path without the date at its end, and whether that is an odd one."""
    if match := _ISO.search(path):
        return path[: match.start()] + "/#", _odd(match[1], latest)
    match, word = _AFTER_WORD.search(path), None
    if match:
        word = _WORD.search(path[: match.start()].rpartition("/")[2])
    if not match or not word:
        return path, False
    found = match[1] or match[2]
    return path[: match.start()] + "/#", _odd(found, latest) if found else _odd_value(word[1], match[3], latest)


def _odd(year: str, latest: int) -> bool:
    return not any(first <= int(year) <= latest + ahead for first, ahead in _ERAS)


def _odd_value(word: str, value: str, latest: int) -> bool:
    """Whether a parameter's date, Unix time, or number of a month, week or day is odd."""
    if match := _DATE.match(value) or _COMPACT.match(value):
        return _odd(match[1] or match[match.lastindex or 1], latest)
    if not value.isdecimal() or len(value) > 13:
        return False
    if len(value) in (10, 13):  # seconds or milliseconds since 1970
        return 1970 + int(value[:10]) // 31_556_952 > latest
    if word in _YEARS:
        return _odd(value, latest)
    return word in _LARGEST and int(value) > _LARGEST[word] and (len(value) < 5 or _odd(value[:4], latest))


class Drops:
    """Requests that traps took since the last time it was asked, by reason."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats, self._told = stats, Counter[str]()

    def news(self) -> dict[str, int]:
        """Reason → requests."""
        news = {}
        for stat, reason in _STATS.items():
            if more := self._stats.get_value(stat, 0) - self._told[reason]:
                news[reason] = more
                self._told[reason] += more
        return news
