"""What this worker learns about hosts while it crawls, on its way to the frontier, and what the frontier told it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from crawler.frontier.message import Lease, Message

_MANY = 10_000  # hosts, after which those of no use are dropped
_LONGEST = 1e9  # seconds of a Retry-After: sites write anything, and FRONTIER_BACKOFF_MAX decides


class HostNews:
    """News for the next message, and the delays that differ from the settings' one. Times are seconds."""

    def __init__(self, delay: float, delays: dict[str, float], clock: Callable[[], float]) -> None:
        self._default, self._delays, self._clock = delay, dict(delays), clock
        self._failing: dict[str, int] = {}  # host → failures in a row, as this worker saw them
        self._own: set[str] = set()  # hosts whose delay a person set
        self._taken: dict[str, float] = {}  # host → until when its turn is that of what no lease stands for
        self._asked: defaultdict[str, deque[asyncio.Future[float]]] = defaultdict(deque)  # host → waiting for a turn
        self._message = Message("", 0, "")

    def delay(self, host: str) -> float:
        """Between two requests of a host, as the frontier last said."""
        return self._delays.get(host, self._default)

    def learn(self, lease: Lease) -> None:
        """A lease tells its host's present delay (a person, a robots.txt may have changed it) and whether it fails."""
        if lease.failing:
            self._failing.setdefault(lease.host, 1)
        (self._own.add if lease.own_delay else self._own.discard)(lease.host)
        delay = lease.delay / 1000
        if delay != self.delay(lease.host):
            self._delays[lease.host] = delay

    def starts(self, host: str, next_in: float) -> None:
        """A host is asked outside its leases' plan: its next request may start in `next_in`."""
        self._message.started.append((host, round(1000 * next_in)))
        self._taken[host] = self._clock() + next_in
        if len(self._taken) > _MANY:
            self._taken = {host: until for host, until in self._taken.items() if until > self._clock()}

    def ask_turn(self, host: str) -> asyncio.Future[float]:
        """For what no lease stands for: the future tells when it may start, by this worker's clock."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._asked[host].append(future)
        self._message.turns.append(host)
        return future

    def turn(self, host: str, seconds: float) -> None:
        """The frontier has reserved a turn; who asked first has it."""
        future = self._asked[host].popleft()
        if not self._asked[host]:
            del self._asked[host]
        if not future.done():
            future.set_result(self._clock() + seconds)

    def spared(self, host: str, start_at: float) -> None:
        """A lease for `start_at` never reached its host: the turn was free, unless robots.txt took it."""
        if self.delay(host) and self._taken.pop(host, 0.0) <= self._clock():
            self._message.refunds.append((host, round(1000 * (self._clock() - start_at))))

    def crawl_delay(self, host: str, seconds: float) -> None:
        """robots.txt asks for this delay; 0: for none (any more)."""
        if seconds or host in self._delays:
            self._message.crawl_delays.append((host, round(1000 * seconds)))
        if seconds > self.delay(host) and host not in self._own:  # now, and where no lease will tell: nothing but files
            self._delays[host] = seconds

    def failed(self, host: str, started_at: float, retry_after: float = 0.0) -> int:
        """A request of a host failed, or it asked to be left alone for `retry_after`; how many did so in a row."""
        self._failing[host] = self._failing.get(host, 0) + 1
        ago = max(0, round(1000 * (self._clock() - started_at)))
        self._message.health.append((host, 0, ago, round(1000 * retry_after)))
        return self._failing[host]

    def fine(self, host: str) -> None:
        """A request of a host went well; worth telling only after a failure, of whichever worker."""
        if host in self._failing:
            del self._failing[host]
            self._message.health.append((host, 1, 0, 0))

    def drain(self, message: Message) -> None:
        """Puts the news into `message`."""
        news, self._message = self._message, Message("", 0, "")
        message.started, message.turns, message.refunds = news.started, news.turns, news.refunds
        message.crawl_delays, message.health = news.crawl_delays, news.health


def retry_after(value: str, sent: str = "") -> float:
    """Seconds of a Retry-After header, which gives seconds or a date (RFC 9110, 10.2.3); 0 when it says neither.

    A date counts from `sent`, the response's own Date header: the host's clock and this machine's may differ.
    """
    text = value.strip()
    if text.isdecimal():
        return min(float(text), _LONGEST)
    try:
        until = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    try:
        now = parsedate_to_datetime(sent).timestamp()
    except (ValueError, OverflowError):
        now = time.time()
    return min(max(0.0, until - now), _LONGEST)
