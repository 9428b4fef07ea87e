"""What one worker knows and does between Scrapy's engine and the exchange: it fills messages and takes replies.

Nothing here blocks, and nothing that the engine calls raises.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Request

from crawler import config
from crawler.feeds import flush_feeds
from crawler.frontier import payload
from crawler.frontier.admissions import Admissions, Admitter
from crawler.frontier.appetite import Appetite
from crawler.frontier.claim import StartWish
from crawler.frontier.failures import FailureReasons, Failures
from crawler.frontier.hosts import HostNews
from crawler.frontier.inbox import Inbox
from crawler.frontier.ledger import Held, Ledger
from crawler.frontier.message import BATCH, SEED, Message, Reply
from crawler.frontier.notices import Notices
from crawler.frontier.planting import Planting
from crawler.frontier.policy import Policy, host_delays
from crawler.frontier.seedkey import SeedFault
from crawler.frontier.seeds import SeedError
from crawler.frontier.traps import Drops

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_TICK, _IDLE = 0.05, 0.2  # seconds between exchanges with and without news
_MOST_WAITING = 2000  # admissions that wait for a full memory: more pages would only bring more of them
_AHEAD = 0.05  # seconds before a host is due that it is asked for


class Worker:
    """The state of one worker; see :class:`crawler.frontier.link.Link` for who calls `collect` and `apply`."""

    def __init__(
        self, crawler: Crawler, spider: Spider, policy: Policy, name: str, run: str, admitter: Admitter | None
    ) -> None:
        self._crawler, self._spider, self._policy = crawler, spider, policy
        self.name, self._run = name, run
        assert crawler.stats is not None
        self._stats = crawler.stats
        self._clock = asyncio.get_running_loop().time
        self.admissions = Admissions(crawler, spider, admitter)
        self.outbox, self.locals = self.admissions.outbox, self.admissions.locals
        self.ledger = Ledger()
        self.inbox: Inbox[Held] = Inbox(self._clock)
        self._forget_failed = config.flag(crawler.settings, "DEDUP_FORGET_FAILED", False)
        self._drops = Drops(self._stats)
        self.failures = Failures(self.ledger, FailureReasons(crawler.settings, spider))
        delay, delays = host_delays(crawler.settings)
        self.hosts = HostNews(delay, delays, self._clock)
        self._notices = Notices(spider.name, policy.give_up / 1000, policy.backoff_max / 1000, policy.lease / 1000)
        self.seed_fault = SeedFault(crawler.settings, spider)
        self._planting = Planting(spider, self.admissions, self.ledger)
        self._ack_in_time = max(1, policy.capacity // 4)  # acks that are worth an exchange at once
        self._renewed = self._kept = self._clock()  # when renewal was last asked for, and that of what was granted
        self._appetite = Appetite(policy, self.ledger, self.inbox, self._clock)
        self._acks_follow = False  # the last exchange confirmed what acks may have waited for
        self._rollbacks = 0
        self._rich = True  # the last exchange gave as much as was wanted: there is probably more
        self._unleased: WeakKeyDictionary[Request, float] = WeakKeyDictionary()  # request → when its host was asked
        self.start_wish = StartWish(self.outbox)
        self.reply: Reply | None = None
        self.leaving = self.ends_full = False
        self._closing = asyncio.Event()
        self.on_reply: Callable[[], None] = lambda: None
        self.kick: Callable[[], None] = lambda: None

    # From the engine.
    def next_request(self) -> Request | None:
        """The next request that may start now. Never raises, never blocks."""
        if self._closing.is_set() or (self.reply is not None and self.reply.paused):
            return None
        request = self.locals.take(self.outbox.tail)
        # A kill must not cost more than CONCURRENT_REQUESTS pages: first the acks, then new ones.
        while request is None and (self.admissions.full or self.ledger.at_risk < self._policy.capacity):
            if self._overdue:
                break
            held = self.inbox.take(self._appetite.may_start)
            if held is None:
                break
            request = self._open(held)
        if self._rich and self._appetite.notices_hunger():
            self.kick()
        if request is not None:
            self._stats.inc_value("scheduler/dequeued")
        return request

    @property
    def _overdue(self) -> bool:
        """Whether others may have these leases by now: this worker was stopped or cut off for as long as they last."""
        return self._clock() - self._kept > self._policy.lease / 1000

    def _open(self, held: Held) -> Request | None:
        if not self.ledger.holds(held):
            return None
        try:
            request = payload.decode(held.lease.payload, self._spider)
        except payload.PayloadError as error:
            logger.error("A queued request can't be read and goes to the dead letters: %s", error)
            if self._forget_failed:
                held.forget = self.admissions.item_of_payload(held.lease.payload)
            self._fail(held, f"payload: {error}")
            return None
        self.ledger.begin(held, request, self.outbox.tail)
        return request

    def _fail(self, held: Held, reason: str) -> None:
        self._stats.inc_value("frontier/failed")
        self.ledger.refuse(held, reason)

    def removed(self, request: Request) -> None:
        """The engine is done with a request, callbacks and pipelines included."""
        held = self.ledger.end(request, self.outbox.tail)
        if held is None:
            self.locals.end(request, self.outbox.tail)
            return
        if held.reached_at is None and not held.give:
            self.hosts.spared(held.lease.host, held.start_at)
        if held.reason:
            held.url = request.url
            if self._forget_failed:
                held.forget, held.trail = self.admissions.item_of(request), self.admissions.trail_of(request)
            self._stats.inc_value("frontier/failed")
        if self.ledger.unsettled >= self._ack_in_time or not self.ledger.running:
            self.kick()

    def on_robots_txt(self, robotparser: Any, request: Request) -> None:
        """Signal handler: a host's robots.txt is known; its Crawl-delay counts up to FRONTIER_CRAWL_DELAY_MAX."""
        settings = self._crawler.settings
        agent = settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT")
        asked = robotparser.crawl_delay(agent) or 0.0
        delay = min(asked, self._policy.crawl_delay_max) if asked > 0 else 0.0  # a site may write nan or -1
        self.hosts.crawl_delay(self.admissions.host_of(request), delay)

    # From the politeness gate and start requests.
    def planned(self, request: Request) -> float | None:
        """When a request's lease lets it start (the loop's clock); None for robots.txt, media, ..., which have none."""
        held = self.ledger.by_request(request)
        return None if held is None else held.start_at

    def reaches_host(self, request: Request, start: float) -> None:
        """A request is about to be sent at `start` (the loop's clock)."""
        held = self.ledger.by_request(request)
        if held is not None:
            held.reached_at = start
        else:
            self._unleased[request] = start

    def host_failed(self, request: Request, retry_after: float = 0.0) -> None:
        """The host of a request does not answer, or asks to be left alone; what waits here for it goes back."""
        held = self.ledger.by_request(request)
        if held is not None:
            host, reached_at = held.lease.host, held.reached_at
        else:  # robots.txt, media, ...: pages tell how a host is, but "not now" counts whoever hears it
            host = self.admissions.host_of(request)
            reached_at = self._unleased.get(request) if retry_after else None
        if reached_at is None:
            return
        self._notices.failed(host, self.hosts.failed(host, reached_at, retry_after))
        self.ledger.give(self.inbox.remove(host))
        self.kick()

    def give_back(self, request: Request) -> None:
        """The request was not started: its lease goes back."""
        held = self.ledger.by_request(request)
        if held is not None:
            held.give = True

    async def sleep(self, seconds: float) -> bool:
        """Waits; False as soon as the worker closes."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        """Starts nothing more; the unstarted go back with the next exchange."""
        self._closing.set()
        self.ledger.give(self.inbox.clear())

    # The exchange.
    def collect(self, seq: int) -> Message:
        """Everything the frontier should hear now."""
        batch = [] if self.admissions.full else self.outbox.batch(BATCH)
        local_done = self.locals.settled(self.outbox)
        with_acks = len(batch) if self._policy.together else 0
        message = Message(
            worker=self.name, seq=seq, run=self._run, outbox=batch, locals=local_done, full=self.ends_full,
            bye=self.leaving, acks=self.ledger.acks(self.outbox, with_acks), gives=self.ledger.gives(),
            held=len(self.ledger), finished=self.ledger.finished, failed=self._stats.get_value("frontier/failed", 0),
            dropped=self._drops.news(),
        )  # fmt: skip
        message.forgets = self.ledger.trails(message.acks)
        if message.acks or local_done or self.start_wish.over:
            flush_feeds()  # an item must not be lost when its page is done
        if self._clock() - self._renewed > self._policy.lease / 3000:
            leaving = {ack[0] for ack in message.acks}.union(message.gives)
            message.renew = [lease_id for lease_id in self.ledger.ids() if lease_id not in leaving]
            self._renewed = self._clock()
        self.hosts.drain(message)
        message.start = self.start_wish.message(with_acks)
        self._appetite.measure()
        if not (self._closing.is_set() or self.stuck):
            message.want, message.skip = self._appetite.wanted, self._appetite.enough()
            message.ahead = self._appetite.ahead
            queued = self.reply.queued if self.reply is not None else 0
            message.seeds = self._planting.wanted(queued, self._policy.capacity)
        message.busy = bool(len(self.outbox) > with_acks or len(self.locals))
        return message

    def apply(self, message: Message, reply: Reply) -> None:
        """Takes the frontier's answer to `message`."""
        self._kept = self._renewed
        rolled_back = [lease_id for lease_id in reply.lost if lease_id.endswith(b"*")]
        self._rollbacks += len(rolled_back)
        self.admissions.known.sync((self._run, reply.epoch, self._rollbacks))
        self.admissions.confirm(reply.verdicts)
        unacked = set(reply.unacked)
        self.ledger.settled((ack[0] for ack in message.acks if ack[0] not in unacked), message.gives)
        for lease_id in rolled_back:
            self._roll_back(lease_id[:-1], reply)
        if reply.lost and (lost := self.ledger.lose(reply.lost)):
            self._stats.inc_value("frontier/lease_lost", lost)
            logger.warning("%d leases went to another worker: this one was not heard of in time", lost)
        self.seed_fault.look(reply.odd_seeds)
        for host, in_ms in reply.turns:
            self.hosts.turn(host, in_ms / 1000)
        now = self._clock()
        for lease in reply.leases:
            held = self.ledger.add(lease, now + lease.in_ms / 1000)
            self.hosts.learn(lease)
            if lease.payload.startswith(SEED):
                self._plant(held)
            else:
                self.inbox.put(lease.host, held, held.start_at)
        if self._closing.is_set():
            self.ledger.give(self.inbox.clear())
        self._rich = bool(message.want) and len(reply.leases) >= message.want
        self._acks_follow = bool(reply.verdicts) and not self._policy.together and self.ledger.unsettled > 0
        self.reply = reply
        self.start_wish.heard(reply.start)
        self._notices.misfits(reply.misfits)
        self._notices.gone(reply.gone)
        if reply.gone:
            self._stats.inc_value("frontier/hosts_given_up", len(reply.gone))
        if not (len(self.ledger) or len(self.outbox) or len(self.locals) or self._closing.is_set()):
            self._notices.waits(reply)
        self.on_reply()

    def _roll_back(self, shard: bytes, reply: Reply) -> None:
        """The server lost its latest writes: what this worker holds there (ids that begin with `shard`) is void."""
        self.admissions.forget_buried()
        lost = self.ledger.lose(lease_id for lease_id in self.ledger.ids() if lease_id.startswith(shard))
        if not self._policy.together:  # what was produced by a request of another shard may be gone as well
            lost += len(self.ledger)
            self.inbox.clear()
            self.ledger.give_everything()
        self._stats.inc_value("frontier/lease_lost", lost)
        self.start_wish.roll_back(reply.start)
        silent = (reply.now - self.reply.now) / 1000 if self.reply is not None else 0.0
        self._notices.rolled_back(silent, lost)

    def _plant(self, held: Held) -> None:
        if self._closing.is_set():  # what it makes would be nobody's
            self.ledger.give([held])
            return
        try:
            self._planting.plant(held)
        except SeedError as error:
            logger.error("A seed goes to the dead letters: %s", error)
            self._fail(held, f"seed: {error}")

    @property
    def stuck(self) -> bool:
        """Whether the memory is full, and so much waits for room in it that no more is fetched."""
        return self.admissions.full and len(self.outbox) > _MOST_WAITING

    def delay(self) -> float:
        """Seconds until the next exchange is worth it."""
        reply = self.reply
        if self._closing.is_set() or reply is None:
            return _TICK
        hungry = self._appetite.hungry and not reply.paused
        if hungry and (self._rich or (len(self.outbox) and self._appetite.starving)):
            return 0.0
        if self.admissions.urgent or self._acks_follow:
            return 0.0
        pause = _TICK if len(self.outbox) or self.ledger.unsettled or len(self.locals) else _IDLE
        if hungry and reply.next_due >= 0:
            pause = min(pause, max(0.005, reply.next_due / 1000 - _AHEAD))
        return pause
