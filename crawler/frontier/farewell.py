"""How a worker leaves: it starts nothing more, ends what runs within the grace period, then says good-bye.

What is not finished goes back to the frontier, and another worker fetches it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from crawler.frontier import hooks

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.frontier.link import Link
    from crawler.frontier.message import Reply
    from crawler.frontier.worker import Worker

logger = logging.getLogger(__name__)


class Farewell:
    """`grace`: seconds that requests under way may still take (``FRONTIER_GRACE``)."""

    def __init__(self, crawler: Crawler, worker: Worker, link: Link, grace: float) -> None:
        self._crawler, self._worker, self._link, self._grace = crawler, worker, link, grace
        self.begun = self.said = False

    def begin(self) -> None:
        """The unstarted go back at once, the started may finish within the grace period."""
        if self.begun:
            return
        self.begun = True
        self._worker.close()
        self._link.kick()
        asyncio.get_running_loop().call_later(self._grace, self._give_up)

    def _give_up(self) -> None:
        """The grace period is over: what still runs goes back, and whatever it yields from now on is nobody's."""
        if self.said:
            return
        worker = self._worker
        if running := worker.ledger.running:
            logger.warning("%d requests did not finish in FRONTIER_GRACE=%g s: given back", running, self._grace)
        worker.admissions.discarding = True
        worker.ledger.give_running()
        worker.locals.abandon()
        hooks.abandon(self._crawler)
        asyncio.get_running_loop().call_later(0.5, hooks.abandon_scraper, self._crawler)

    async def say(self, *, full: bool = False) -> Reply:
        """Tells the frontier the last things and gives back what was not finished; its last reply.

        `full`: it leaves because the memory is full, so nobody goes on; one that is stopped leaves the rest to others.
        """
        worker, link = self._worker, self._link
        self.begin()
        while len(worker.outbox) and not worker.admissions.full and (await link.exchange()).state != "lost":
            pass
        await link.exchange()  # acknowledges what waited for the last of the outbox
        worker.ledger.give_everything()
        worker.leaving, worker.ends_full = True, full
        return await link.exchange()
