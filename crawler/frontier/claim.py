"""This worker's side of the claim on ``start()``: who executes it, how far it may run ahead, when it is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy import Request

from crawler.frontier.outbox import NOTHING, Outbox, Span

if TYPE_CHECKING:
    from crawler.frontier.worker import Worker

logger = logging.getLogger(__name__)

_BACKLOG = 1000  # start requests that may wait in memory
_OVER = ("done", "failed")


class StartWish:
    """What the worker's messages say of ``start()``.

    `text`: "want" the claim, "hold" it, "done", "failed" (the next worker that joins executes it again) or "": nothing.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.text = ""
        self._made, self._again = NOTHING, False

    @property
    def over(self) -> bool:
        """Whether ``start()`` has ended here, and the frontier has not heard of it."""
        return self.text in _OVER

    def end(self, made: Span, failed: bool) -> None:
        """``start()`` is exhausted, or raised; it made the requests of the span `made`."""
        self._made, self.text = made, "failed" if failed else "done"

    def message(self, batch: int) -> str:
        """What to say together with the first `batch` of the outbox: the end only with (or after) the last it made."""
        if self.over and self._outbox.needs(self._made, batch) is None:
            return "hold"
        return "failed" if self.text == "done" and self._again else self.text

    def heard(self, start: str) -> None:
        """Takes what the frontier says of ``start()``."""
        if start in _OVER:
            self.text, self._again = "", False

    def roll_back(self, start: str) -> None:
        """The server, which now says `start`, lost its latest writes: start requests may be among them."""
        told = self._made is not NOTHING and start not in _OVER
        if self.text in ("hold", "done") or told:
            self._again, self.text = True, self.text or "done"
            logger.error("Start requests may be lost: a worker that joins, or the next crawl, makes all of them again")


class StartClaim:
    """Asks for the claim, holds it while ``start()`` runs, and reports the end with the last start request."""

    def __init__(self, worker: Worker, kick: Callable[[], None], over: Callable[[], bool]) -> None:
        self._worker, self._kick, self._over = worker, kick, over
        self._changed = asyncio.Event()
        self._from: int | None = None  # where the outbox stood when the claim was first granted
        worker.on_reply = self._changed.set
        worker.start_wish.text = "want"  # with the worker's first message: one round trip less to its first request

    def release(self) -> None:
        """Whoever waits looks again: the crawl is over, or this worker closes."""
        self._changed.set()

    async def claim(self) -> bool:
        """True when this worker is to execute ``start()``; False when it was done or there is no crawl any more."""
        self._worker.start_wish.text = "want"
        while not self._over():
            reply = self._worker.reply
            if reply is not None and reply.start in ("yours", "done", "failed"):
                self._worker.start_wish.text = "hold" if reply.start == "yours" else ""
                self._from = self._worker.outbox.tail if self._from is None else self._from
                return reply.start == "yours"
            # While another executes start(), which may take hours, the usual exchanges tell soon enough that it ended.
            await self._next_reply(soon=reply is None or reply.start != "other")
        return False

    async def may_continue(self) -> bool:
        """Waits while too many start requests are not queued yet, or while another worker has the claim, which may die
        as well; False when ``start()`` was done elsewhere or the crawl is over."""
        while len(self._worker.outbox) > _BACKLOG and not self._over():
            await self._next_reply()
        reply = self._worker.reply
        if reply is not None and reply.start in ("other", "done"):
            return await self.claim()
        return reply is not None and not self._over()

    def note(self, request: Request) -> None:
        """The request comes from ``start()`` itself, not from a redirect or retry that inherited its meta."""
        self._worker.admissions.note_start_request(request)

    def done(self, failed: bool = False) -> None:
        """``start()`` is exhausted: to be told once all that it made is safe, requests that only run here included.

        `failed`: it raised. This crawl goes on with what it made; the next worker that joins executes it again.
        """
        self._worker.start_wish.end(Span(self._from or 0, self._worker.outbox.tail), failed)
        self._kick()

    async def _next_reply(self, *, soon: bool = True) -> None:
        self._changed.clear()
        if soon:
            self._kick()
        await self._changed.wait()
