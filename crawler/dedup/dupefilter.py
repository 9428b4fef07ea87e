"""Scrapy's dupefilter interface over a memory in Redis, for any scheduler.

The project's scheduler only takes the admission from it. Other schedulers call ``request_seen``, which asks the server
and waits: at most a second, never twice. Whatever goes wrong there is answered "not seen", because a repeated
test-and-set would say "seen" to its own first try: a page fetched twice beats a page lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Self

import redis
from scrapy.utils.request import RequestFingerprinter, RequestFingerprinterProtocol

from crawler import config, connection
from crawler.dedup import memory, options
from crawler.dedup.admission import LuaAdmission
from crawler.dedup.backend import choose_backend
from crawler.dedup.ending import FULL, Ending
from crawler.dedup.known import KnownSeen
from crawler.dedup.log import DuplicateLog
from crawler.errors import ConfigError, StoredDataError
from crawler.keys import Keys
from crawler.nodes import node_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from crawler.dedup.kinds import Backend

    Plan = Callable[[Backend], LuaAdmission]

logger = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds that a stand-alone look-up may take, that a server which failed twice running is left alone, and that what is
known to be seen is trusted without asking the server."""


class RedisDupeFilter:
    """Base of the dupefilters that keep what was seen in Redis.

    `plan` gives the admission for a Bloom backend (kinds without one ignore it), `backend` is auto, bitmap or native,
    `base` the beginning of the keys' names for stand-alone use, `connect` makes a client for it, `end` ends the
    crawl.
    """

    has_backends: ClassVar[bool] = False
    """Whether there is a Bloom filter in it, which a server may have of its own."""

    def __init__(
        self,
        plan: Plan,
        *,
        base: str,
        connect: Callable[[], redis.Redis],
        fingerprinter: RequestFingerprinterProtocol,
        backend: str = "bitmap",
        native_fits: bool = True,
        known: int = 0,
        log: DuplicateLog | None = None,
        stats: StatsCollector | None = None,
        end: Ending | None = None,
    ) -> None:
        self.base = base
        self._plan, self._backend, self._native_fits = plan, backend, native_fits
        self._connect = connect
        self._fingerprinter = fingerprinter
        self._log = log or DuplicateLog()
        self._stats = stats
        self._end = end or Ending()
        self._admission: LuaAdmission | None = None
        self._memory: memory.SeenMemory | None = None
        self._known = KnownSeen(known)
        self._answered = self._failed = -PATIENCE  # monotonic times
        self._failures = 0
        self._said: set[str] = set()

    # How it is made ---------------------------------------------------------------------------------------------------

    @classmethod
    def plan(cls, settings: BaseSettings) -> Plan:
        """The memory that `settings` ask for. Raises ConfigError."""
        raise NotImplementedError

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """For Scrapy's scheduler and ours."""
        settings = crawler.settings
        name = crawler.spider.name if crawler.spider else "spider"
        base = own_key(settings, name) or Keys.from_settings(settings, name).dedup
        assert crawler.request_fingerprinter is not None, "Scrapy makes the fingerprinter before the dupefilter"
        return cls._from_settings(settings, base, crawler.request_fingerprinter, crawler.stats, Ending(crawler))

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
        end: Ending | None = None,
    ) -> Self:
        plan = cls.plan(settings)
        plan("bitmap")  # a bad setting shows now, not when the server was asked

        def connect() -> redis.Redis:
            return connection.sync_client(settings, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)

        return cls(
            plan,
            base=base,
            connect=connect,
            fingerprinter=fingerprinter,
            backend=options.backend(settings),
            native_fits=options.native_fits(settings),
            known=options.memory_size(settings),
            log=DuplicateLog(stats, debug=config.flag(settings, "DUPEFILTER_DEBUG", False)),
            stats=stats,
            end=end,
        )

    @classmethod
    def memory_at(cls, settings: BaseSettings, client: redis.Redis, base: str) -> memory.SeenMemory:
        """The memory under `base`, for commands: to look into it or to change it from outside a crawl."""
        backend = cls._choose(client, base, options.backend(settings), options.native_fits(settings))
        return memory.SeenMemory(client, base, cls.plan(settings)(backend))

    # For the project's scheduler --------------------------------------------------------------------------------------

    def admission(self, base: str) -> LuaAdmission:
        """What the exchange needs to test and record under keys that begin with `base`; prepare it first."""
        if self._admission is None:
            with self._connect() as client:
                self._resolve(client, base)
        assert self._admission is not None
        return self._admission

    def prepare(self, client: redis.Redis, base: str) -> None:
        """Check the metadata under `base`, or create it. Blocks. Raises ConfigError, StoredDataError, redis-py's."""
        memory.SeenMemory(client, base, self._resolve(client, base)).prepare()

    def clear(self, client: redis.Redis | None = None, base: str | None = None) -> None:
        """Forget everything under `base` (scrapy-redis: under our own key). Blocks."""
        memory.clear(client or self._seen_memory().client, base or self.base)
        self._known.sync(None)

    def _resolve(self, client: redis.Redis, base: str) -> LuaAdmission:
        self._admission = self._plan(self._choose(client, base, self._backend, self._native_fits))
        return self._admission

    @classmethod
    def _choose(cls, client: redis.Redis, base: str, wanted: str, native_fits: bool) -> Backend:
        return choose_backend(client, base, wanted, native_fits=native_fits) if cls.has_backends else "bitmap"

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
        now = time.monotonic()
        fingerprint = self._fingerprinter.fingerprint(request)
        if now - self._answered < PATIENCE and self._known.seen(fingerprint):
            return True
        if self._failures > 1 and now - self._failed < PATIENCE:
            return False
        try:
            seen_memory = self._seen_memory()
            verdict = seen_memory.add((fingerprint,))[0]
        except (redis.RedisError, OSError) as error:
            self._server_failed(error)
            return False
        except StoredDataError as error:  # emptied and begun anew by another configuration, while this crawl goes on
            self._end("frontier_error", str(error))
            return False
        self._answered, self._failures = now, 0
        self._known.sync(seen_memory.epoch)
        if verdict == memory.FULL:
            self._end(FULL)
            return False
        self._known.add(fingerprint)
        return verdict != memory.NEW

    def log(self, request: Request, spider: Spider) -> None:
        """Count a filtered request; log the first one, or all with ``DUPEFILTER_DEBUG``."""
        self._log(request, spider)

    def _seen_memory(self) -> memory.SeenMemory:
        if self._memory is None:
            client = self._connect()
            try:
                node = node_of(client, self.base)
                self._memory = memory.SeenMemory(node, self.base, self._resolve(node, self.base))
            except BaseException:
                client.close()
                raise
        return self._memory

    def _server_failed(self, error: BaseException) -> None:
        self._failures += 1
        self._failed = time.monotonic()
        if self._stats is not None:
            self._stats.inc_value("dupefilter/unanswered")
        self._warn_once("server", f"The dupefilter's server did not answer ({error}): such requests count as not seen")

    def _warn_once(self, subject: str, message: str) -> None:
        if subject not in self._said:
            self._said.add(subject)
            logger.warning(message)


