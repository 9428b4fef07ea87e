"""When a finished request may be acknowledged: not before everything it produced is confirmed."""

from __future__ import annotations

import pytest
from scrapy import Request

from crawler.frontier.ledger import Ledger
from crawler.frontier.local import Locals
from crawler.frontier.message import LOCAL, NEW, SEEN, Lease
from crawler.frontier.outbox import Outbox, Span


def put(outbox: Outbox, *urls: str, flags: int = 0) -> None:
    for url in urls:
        outbox.add(("h", flags, b"", url.encode(), 0, b""), Request(f"https://h.example/{url}"))


class TestOutbox:
    def test_entries_stay_until_confirmed(self) -> None:
        outbox = Outbox()
        put(outbox, "a", "b", "c")
        assert [admission[3] for admission in outbox.batch(2)] == [b"a", b"b"]
        assert [admission[3] for admission in outbox.batch(2)] == [b"a", b"b"]
        confirmed = [(entry.admission[3], verdict) for entry, verdict in outbox.confirm(b"10")]
        assert confirmed == [(b"a", NEW), (b"b", SEEN)]
        assert [admission[3] for admission in outbox.batch(2)] == [b"c"]

    def test_a_full_memory_keeps_the_rest(self) -> None:
        outbox = Outbox()
        put(outbox, "a", "b", "c")
        assert len(list(outbox.confirm(b"122"))) == 1
        assert [admission[3] for admission in outbox.batch(9)] == [b"b", b"c"]

    @pytest.mark.parametrize(
        ("span", "batch", "needed"),
        [
            (Span(0, 0), 0, 0),  # produced nothing
            (Span(0, 2), 0, 0),  # 1 and 2 are confirmed already
            (Span(0, 3), 1, 1),  # goes together with entry 3
            (Span(0, 4), 1, None),  # entry 4 is not in this batch
            (Span(0, 4), 2, 2),
        ],
    )
    def test_how_many_entries_an_ack_waits_for(self, span: Span, batch: int, needed: int | None) -> None:
        outbox = Outbox()
        put(outbox, "1", "2", "3", "4")
        assert len(list(outbox.confirm(b"11"))) == 2
        assert outbox.needs(span, batch) == needed

    def test_an_ack_waits_for_local_only_children_of_its_own_time(self) -> None:
        outbox = Outbox()
        put(outbox, "1")
        put(outbox, "2", flags=LOCAL)
        put(outbox, "3")
        assert len(list(outbox.confirm(b"111"))) == 3
        assert outbox.needs(Span(0, 3), 0) is None
        assert outbox.needs(Span(2, 3), 0) == 0  # started after the local one was made: not its parent
        outbox.local_done(2)
        assert outbox.needs(Span(0, 3), 0) == 0

    def test_a_seen_local_only_request_holds_nobody_up(self) -> None:
        outbox = Outbox()
        put(outbox, "1", flags=LOCAL)
        assert len(list(outbox.confirm(b"0"))) == 1
        assert outbox.needs(Span(0, 1), 0) == 0


def test_local_only_requests_that_made_each_other_do_not_wait_in_a_ring() -> None:
    outbox, locals_ = Outbox(), Locals()
    put(outbox, "1", "2", flags=LOCAL)
    for entry, verdict in outbox.confirm(b"11"):
        assert verdict == NEW
        locals_.admit(entry)
    first, second = locals_.take(outbox.tail), locals_.take(outbox.tail)
    assert first is not None
    assert second is not None
    assert locals_.end(first, outbox.tail)
    assert locals_.end(second, outbox.tail)
    assert locals_.settled(outbox) == [b"1", b"2"]
    assert outbox.needs(Span(0, 2), 0) == 0
    assert len(locals_) == 0


def test_a_local_only_request_that_is_cut_off_does_not_free_its_parent() -> None:
    outbox, locals_ = Outbox(), Locals()
    put(outbox, "1", "2", "3", flags=LOCAL)
    for entry, _ in outbox.confirm(b"111"):
        locals_.admit(entry)
    done, running = locals_.take(outbox.tail), locals_.take(outbox.tail)
    assert done is not None
    assert running is not None
    locals_.end(done, outbox.tail)
    locals_.abandon()
    assert locals_.take(outbox.tail) is None
    assert not locals_.end(running, outbox.tail), "it ends because the worker closes, whatever it made is nobody's"
    assert locals_.settled(outbox) == [b"1"], "what was finished in time counts"
    assert [outbox.needs(Span(n, n + 1), 0) for n in range(3)] == [0, None, None]


