"""Hosts' manners: Retry-After, what is worth telling, and links that lead nowhere new."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from crawler.frontier.hosts import HostNews, retry_after
from crawler.frontier.message import Lease, Message
from crawler.frontier.traps import repeats


@pytest.mark.parametrize(
    ("value", "seconds"), [("120", 120), (" 5 ", 5), ("0", 0), ("soon", 0), ("-3", 0), ("", 0), ("1.5", 0)]
)
def test_retry_after_in_seconds(value: str, seconds: float) -> None:
    assert retry_after(value) == seconds


def test_a_date_counts_from_the_hosts_own_clock() -> None:
    sent, until = "Mon, 30 Nov 2015 12:00:00 GMT", "Mon, 30 Nov 2015 12:01:30 GMT"
    assert retry_after(until, sent) == 90
    assert retry_after(until, "yesterday") == 0


def test_retry_after_as_a_date() -> None:
    now = datetime.now(UTC)
    assert 50 < retry_after(format_datetime(now + timedelta(seconds=60), usegmt=True)) <= 60
    assert retry_after(format_datetime(now - timedelta(seconds=60), usegmt=True)) == 0


def news(delay: float = 1.0) -> HostNews:
    return HostNews(delay, {"own": 5.0}, lambda: 100.0)


def told(hosts: HostNews) -> Message:
    message = Message("w", 1, "1")
    hosts.drain(message)
    return message


def test_a_success_is_told_only_after_a_failure() -> None:
    hosts = news()
    hosts.fine("a")
    assert told(hosts).health == []
    assert hosts.failed("a", started_at=98.5, retry_after=3) == 1
    hosts.fine("a")
    hosts.fine("a")
    assert told(hosts).health == [("a", 0, 1500, 3000), ("a", 1, 0, 0)]
    assert told(hosts).health == []


def test_failures_in_a_row_are_counted_until_a_success() -> None:
    hosts = news()
    assert [hosts.failed("a", 0.0), hosts.failed("b", 0.0), hosts.failed("a", 0.0)] == [1, 1, 2]
    hosts.fine("a")
    assert hosts.failed("a", 0.0) == 1


def test_a_lease_tells_the_delay_of_its_host() -> None:
    hosts = news()
    assert (hosts.delay("a"), hosts.delay("own")) == (1.0, 5.0)
    hosts.learn(Lease(b"1", 0, 0, "a", b"", delay=2500))
    assert hosts.delay("a") == 2.5
    hosts.learn(Lease(b"1", 0, 0, "a", b"", delay=1000))
    assert hosts.delay("a") == 1.0


def test_a_crawl_delay_counts_here_at_once_when_it_is_the_longer_one() -> None:
    """A host of nothing but files has no lease that would tell the delay which the frontier keeps."""
    hosts = news()
    for host in ("a", "own"):
        hosts.crawl_delay(host, 3.0)
    assert (hosts.delay("a"), hosts.delay("own")) == (3.0, 5.0)
    hosts.crawl_delay("a", 0.0)
    assert told(hosts).crawl_delays == [("a", 3000), ("own", 3000), ("a", 0)], "the frontier decides, and hears of all"


def test_a_delay_that_a_person_gave_a_host_wins_over_its_crawl_delay_here_too() -> None:
    hosts = news()
    hosts.learn(Lease(b"1", 0, 0, "a", b"", delay=500, own_delay=True))
    hosts.crawl_delay("a", 20.0)
    assert (hosts.delay("a"), told(hosts).crawl_delays) == (0.5, [("a", 20_000)])
    hosts.learn(Lease(b"2", 0, 0, "a", b"", delay=20_000))  # the person took it back
    hosts.crawl_delay("a", 25.0)
    assert hosts.delay("a") == 25.0


def test_a_spared_turn_is_told_only_where_turns_cost() -> None:
    hosts = news(delay=0)
    hosts.spared("a", 98.5)
    hosts.spared("own", 98.5)
    assert told(hosts).refunds == [("own", 1500)]


def test_the_turn_that_robots_txt_took_is_not_spared() -> None:
    """Else a page that robots.txt refuses lets the next one start right after robots.txt."""
    hosts = news()
    hosts.starts("a", 1.0)
    for _ in range(2):
        hosts.spared("a", 100.0)
    assert told(hosts).refunds == [("a", 0)], "of two that waited for it one had the turn"


@pytest.mark.parametrize(
    ("url", "limit", "trapped"),
    [
        ("https://h/a/b/a/b/a/b/a/b", 3, True),
        ("https://h/a/b/a/b/a/b", 3, False),
        ("https://h/a/a/a/a/", 3, True),
        ("https://h/1/1/1/1/1/", 3, False),  # a date or a number
        ("https://h//////x", 3, False),
        ("https://h/?a/a/a/a/a", 3, False),
        ("https://h/a/a/a/a/", 0, False),  # off
    ],
)
def test_repeated_path_segments(url: str, limit: int, trapped: bool) -> None:
    assert repeats(url, limit) == trapped
