"""Requests on their way in: from the spider to the outbox, and the verdicts back to Scrapy's stats and signals.

Nothing that Scrapy calls here raises: an exception in ``enqueue_request`` would kill the task that carries a callback's
output, and a hundred of those hang a worker for ever.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from scrapy import Request, signals

from crawler import config
from crawler.canonical import canonical_host
from crawler.dedup.known import KnownSeen
from crawler.dedup.options import memory_size
from crawler.frontier import payload
from crawler.frontier.failures import describe
from crawler.frontier.local import Locals
from crawler.frontier.message import (
    ADD,
    CAPPED,
    ENDLESS,
    FILTER,
    FULL,
    LOCAL,
    NEW,
    SEEN,
    START,
    Admission,
    More,
    bounded,
)
from crawler.frontier.outbox import Outbox
from crawler.frontier.slot import host_of
from crawler.frontier.traps import CALENDAR, calendar_of

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_LONGEST_JAR = 200  # characters of a jar's name; jars that begin alike are then pinned together
_DROPPED = {CAPPED: "host_max_pages", ENDLESS: CALENDAR}
_REASONS = {
    "host_max_pages": "its host has had FRONTIER_HOST_MAX_PAGES pages in this run",
    CALENDAR: "its calendar has had FRONTIER_CALENDAR_MAX pages of dates that nobody needs",
}
_HURRY = 128  # admissions that are worth an exchange at once
_BURIED = 4000  # requests whose letters are not written again


class Admitter(Protocol):
    """The dupefilter's half of an admission."""

    def encode(self, fingerprint: bytes) -> bytes:
        """What travels for this fingerprint."""


