"""What a worker's log says of hosts, keys and writes that went wrong, with the remedy."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawler.frontier.message import Reply

logger = logging.getLogger(__name__)

_TELLING = 5  # failures of a host in a row that are worth a line in the log
_QUIET = 10_000  # milliseconds without news from anybody
_FORGOTTEN = 3600  # seconds after which the frontier forgets a worker that it does not hear of (as exchange.lua)


class Notices:
    """`give_up`, `backoff_max`, `lease`: seconds, FRONTIER_HOST_GIVE_UP, FRONTIER_BACKOFF_MAX, FRONTIER_LEASE."""

    def __init__(self, spider: str, give_up: float, backoff_max: float, lease: float) -> None:
        self._spider, self._give_up, self._backoff_max, self._lease = spider, give_up, backoff_max, lease
        self._waited = False
        self._told: set[str] = set()  # hosts that were said to fail, keys of a wrong type: once is enough

    def failed(self, host: str, times: int) -> None:
        """A host failed, so many times in a row."""
        if times == _TELLING and host not in self._told:
            self._told.add(host)
            logger.warning(
                "%s does not answer or asks to be left alone, %d times in a row: it is asked less and less often, "
                "every %g s at last (FRONTIER_BACKOFF_MAX); `scrapy frontier host` can block it",
                host, times, self._backoff_max,
            )  # fmt: skip

    def gone(self, hosts: Iterable[str]) -> None:
        """Hosts that were given up in this moment."""
        for host in hosts:
            logger.error(
                "%s is given up, it did not answer for FRONTIER_HOST_GIVE_UP=%g s: what is queued for it goes to the "
                "dead letters; `scrapy frontier requeue %s --reason 'given up'` tries them again",
                host, self._give_up, self._spider,
            )  # fmt: skip

    def waits(self, reply: Reply) -> None:
        """This worker has nothing. Whether the others are dead or slow no reply tells: once it is said what if."""
        if reply.leased and reply.next_due < 0 and reply.idle >= _QUIET and not (reply.paused or self._waited):
            self._waited = True
            logger.info(
                "Nothing may start here: other workers hold %d requests, %d wait for their sites to be free, and none "
                "was finished for %d s. If those workers were killed, these come back within FRONTIER_LEASE=%g s",
                reply.leased, reply.queued, reply.idle // 1000, self._lease,
            )  # fmt: skip

    def misfits(self, keys: Iterable[str]) -> None:
        """Keys of queues that something else wrote."""
        for key in set(keys) - self._told:
            self._told.add(key)
            logger.error(
                "%s in Redis is not a sorted set, something else wrote it: what was queued there is lost, what comes "
                "goes to the dead letters; rename or delete that key, then `scrapy frontier requeue %s --reason "
                "'not a sorted set'`", key, self._spider,
            )  # fmt: skip

    def rolled_back(self, silent: float, lost: int) -> None:
        """The frontier does not know this worker's last message; the one before was `silent` seconds ago."""
        if silent >= _FORGOTTEN:
            what = f"This worker was not heard of for {silent:.0f} s, so the frontier forgot it"
        else:
            what = "Redis lost its latest writes (a power cut, a failover): what happened since is done again"
        logger.error("%s; the %d requests that this worker held went back", what, lost)
