"""How many leases a worker asks for: enough for its free slots and the time to the next exchange, and no more."""

from __future__ import annotations

from collections.abc import Callable

from crawler.frontier.inbox import Inbox
from crawler.frontier.ledger import Held, Ledger
from crawler.frontier.policy import Policy

_COVER = 0.5  # seconds of work that the inbox should hold
_SOON = 0.05  # seconds of work below which the inbox may run dry before the next exchange
_LOOK = 0.01  # seconds between two looks: each goes through the hosts of what waits
_MEASURED_OVER = 0.2  # seconds between two looks at the rate


class Appetite:
    """Free slots, the rate of finished requests, and what each host may still start here."""

    def __init__(self, policy: Policy, ledger: Ledger, inbox: Inbox[Held], clock: Callable[[], float]) -> None:
        self._policy, self._ledger, self._inbox, self._clock = policy, ledger, inbox, clock
        self._rate, self._since, self._finished = 0.0, clock(), 0
        self._looked = 0.0

    def limit(self, host: str) -> int:
        """Requests of a host that may be under way in this worker."""
        own = self._policy.hosts.get(host)
        return own[1] if own else self._policy.concurrency

    def may_start(self, host: str) -> bool:
        """Whether the host has a free place here; without this a slow host would fill the downloader's slots."""
        return self._ledger.load(host) < self.limit(host)

    @property
    def ahead(self) -> int:
        """Leases to hold beyond the free slots: half a second's work, never more than ends well within a lease."""
        within_lease = round(self._rate * self._policy.lease / 4000)
        return min(max(2, round(self._rate * _COVER)), 4 * self._policy.capacity, max(2, within_lease))

    def _stock(self, ended: float) -> int:
        """How many of what waits may start while `ended` requests end.

        A host lets start what fits into its free places, and into those that come free: as many of all that do as it
        has of all that run. More of a slow host helps nobody's slot.
        """
        freed = ended / max(1, self._ledger.downloading)
        stock = 0
        for host, waiting in self._inbox.hosts():
            load = self._ledger.load(host)
            stock += min(waiting, max(0, self.limit(host) - load) + round(load * freed))
        return stock

    @property
    def wanted(self) -> int:
        """Leases to ask for: what lacks for the free slots and the time ahead."""
        ahead = self.ahead
        return max(0, self._policy.capacity - self._ledger.downloading + ahead - self._stock(ahead))

    @property
    def hungry(self) -> bool:
        """Whether more should be asked for, if there is more; asking for each that starts would be a call for each."""
        return self.wanted > self.ahead // 2

    def notices_hunger(self) -> bool:
        """The same for those who ask often: it looks a hundred times a second at most."""
        now = self._clock()
        if now - self._looked < _LOOK:
            return False
        self._looked = now
        return self.hungry

    @property
    def starving(self) -> bool:
        """Whether slots are free, or will be before the next exchange, that nothing here can fill."""
        free, soon = max(0, self._policy.capacity - self._ledger.at_risk), self._rate * _SOON
        return self._stock(soon) < max(1, free + soon)

    def enough(self) -> list[str]:
        """Hosts of which this worker holds as many as it should."""
        return [
            host
            for host, waiting in self._inbox.hosts()
            if waiting + self._ledger.load(host) >= self.limit(host) + self.ahead
        ]

    def measure(self) -> None:
        """Takes the rate of finished requests, smoothed over about a second."""
        elapsed = self._clock() - self._since
        if elapsed < _MEASURED_OVER:
            return
        rate = (self._ledger.finished - self._finished) / elapsed
        self._rate += min(1.0, elapsed) * (rate - self._rate)
        self._since, self._finished = self._clock(), self._ledger.finished