class Admissions:
    """The outbox, filled and confirmed. `admitter` is None when a dupefilter in Python has answered already."""

    def __init__(self, crawler: Crawler, spider: Spider, admitter: Admitter | None) -> None:
        self._crawler, self._spider, self._admitter = crawler, spider, admitter
        assert crawler.stats is not None
        self._stats = crawler.stats
        self._fingerprinter = crawler.request_fingerprinter
        self._canonical_host = getattr(self._fingerprinter, "canonical_host", canonical_host)
        self._debug = crawler.settings.getbool("DUPEFILTER_DEBUG")
        self._calendars = config.integer(crawler.settings, "FRONTIER_CALENDAR_MAX", 1000) > 0
        self._pin_jars = config.flag(crawler.settings, "FRONTIER_PIN_COOKIEJARS", False)
        self._start_requests: WeakSet[Request] = WeakSet()
        self._warned: set[str] = set()
        self.known = KnownSeen(memory_size(crawler.settings) if admitter else 0)
        self._buried = KnownSeen(_BURIED)
        self.outbox, self.locals = Outbox(), Locals()
        self.full = False  # the dupefilter takes no more
        self.discarding = False  # what comes now is nobody's: its parents were given back
        self.kick: Callable[[], None] = lambda: None

    @property
    def urgent(self) -> bool:
        """Whether what waits is worth an exchange at once."""
        return len(self.outbox) >= _HURRY

    def note_start_request(self, request: Request) -> None:
        """The request comes from ``start()`` itself."""
        self._start_requests.add(request)

    def host_of(self, request: Request) -> str:
        """The host whose queue and pace a request belongs to."""
        return host_of(request, self._canonical_host)

    def item_of(self, request: Request) -> bytes:
        """How the dupefilter knows a request; b"" when there is none of ours, or the fingerprinter fails."""
        try:
            return self._admitter.encode(self._fingerprint(request)) if self._admitter else b""
        except Exception:  # noqa: BLE001 (the user's rules: the request itself was told of when it was queued)
            return b""

    def _fingerprint(self, request: Request) -> bytes:
        fingerprint = self._fingerprinter.fingerprint(request)
        if not isinstance(fingerprint, bytes):
            raise TypeError(f"the fingerprinter gave {type(fingerprint).__name__}, not bytes")
        return fingerprint

    def item_of_payload(self, data: bytes) -> bytes:
        """The same for a GET of the URL in a payload that cannot be read further; b"" if not even that can."""
        try:
            return self.item_of(Request(payload.url_of(data)))
        except (payload.PayloadError, ValueError):
            return b""

    def trail_of(self, request: Request) -> list[tuple[str, bytes]]:
        """Host and item of the pages that redirected to `request`: their links lead to what it led to."""
        urls, trail = request.meta.get("redirect_urls"), []
        for url in urls if isinstance(urls, list | tuple) else ():
            with contextlib.suppress(Exception):  # meta is the spider's, and so may be the rules of hosts
                before = Request(url)
                if item := self.item_of(before):  # none for a fingerprinter that needs the request's meta
                    trail.append((self.host_of(before), item))
        return trail

    def enqueue(self, request: Request, remember: int = 0) -> bool:
        """Puts a request on its way to the frontier; False when it is known here to be seen.

        ADD in `remember` marks it as seen in spite of ``dont_filter``. Never raises, never blocks.
        """
        if self.discarding:
            return True
        if request in self._start_requests:
            self._start_requests.discard(request)
            remember = START | ADD
        try:
            queued = self._add(request, remember)
        except Exception as error:  # noqa: BLE001 (a fingerprinter's rule, an odd URL, a value that can't be packed)
            self.bury(request, error)
            return True
        if self.urgent:
            self.kick()
        return queued

    def bury(self, request: Request, error: Exception) -> None:
        """A request that can't be queued goes to the dead letters instead, and whoever made it waits for that too."""
        if self.discarding:
            return
        reason = describe("enqueue", error)
        self._stats.inc_value("frontier/enqueue_errors")
        logger.debug("Where it failed to be queued:", exc_info=error)
        self._log_once(logging.ERROR, f"{request} can't be queued and goes to the dead letters ({reason})", reason,
                       "frontier/enqueue_errors")  # fmt: skip
        identity = hashlib.blake2b(
            f"{request.method} {request.url} ".encode("utf-8", "replace") + request.body
        ).digest()
        if self._buried.seen(identity):  # a link of every page would push all other letters out
            return
        self._buried.add(identity)
        data, host = b"", ""
        with contextlib.suppress(Exception):
            data = payload.encode(request, self._spider)
        with contextlib.suppress(Exception):
            host = host_of(request, canonical_host)
        self.outbox.add((host, 0, b"", b"", 0, data, {"dead": [reason, request.url]}), request)

    def forget_buried(self) -> None:
        """Their letters may be gone with a server's latest writes."""
        self._buried = KnownSeen(_BURIED)

    def _add(self, request: Request, remember: int) -> bool:
        flags = remember if request.dont_filter else remember | FILTER | ADD
        if request.dont_filter and request.meta.get("redirect_times"):
            flags |= ADD  # the page that a start request led to counts as seen, like any other
        fingerprint = self._fingerprint(request) if flags else b""
        if flags == FILTER | ADD and self.known.seen(fingerprint):
            self._stats.inc_value("dupefilter/filtered")
            self._stats.inc_value("dupefilter/filtered/memory")
            self._log_duplicate(request)
            return False
        data = b""
        try:
            data = payload.encode(request, self._spider)
        except payload.Unserialisable as error:
            flags |= LOCAL
            fingerprint = fingerprint or self._fingerprint(request)
            self._stats.inc_value("scheduler/unserializable")
            self._warn_once(f"{request} stays in this worker: {error}. It is crawled here, and no other worker can")
        item = self._admitter.encode(fingerprint) if flags & ADD and self._admitter else b""
        priority = bounded(request.priority)
        admission: Admission = (self.host_of(request), flags, item, fingerprint, priority, data)
        if more := self._more(request):
            admission = (*admission[:6], more)
        self.outbox.add(admission, request)
        return True

    def _more(self, request: Request) -> More:
        """What only few admissions carry."""
        more: More = {}
        if self._pin_jars and (jar := request.meta.get("cookiejar")) is not None:
            more["jar"] = repr(jar)[:_LONGEST_JAR]
        if self._calendars and (calendar := calendar_of(request.url)):
            more["calendar"] = calendar
        return more

    def confirm(self, verdicts: bytes) -> None:
        """Takes the frontier's verdicts on the oldest admissions, one byte each."""
        if not verdicts:
            return
        enqueued = seen = 0
        for entry, verdict in self.outbox.confirm(verdicts):
            if verdict in (NEW, SEEN) and entry.admission[1] & ADD:
                self.known.add(entry.admission[3])
            if verdict == NEW:
                enqueued += not entry.buried
                if entry.local:
                    self.locals.admit(entry)
                continue
            if reason := _DROPPED.get(verdict):
                self._stats.inc_value(f"frontier/dropped/{reason}")
                self._warn_once(f"Dropped {entry.request}: {_REASONS[reason]}", "the stat frontier/dropped")
            else:
                seen += 1
            self._drop(entry.request)
        if enqueued:
            self._stats.inc_value("scheduler/enqueued", enqueued)
        if seen:
            self._stats.inc_value("dupefilter/filtered", seen)
        self.full = self.full or FULL in verdicts

    def _log_duplicate(self, request: Request) -> None:
        if self._debug:
            logger.debug("Filtered duplicate request: %s", request, extra={"spider": self._spider})

    def _drop(self, request: Request) -> None:
        self._log_duplicate(request)
        self._crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self._spider)

    def _warn_once(self, text: str, stat: str = "scheduler/unserializable") -> None:
        self._log_once(logging.WARNING, text, text.rsplit(": ", maxsplit=1)[-1], stat)

    def _log_once(self, level: int, text: str, kind: str, stat: str) -> None:
        if kind not in self._warned and len(self._warned) < 20:
            self._warned.add(kind)
            logger.log(level, "%s (further ones are only counted: %s)", text, stat)