def own_key(settings: BaseSettings, spider: str) -> str:
    """``SCHEDULER_DUPEFILTER_KEY`` for the spider, as scrapy-redis writes it; empty if it is not set."""
    template = config.text(settings, "SCHEDULER_DUPEFILTER_KEY")
    try:
        return template % {"spider": spider}
    except (KeyError, ValueError, TypeError):
        raise ConfigError("SCHEDULER_DUPEFILTER_KEY", template, "may contain %(spider)s, and %% for a %") from None


class BloomDupeFilter(RedisDupeFilter):
    """The default: a Bloom filter that grows."""

    has_backends = True

    @classmethod
    def plan(cls, settings: BaseSettings) -> Plan:
        """From BLOOM_CAPACITY, BLOOM_ERROR_RATE, BLOOM_GROWTH and the window settings."""
        return lambda backend: options.bloom(settings, backend)


class ExactDupeFilter(RedisDupeFilter):
    """A Redis set of fingerprints: never wrong, some seventy bytes per URL."""

    @classmethod
    def plan(cls, settings: BaseSettings) -> Plan:
        """From the window settings."""
        return lambda _: options.exact(settings)


class CompactDupeFilter(RedisDupeFilter):
    """Small sets of 32-bit integers: under five bytes per URL, can forget, costs memory rather than pages when full."""

    @classmethod
    def plan(cls, settings: BaseSettings) -> Plan:
        """From BLOOM_CAPACITY, BLOOM_ERROR_RATE, BLOOM_GROWTH and the window settings."""
        return lambda _: options.compact(settings)


class LayeredDupeFilter(RedisDupeFilter):
    """An exact set of what was seen recently, which can forget, in front of a Bloom filter of everything older."""

    has_backends = True

    @classmethod
    def plan(cls, settings: BaseSettings) -> Plan:
        """From DEDUP_RECENT_SIZE and the settings of the Bloom filter."""
        return lambda backend: options.layered(settings, backend)
