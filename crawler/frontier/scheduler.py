"""The scheduler that Scrapy sees: a worker's door to the shared frontier.

``enqueue_request`` puts into the outbox, ``next_request`` takes from the inbox, and a background task carries both to
Redis and back (:mod:`crawler.frontier.link`). The life of a request is told in ``docs/architecture.md``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from crawler import config, connection
from crawler.canonical.version import version_of
from crawler.errors import ConfigError
from crawler.frontier import hooks, payload
from crawler.frontier.carrier import carrier
from crawler.frontier.claim import StartClaim
from crawler.frontier.farewell import Farewell
from crawler.frontier.fed import stop_polling
from crawler.frontier.link import Link
from crawler.frontier.memory import Memory
from crawler.frontier.message import Message
from crawler.frontier.policy import Policy
from crawler.frontier.refusal import refusal
from crawler.frontier.runs import Run, Runs
from crawler.frontier.traps import REPEATED, repeats
from crawler.frontier.worker import Worker
from crawler.keys import Keys
from crawler.nodes import Nodes, nodes_of

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Close reasons that mean the crawl did not do its work.
FAILED_REASONS = frozenset({"bloom_full", "frontier_lost", "frontier_error", "start_error"})
_CLOSE_SECONDS = 5.0  # to say the last things before the process ends
_FULL = (
    "The Bloom filter is full (BLOOM_CAPACITY={}) and BLOOM_GROWTH=0: nothing new is admitted, nothing is lost; "
    "raise BLOOM_CAPACITY or set BLOOM_GROWTH=1 and start again to go on"
)


class Scheduler(BaseScheduler):
    """Shared frontier on Redis. Settings: ``FRONTIER_*``, ``SCHEDULER_PERSIST``, ``SCHEDULER_FLUSH_ON_START``."""

    def __init__(self, crawler: Crawler, policy: Policy, worker_name: str) -> None:
        self.crawler, self.policy = crawler, policy
        self.worker_name = f"{worker_name}-{secrets.token_hex(3)}"
        self.shared = True
        self.worker: Worker | None = None
        self.link: Link | None = None
        self.start: StartClaim | None = None
        self._nodes: Nodes | None = None
        self._memory: Memory | None = None
        self._keys: Keys | None = None
        self._run: Run | None = None
        self._runs: Runs | None = None
        self._farewell: Farewell | None = None
        self._over = self._refused = False
        self._wake_call: asyncio.TimerHandle | None = None
        self._ending: asyncio.Future[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises ConfigError for the first unusable setting."""
        policy = Policy.from_settings(crawler.settings)
        return cls(crawler, policy, config.worker_name(crawler.settings, f"{platform.node()}-{os.getpid()}"))

    # What Scrapy calls.
    def open(self, spider: Spider) -> Deferred[None]:
        """Joins the crawl; fires when the first exchange was answered. Errors: CrawlerError, each one line."""
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        """Tells the frontier the last things and gives back what was not finished."""
        return deferred_from_coro(self._close(reason))

    def has_pending_requests(self) -> bool:
        """True until the crawl is over everywhere, whatever this worker holds, and nothing came up since."""
        worker = self.worker
        return not self._over or (self._ending is None and worker is not None and bool(worker.outbox or worker.locals))

    def enqueue_request(self, request: Request) -> bool:
        """False for a trap, or what is known here to be seen; else True, and a later verdict "seen" is signalled."""
        assert self.worker is not None
        assert self._memory is not None
        try:
            if not request.dont_filter and (self._trapped(request) or self._memory.seen(request)):
                return False
        except Exception as error:  # noqa: BLE001 (a dupefilter of the user's, which asks the fingerprinter)
            self.worker.admissions.bury(request, error)
            return True
        return self.worker.admissions.enqueue(request)

    def next_request(self) -> Request | None:
        """A leased request that may start now, or None."""
        return self.worker.next_request() if self.worker is not None else None

    # Open.
    async def _open(self, spider: Spider) -> None:
        settings = self.crawler.settings
        hooks.check(self.crawler.engine)
        self._check_start_once()
        await asyncio.to_thread(connection.check, settings)
        self._keys = keys = Keys.from_settings(settings, spider.name)
        shards = keys.spread(self.policy.shards)
        self._nodes = nodes_of(settings)
        self._memory = Memory(self.crawler, [one.dedup for one in shards], shared=bool(keys.scope))
        try:
            self._run = await self._join(shards)
            if self._run.finished:
                raise CloseSpider("run_finished")
            await self._memory.open()
            self._begin(spider, shards, self._memory.admission())
            assert self.link is not None
            await self.link.exchange()
        except BaseException as error:
            await self._nodes.aclose()
            told = await asyncio.to_thread(refusal, settings, shards, error)
            if told is None:
                raise
            raise told from None
        self.link.start()

    def _check_start_once(self) -> None:
        """Without it (an old page, a ``None``) nobody would ever run ``start()``."""
        from crawler.frontier.start import StartOnce

        if self.crawler.get_spider_middleware(StartOnce) is None:
            path = f"crawler.frontier.{StartOnce.__name__}"
            remedy = f'without {path} the frontier never hears that start() is done: add "{path}": 10'
            raise ConfigError("SPIDER_MIDDLEWARES", self.crawler.settings.getdict("SPIDER_MIDDLEWARES"), remedy)

    @property
    def base(self) -> str:
        """Base of this frontier's keys."""
        assert self._keys is not None
        return self._keys.frontier

    async def client(self) -> Redis | None:
        """A client of the server that holds the run's keys; None when the frontier is not open."""
        return await self._nodes.client(self.base) if self._nodes is not None else None

    async def _join(self, shards: Sequence[Keys]) -> Run:
        assert self._nodes is not None
        versions = f"payload={payload.VERSION} fingerprint={version_of(self.crawler.request_fingerprinter)}"
        self._runs = Runs(self._nodes, shards, self.worker_name, versions)
        empty = self.policy.flush or not self.policy.persist
        assert self._memory is not None
        return await self._runs.join(self.policy.run, empty, self._memory.clear)

    def _begin(self, spider: Spider, shards: Sequence[Keys], admission: Any) -> None:
        """Builds the worker and its link, and listens to the engine."""
        assert self._run is not None
        assert self._nodes is not None
        crawler = self.crawler
        hooks.pace_by_frontier(crawler)
        self.worker = Worker(crawler, spider, self.policy, self.worker_name, self._run.number, admission)
        stop_polling(crawler, spider)
        send = carrier(
            self._nodes, crawler.settings, spider, self.policy, shards, admission, self.worker.seed_fault.look
        )
        self.link = Link(self, send, self._crashed)
        self.worker.kick = self.worker.admissions.kick = self.link.kick
        self._farewell = farewell = Farewell(crawler, self.worker, self.link, self.policy.grace)
        self.start = StartClaim(self.worker, self.link.kick, lambda: self._over or farewell.begun)
        hooks.install(crawler, self)
        crawler.signals.connect(self.worker.failures.on_spider_error, signal=signals.spider_error)
        crawler.signals.connect(self.worker.failures.on_item_error, signal=signals.item_error)
        crawler.signals.connect(self.worker.on_robots_txt, signal=signals.robots_parsed)

    def downloaded(self, request: Request, result: Any) -> None:
        """See :class:`crawler.frontier.hooks.Listener`."""
        assert self.worker is not None
        self.worker.failures.downloaded(request, result)

    def removed(self, request: Request) -> None:
        """See :class:`crawler.frontier.hooks.Listener`."""
        assert self.worker is not None
        self.worker.removed(request)

    def _trapped(self, request: Request) -> bool:
        if not repeats(request.url, self.policy.max_repeats):
            return False
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(f"frontier/dropped/{REPEATED}")
        return True

    # The exchange's side.
    def collect(self, seq: int) -> Message:
        """See :class:`crawler.frontier.link.Side`."""
        assert self.worker is not None
        return self.worker.collect(seq)

    def apply(self, message: Message, reply: Any) -> None:
        """See :class:`crawler.frontier.link.Side`."""
        assert self.worker is not None
        self.worker.apply(message, reply)
        if reply.state == "lost":
            self._end("frontier_lost", "The frontier in Redis is gone or was flushed: this worker stops")
        elif self._ending is None:
            self._over = reply.state == "finished"  # an idle handler may have begun it again
        if self._over and self.start is not None:
            self.start.release()
        drained = self.worker.stuck or (self.worker.admissions.full and not reply.queued)
        if (drained or reply.state == "full") and not self.worker.ledger.running:
            self._end("bloom_full", _FULL.format(self.crawler.settings.get("BLOOM_CAPACITY")))
        self._wake_engine()

    def delay(self) -> float:
        """See :class:`crawler.frontier.link.Side`."""
        assert self.worker is not None
        return self.worker.delay()

    def _wake_engine(self) -> None:
        """The engine looks by itself only every 5 s: it is called when something may start, now or at its time."""
        slot: Any = self.crawler.engine._slot
        if slot is None or self.worker is None or not self.crawler.engine.running:  # it looks by itself when it starts
            return
        slot.nextcall.schedule()
        start = self.worker.inbox.next_start()
        if self._wake_call is not None:
            self._wake_call.cancel()
            self._wake_call = None
        if start is not None:
            self._wake_call = asyncio.get_running_loop().call_at(start, self._wake_engine)

    def _end(self, reason: str, text: str) -> None:
        if self._ending is not None:
            return
        self._over = True
        logger.error(text)
        self._ending = asyncio.ensure_future(self.crawler.engine.close_spider_async(reason=reason))

    async def _crashed(self, error: BaseException) -> None:
        assert self._keys is not None
        shards = self._keys.spread(self.policy.shards)
        told = await asyncio.to_thread(refusal, self.crawler.settings, shards, error)
        self._refused = told is not None
        self._end("frontier_error", f"The frontier's exchange ended: {told or f'{type(error).__name__}: {error}'}")

    # Close.
    def closing(self) -> None:
        """The engine closes: the unstarted go back at once, the started may finish within the grace period."""
        if self._farewell is not None:
            self._farewell.begin()
        if self.start is not None:
            self.start.release()

    async def _close(self, reason: str) -> None:
        if self._farewell is None or self._nodes is None:
            return
        if self._wake_call is not None:
            self._wake_call.cancel()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._say_goodbye(self._farewell, full=reason == "bloom_full")
        except (TimeoutError, RedisError, OSError) as error:
            logger.error(
                "The frontier did not hear the last news (%s): its leases will run out by themselves",
                str(error) or "time-out",
            )
        self._farewell.said = True
        nodes, self._nodes = self._nodes, None
        await nodes.aclose()
        if self._memory is not None:
            self._memory.close(reason)

    async def _say_goodbye(self, farewell: Farewell, *, full: bool) -> None:
        assert self.link is not None
        await self.link.stop()
        if self._refused:
            return  # and so it would be again: the leases run out by themselves
        last = await farewell.say(full=full)
        if last.state == "finished" and not self.policy.persist:
            assert self._runs is not None
            assert self._run is not None
            assert self._memory is not None
            await self._runs.retire(self._run, self._memory.clear)


def shared_scheduler(crawler: Crawler) -> Scheduler | None:
    """The crawler's scheduler if it is the shared frontier (``isinstance`` says yes to every scheduler of Scrapy's)."""
    found = crawler.engine.scheduler
    return found if Scheduler in type(found).__mro__ else None  # type: ignore[return-value]