def leased(ledger: Ledger, name: str) -> Request:
    request = Request(f"https://h.example/{name}")
    ledger.begin(ledger.add(Lease(name.encode(), 0, 0, "h", b""), 0.0), request, 0)
    return request


class TestLedger:
    def test_the_request_object_is_the_key_not_its_url_or_meta(self) -> None:
        ledger = Ledger()
        request = leased(ledger, "1")
        assert ledger.end(request.copy(), 0) is None  # what a redirect or retry makes of it is another request
        assert ledger.end(request, 0) is not None

    def test_acks_carry_the_reason_of_a_failure(self) -> None:
        ledger, outbox = Ledger(), Outbox()
        request = leased(ledger, "1")
        held = ledger.end(request, 0)
        assert held is not None
        held.reason, held.url = "callback: ValueError", request.url
        assert ledger.acks(outbox, 0) == [(b"1", 0, "callback: ValueError", "https://h.example/1", b"")]
        ledger.settled([b"1"], [])
        assert ledger.acks(outbox, 0) == []
        assert len(ledger) == 0

    def test_a_lost_lease_is_not_acknowledged(self) -> None:
        ledger, outbox = Ledger(), Outbox()
        request = leased(ledger, "1")
        assert ledger.lose([b"1"]) == 1
        assert ledger.end(request, 0) is not None
        assert ledger.acks(outbox, 0) == []
        assert ledger.lose([b"1"]) == 0

    def test_load_counts_until_the_response_is_there(self) -> None:
        ledger = Ledger()
        request = leased(ledger, "1")
        assert (ledger.load("h"), ledger.downloading, ledger.running, ledger.at_risk) == (1, 1, 1, 1)
        ledger.downloaded(request)
        assert (ledger.load("h"), ledger.downloading, ledger.running, ledger.at_risk) == (0, 0, 1, 1)
        ledger.end(request, 0)
        assert (ledger.load("h"), ledger.downloading, ledger.running, ledger.at_risk) == (0, 0, 0, 1)

    def test_what_still_runs_at_the_end_of_the_grace_period_goes_back(self) -> None:
        ledger, outbox = Ledger(), Outbox()
        running, done = leased(ledger, "1"), leased(ledger, "2")
        ledger.end(done, 0)
        ledger.give_running()
        assert ledger.gives() == [b"1"]
        assert [ack[0] for ack in ledger.acks(outbox, 0)] == [b"2"]
        assert ledger.end(running, 0) is None

    def test_leaving_gives_back_all_that_is_not_acknowledged(self) -> None:
        ledger, outbox = Ledger(), Outbox()
        leased(ledger, "1")
        ledger.end(leased(ledger, "2"), 5)
        ledger.add(Lease(b"3", 0, 0, "h", b""), 0.0)
        ledger.give_everything()
        assert sorted(ledger.gives()) == [b"1", b"2", b"3"]
        assert ledger.acks(outbox, 0) == []

    def test_what_is_given_back_takes_no_place_at_its_host(self) -> None:
        """After a rollback the worker goes on, and its host is asked again while the old downloads still end."""
        ledger = Ledger()
        old = [leased(ledger, name) for name in "123"]
        ledger.give_everything()
        assert (ledger.load("h"), ledger.downloading) == (0, 0)
        new = leased(ledger, "4")
        assert [ledger.end(request, 0) for request in old] == [None] * 3
        assert (ledger.load("h"), ledger.downloading) == (1, 1), "their ends free nobody's place"
        ledger.end(new, 0)
        assert (ledger.load("h"), ledger.downloading) == (0, 0)


def test_a_request_that_made_nothing_waits_for_nothing() -> None:
    outbox = Outbox()
    outbox.add(("h", 3, b"", b"", 0, b"x"), Request("http://h/"))
    assert outbox.needs(Span(1, 1), 0) == 0
    assert outbox.needs(Span(0, 1), 0) is None
