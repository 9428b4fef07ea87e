"""The claim on ``start()``: who loses it waits, for whoever took it over may die as well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from scrapy import Request

from crawler.frontier.claim import StartClaim, StartWish
from crawler.frontier.outbox import Outbox


class Worker:
    """As much of a worker as the claim knows."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.start_wish = StartWish(self.outbox)
        self.reply: Any = None
        self.on_reply: Callable[[], None] = lambda: None

    def hear(self, start: str) -> None:
        self.reply = SimpleNamespace(start=start)
        self.on_reply()


async def started(worker: Worker, claim: StartClaim) -> asyncio.Task[bool]:
    """A worker that has the claim and the first start request, and then hears that another has it."""
    worker.hear("yours")
    assert await claim.claim()
    worker.outbox.add(("h", 7, b"1", b"1", 0, b"x"), Request("http://h/"))
    worker.hear("other")
    waiting = asyncio.create_task(claim.may_continue())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert worker.start_wish.text == "want"
    return waiting


def test_a_worker_asks_for_the_claim_with_its_first_message() -> None:
    async def main() -> None:
        worker = Worker()
        claim = StartClaim(worker, lambda: None, lambda: False)  # type: ignore[arg-type]
        assert worker.start_wish.message(0) == "want"
        worker.hear("yours")
        assert await claim.claim(), "no further exchange is needed"

    asyncio.run(main())


def test_who_waits_for_the_start_of_another_asks_for_no_exchange_of_its_own() -> None:
    """It would ask again with each reply, a hundred times a second, for as long as start() takes elsewhere."""

    async def main() -> None:
        worker, kicks = Worker(), []
        claim = StartClaim(worker, lambda: kicks.append(1), lambda: False)  # type: ignore[arg-type]
        waiting = asyncio.create_task(claim.claim())
        await asyncio.sleep(0)
        assert len(kicks) == 1, "nobody has told it yet"
        for _ in range(5):
            worker.hear("other")
            for _ in range(3):
                await asyncio.sleep(0)
        assert len(kicks) == 1
        worker.hear("yours")
        assert await waiting

    asyncio.run(main())


def test_who_lost_the_claim_goes_on_when_nobody_has_it_any_more() -> None:
    async def main() -> None:
        worker = Worker()
        claim = StartClaim(worker, lambda: None, lambda: False)  # type: ignore[arg-type]
        waiting = await started(worker, claim)
        worker.hear("yours")
        assert await waiting
        assert worker.start_wish.text == "hold"
        claim.done()
        assert worker.start_wish.message(0) == "hold", "the first request must be safe before it is told"
        assert worker.start_wish.message(1) == "done"

    asyncio.run(main())


def test_who_lost_the_claim_ends_when_start_was_done_or_the_crawl_is_over() -> None:
    async def main() -> None:
        worker, over = Worker(), [False]
        claim = StartClaim(worker, lambda: None, lambda: over[0])  # type: ignore[arg-type]
        waiting = await started(worker, claim)
        worker.hear("done")
        assert not await waiting
        assert worker.start_wish.text == ""
        waiting = await started(worker, claim)
        over[0] = True
        claim.release()
        assert not await waiting

    asyncio.run(main())


def test_who_hears_only_afterwards_that_another_was_done_does_not_go_on() -> None:
    """It was not heard of while another took the claim over and executed all of ``start()``."""

    async def main() -> None:
        worker = Worker()
        claim = StartClaim(worker, lambda: None, lambda: False)  # type: ignore[arg-type]
        worker.hear("yours")
        assert await claim.claim()
        assert await claim.may_continue()
        worker.hear("done")
        assert not await claim.may_continue()
        assert worker.start_wish.text == ""

    asyncio.run(main())
