"""A worker between engine and frontier, without either: what it starts, plants, gives back and acknowledges."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from twisted.internet.defer import Deferred

from crawler.canonical import canonical_host
from crawler.frontier import payload
from crawler.frontier.farewell import Farewell
from crawler.frontier.hooks import abandon_scraper
from crawler.frontier.message import Lease, Reply
from crawler.frontier.outbox import Span
from crawler.frontier.policy import Policy
from crawler.frontier.worker import Worker

SPIDER = Spider("spider")


class Rules:
    """As little as a fingerprinter needs."""

    def fingerprint(self, request: Request) -> bytes:
        if request.url.endswith("bad"):
            raise ValueError("no rule")
        return request.url.encode()

    def canonical_host(self, url: str) -> str:
        return canonical_host(url)


class Plain:
    def encode(self, fingerprint: bytes) -> bytes:
        return fingerprint


def worker_of(**more: Any) -> Worker:
    settings = Settings({"STATS_DUMP": False, **more})
    slot = SimpleNamespace(inprogress=set(), closing=None)
    crawler: Any = SimpleNamespace(
        settings=settings, request_fingerprinter=Rules(), engine=SimpleNamespace(_slot=slot), spider=SPIDER
    )
    crawler.stats = MemoryStatsCollector(crawler)
    return Worker(crawler, SPIDER, Policy.from_settings(settings), "w", "1", Plain())


def hear(worker: Worker, *leases: Lease, verdicts: bytes = b"", lost: tuple[bytes, ...] = (), now: int = 0) -> None:
    """One exchange whose answer is this."""
    seq = 1 if worker.reply is None else worker.reply.seq + 1
    reply = Reply(seq, now, verdicts, list(leases), list(lost), [], "running", 0, 0, 0, -1, "", False, 0, b"1", 0)
    worker.apply(worker.collect(seq), reply)


def lease(name: str) -> Lease:
    """A page of the one host; the id is the name."""
    return Lease(name.encode(), 0, 0, "h.example", payload.encode(Request(f"https://h.example/{name}"), SPIDER))


def test_after_a_rollback_with_shards_a_host_is_started_again() -> None:
    async def main() -> None:
        worker = worker_of(FRONTIER_SHARDS=2, CONCURRENT_REQUESTS_PER_DOMAIN=3)
        hear(worker, *(lease(f"1:{n}") for n in range(4)))
        old = [worker.next_request() for _ in range(3)]
        assert None not in old
        assert worker.next_request() is None, "the host has all of its places"
        hear(worker, lost=(b"0:*",))
        for request in old[:2]:
            assert request is not None
            worker.removed(request)
        hear(worker, *(lease(f"1:{n}") for n in range(4, 8)))
        new = [worker.next_request() for _ in range(4)]
        assert [request and request.url[-3:] for request in new] == ["1:4", "1:5", "1:6", None]
        assert old[2] is not None
        worker.removed(old[2])
        assert worker.next_request() is None, "the end of an old download frees no place"

    asyncio.run(main())


def test_a_worker_that_wakes_up_late_starts_nothing_that_may_be_anothers_by_now() -> None:
    async def main() -> None:
        worker = worker_of(FRONTIER_LEASE=10)
        hear(worker, lease("a"), lease("b"))
        clock = worker._clock
        worker._clock = lambda: clock() + 9
        assert worker.next_request() is not None, "in time"
        worker._clock = lambda: clock() + 11
        assert worker.next_request() is None
        hear(worker, lost=(b"a",))
        again = worker.next_request()
        assert again is not None, "renewed: the frontier still had it for this worker"
        assert again.url == "https://h.example/b"

    asyncio.run(main())


def test_after_a_rollback_the_letter_of_a_link_that_cannot_be_queued_is_written_again() -> None:
    async def main() -> None:
        worker = worker_of()

        def letters_of_a_page() -> int:
            worker.admissions.enqueue(Request("https://h.example/bad"))
            sent = len(worker.outbox)
            hear(worker, verdicts=b"1" * sent)
            return sent

        assert [letters_of_a_page() for _ in range(3)] == [1, 0, 0]
        hear(worker, lost=(b"*",))
        assert [letters_of_a_page() for _ in range(3)] == [1, 0, 0]

    asyncio.run(main())


def test_a_seed_that_comes_too_late_goes_back() -> None:
    """What a closing worker makes of it may never be sent."""

    async def main() -> None:
        worker = worker_of()
        worker.close()
        hear(worker, Lease(b"1", 0, 0, "", b"seed:https://h.example/"))
        message = worker.collect(2)
        assert (message.gives, message.acks, message.outbox) == ([b"1"], [], [])

    asyncio.run(main())


def test_a_seed_is_acknowledged_with_what_it_became() -> None:
    async def main() -> None:
        worker = worker_of()
        hear(worker, Lease(b"1", 0, 0, "", b"seed:https://h.example/"))
        message = worker.collect(2)
        assert (message.gives, [ack[:2] for ack in message.acks]) == ([], [(b"1", 1)])
        assert [entry[0] for entry in message.outbox] == ["h.example"]

    asyncio.run(main())


def test_the_end_of_the_grace_period_frees_no_parent_of_a_request_that_only_this_worker_can_run() -> None:
    async def main() -> None:
        worker = worker_of()
        worker.admissions.enqueue(Request("https://h.example/", meta={"lock": object()}))
        hear(worker, verdicts=b"1")
        request = worker.next_request()
        assert request is not None
        farewell = Farewell(worker._crawler, worker, SimpleNamespace(kick=lambda: None), grace=60)  # type: ignore[arg-type]
        farewell.begin()
        farewell._give_up()
        worker.removed(request)
        message = worker.collect(2)
        assert (message.locals, message.busy) == ([], False)
        assert worker.outbox.needs(Span(0, 1), 0) is None, "its parent goes back"

    asyncio.run(main())


def test_a_scraper_that_has_closed_before_it_is_abandoned_is_left_alone() -> None:
    """While a worker still says good-bye to a slow server."""
    closing: Deferred[None] = Deferred()
    closing.callback(None)
    scraper = SimpleNamespace(slot=SimpleNamespace(closing=closing))
    abandon_scraper(SimpleNamespace(engine=SimpleNamespace(scraper=scraper), spider=SPIDER))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "asked", "told"),
    [({}, 9.0, 9000), ({}, 99.0, 30_000), ({"FRONTIER_CRAWL_DELAY_MAX": 0}, 9.0, 0), ({}, None, None)],
)
def test_the_crawl_delay_for_the_bots_name_counts_up_to_a_limit(
    settings: dict[str, Any], asked: float | None, told: int | None
) -> None:
    async def main() -> None:
        worker = worker_of(ROBOTSTXT_USER_AGENT="mybot", DOWNLOAD_SLOTS={"h.example": {"delay": 1}}, **settings)
        rules = SimpleNamespace(crawl_delay={"mybot": asked, "other": 1.0}.get)
        worker.on_robots_txt(rules, Request("https://h.example/"))
        assert worker.collect(1).crawl_delays == [("h.example", told or 0)]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("silent", "line"),
    [
        (3_599_000, "Redis lost its latest writes (a power cut, a failover): what happened since is done again; the 1"),
        (3_601_000, "This worker was not heard of for 3601 s, so the frontier forgot it; the 1"),
    ],
)
def test_what_is_said_of_leases_that_went_back(silent: int, line: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        worker = worker_of()
        hear(worker, lease("1"), now=1000)
        hear(worker, lost=(b"*",), now=1000 + silent)
        assert worker.next_request() is None

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == [f"{line} requests that this worker held went back"]


def test_a_queue_of_a_wrong_type_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        worker = worker_of()
        for seq in (1, 2):
            reply = Reply(seq, 0, b"", [], [], [], "running", 0, 0, 0, -1, "", False, 0, b"1", 0, misfits=["B:queue:h"])
            worker.apply(worker.collect(seq), reply)

    asyncio.run(main())
    [record] = caplog.records
    assert record.getMessage().startswith("B:queue:h in Redis is not a sorted set, something else wrote it")
    assert "`scrapy frontier requeue spider --reason 'not a sorted set'`" in record.getMessage()


def test_a_host_that_says_not_now_to_media_is_left_alone_too() -> None:
    async def main() -> None:
        worker = worker_of(FRONTIER_HOST_DELAY=1)
        hear(worker, lease("1"))
        image = Request("https://h.example/image")
        worker.reaches_host(image, worker._clock())
        worker.host_failed(image)
        assert worker.collect(2).health == [], "how a host is, its pages tell"
        worker.host_failed(image, retry_after=120)
        message = worker.collect(2)
        [(host, fine, ago, retry_after)] = message.health
        assert (host, fine, retry_after, message.gives) == ("h.example", 0, 120_000, [b"1"])
        assert 0 <= ago < 1000

    asyncio.run(main())


@pytest.mark.parametrize(
    ("more", "held", "told"),
    [
        ({}, 0, True),
        ({"idle": 9_000}, 0, False),  # somebody finished something lately
        ({"leased": 0}, 0, False),
        ({"next_due": 3000}, 0, False),  # a host only waits for its turn
        ({"paused": True}, 0, False),
        ({}, 1, False),  # it is this worker that holds it
    ],
    ids=["waits", "news", "none-leased", "due", "paused", "own"],
)
def test_a_worker_that_waits_for_what_others_hold_says_so_once(
    more: dict[str, Any], held: int, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        worker = worker_of(FRONTIER_LEASE=60)
        hear(worker, *(lease(str(n)) for n in range(held)))
        assert worker.reply is not None
        reply = replace(worker.reply, **{"leased": 5, "queued": 3, "idle": 12_000, "leases": [], **more})
        for _ in range(2):
            worker.apply(worker.collect(2), reply)

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == told
    for line in lines:
        assert "other workers hold 5 requests, 3 wait for their sites" in line
        assert "none was finished for 12 s" in line
        assert line.endswith("come back within FRONTIER_LEASE=60 s")
