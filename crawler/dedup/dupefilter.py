"""Scrapy's dupefilter interface over a memory in Redis, for any scheduler.

The project's scheduler only takes the admission from it. Other schedulers call ``request_seen``, which asks the server
and waits: at most a second, never twice. Whatever goes wrong there is answered "not seen", because a repeated
test-and-set would say "seen" to its own first try: a page fetched twice beats a page lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import redis
from scrapy.utils.request import RequestFingerprinter, RequestFingerprinterProtocol, referer_str

from crawler import config, connection
from crawler.dedup.admission import Admission
from crawler.dedup.memory import FULL, NEW, SeenMemory
from crawler.keys import Keys

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds a stand-alone look-up may take, and for which a server that failed twice running is left alone."""


class RedisDupeFilter:
    """Base of the dupefilters that keep what was seen in Redis; a subclass says how, in :meth:`make_admission`."""

    def __init__(
        self,
        admission: Admission,
        *,
        base: str,
        connect: Callable[[], redis.Redis],
        fingerprinter: RequestFingerprinterProtocol,
        stats: StatsCollector | None = None,
        debug: bool = False,
    ) -> None:
        self.base = base
        self.debug = debug
        self._admission = admission
        self._connect = connect
        self._fingerprinter = fingerprinter
        self._stats = stats
        self._memory: SeenMemory | None = None
        self._failures = 0
        self._pause_until = 0.0
        self._said: set[str] = set()

    # How it is made ---------------------------------------------------------------------------------------------------

    @classmethod
    def make_admission(cls, settings: BaseSettings) -> Admission:
        """The admission that `settings` ask for. Raises ConfigError."""
        raise NotImplementedError

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """For Scrapy's scheduler and ours."""
        settings = crawler.settings
        name = crawler.spider.name if crawler.spider else "spider"
        template = config.text(settings, "SCHEDULER_DUPEFILTER_KEY")
        base = template % {"spider": name} if template else Keys.from_settings(settings, name).dedup
        fingerprinter = crawler.request_fingerprinter
        assert fingerprinter is not None, "Scrapy makes the fingerprinter before the dupefilter"
        return cls._from_settings(settings, base, fingerprinter, crawler.stats)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """For scrapy-redis's scheduler; the fingerprinter is the crawler's, and so are the keys."""
        return cls.from_crawler(spider.crawler)

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Without a spider: Scrapy's default fingerprints, one memory under ``{PREFIX:all:0}``."""
        return cls._from_settings(settings, Keys.from_settings(settings, "all").dedup, RequestFingerprinter(), None)

    @classmethod
    def _from_settings(
        cls,
        settings: BaseSettings,
        base: str,
        fingerprinter: RequestFingerprinterProtocol,
        stats: StatsCollector | None,
    ) -> Self:
        def connect() -> redis.Redis:
            return connection.sync_client(settings, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)

        admission = cls.make_admission(settings)
        debug = config.flag(settings, "DUPEFILTER_DEBUG", False)
        return cls(admission, base=base, connect=connect, fingerprinter=fingerprinter, stats=stats, debug=debug)

    # For the project's scheduler --------------------------------------------------------------------------------------

    def admission(self, base: str) -> Admission:
        """What the exchange needs to test and record under keys that begin with `base`."""
        return self._admission

    def prepare(self, client: redis.Redis, base: str) -> None:
        """Check the metadata under `base`, or create it. Blocks. Raises StoredDataError and redis-py's errors."""
        SeenMemory(client, base, self._admission).prepare()

    def clear(self, client: redis.Redis | None = None, base: str | None = None) -> None:
        """Forget everything under `base` (scrapy-redis: under our own key). Blocks."""
        raise NotImplementedError

    # For other schedulers ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Check the stored metadata; a server that is away is reported, not fatal. Raises StoredDataError."""
        try:
            self._seen_memory().prepare()
        except (redis.RedisError, OSError) as error:
            self._server_failed(error)

    def close(self, reason: str = "") -> None:
        """Drop the connection. What was seen stays."""
        if self._memory is not None:
            self._memory.client.close()
            self._memory = None

    def request_seen(self, request: Request) -> bool:
        """Whether the request was seen before; records it. Blocks up to a second; False when the server cannot say."""
        if self._failures > 1 and time.monotonic() < self._pause_until:
            return False
        fingerprint = self._fingerprinter.fingerprint(request)
        try:
            verdict = self._seen_memory().add((fingerprint,))[0]
        except (redis.RedisError, OSError) as error:
            self._server_failed(error)
            return False
        self._failures = 0
        if verdict == FULL:
            self._say_once("full", "The memory of what was seen is full: new pages are crawled but not remembered")
        return verdict not in (NEW, FULL)

    def log(self, request: Request, spider: Spider) -> None:
        """Count a filtered request; log the first one, or all with ``DUPEFILTER_DEBUG``."""
        if self.debug:
            logger.debug(
                "Filtered duplicate request: %(request)s (referer: %(referer)s)",
                {"request": request, "referer": referer_str(request)},
                extra={"spider": spider},
            )
        elif "duplicate" not in self._said:
            self._said.add("duplicate")
            logger.debug(
                "Filtered duplicate request: %(request)s - the only one shown (DUPEFILTER_DEBUG shows all)",
                {"request": request},
                extra={"spider": spider},
            )
        if self._stats is not None:
            self._stats.inc_value("dupefilter/filtered")

    def _seen_memory(self) -> SeenMemory:
        if self._memory is None:
            self._memory = SeenMemory(self._connect(), self.base, self._admission)
        return self._memory

    def _server_failed(self, error: BaseException) -> None:
        self._failures += 1
        self._pause_until = time.monotonic() + PATIENCE
        if self._stats is not None:
            self._stats.inc_value("dupefilter/unanswered")
        self._say_once("server", f"The dupefilter's server did not answer ({error}): such requests count as not seen")

    def _say_once(self, subject: str, message: str) -> None:
        if subject not in self._said:
            self._said.add(subject)
            logger.warning(message)
