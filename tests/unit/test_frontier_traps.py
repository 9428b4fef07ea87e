"""Calendars without end are told from archives, ids and everything else that has numbers in its URL."""

from __future__ import annotations

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from crawler.frontier.traps import Drops, calendar_of

ODD = [
    "/2399/12/31", "/2572/01/01", "/1451/01/01", "/1249/01/01", "/1799/12/31", "/calendar/2031/05", "/calendar/2031",
    "/calendar/2031-5", "/calendar/05/2040/", "/month/99", "/week/123456",
    "/events/2031/05/12", "/2031-05-12", "/agenda/1066/10", "/calendar?month=13", "/calendar?month=123456",
    "/x?year=2050&month=3", "/x?date=2031-05-01&v=1", "/x?date=20310501", "/x?tribe-bar-date=2031-05",
    "/x?event_date=01.05.2040",
    "/x?date=1931-05-01T00:00&year=2040", "/x?day=1999999999", "/x?Month=14", "/x?semana=90",
]  # fmt: skip
USUAL = [
    "/", "/calendar/2026/05", "/calendar/2028/12/31", "/2014/05/12", "/2014/05/12/title", "/1850-01-02",
    "/archive/1923/04",
    "/product/2031", "/product/5000/12", "/shop/45678/12", "/2031", "/2031/05/12/the-future", "/forum/4031/02",
    "/calendar?month=5", "/x?date=1999-05-01", "/x?date=19990501", "/x?month=202605", "/x?day=1700000000", "/x?day=366",
    "/x?candidate=12345678", "/x?update=99999999", "/x?birthday=99999999", "/x?date=123",
    "/x?page=2031-05-01", "/x?id=20310501",
    "/2569/05/31", "/news/1405/2/1", "/archive/1405/02/01", "/calendar/1447/11", "/calendar/5786/1",
    "/x?date=2566-05-31", "/x?year=2570&month=3",
    "/x?yearbook=3000", "/day/5", "/date/tomorrow", "/x?date=", "/x?month", "/x?date=99999999999999999999",
]  # fmt: skip


@pytest.mark.parametrize("path", ODD)
def test_dates_that_nobody_needs(path: str) -> None:
    assert calendar_of(f"https://a.example{path}", 2026)


@pytest.mark.parametrize("path", USUAL)
def test_all_else_is_left_alone(path: str) -> None:
    assert calendar_of(f"https://a.example{path}", 2026) == ""


def test_pages_of_one_calendar_have_one_key_and_others_another() -> None:
    def keys(*paths: str) -> int:
        return len({calendar_of(f"https://{path}", 2026) for path in paths})

    assert keys("a.example/calendar/2031/05", "a.example/calendar/2999/12/", "A.example/calendar/2040/1") == 1
    assert keys("a.example/c?month=14&v=1", "a.example/c?month=99999&v=1") == 1
    assert keys("a.example/c?month=14&v=1", "a.example/c?month=14&v=2", "b.example/c?month=14&v=1") == 3


def test_drops_are_told_once() -> None:
    stats = MemoryStatsCollector(get_crawler())
    drops = Drops(stats)
    assert drops.news() == {}
    stats.inc_value("frontier/dropped/calendar", 2)
    stats.inc_value("depth/request_ignored_count")
    assert drops.news() == {"calendar": 2, "depth": 1}
    assert drops.news() == {}
    stats.inc_value("frontier/dropped/calendar")
    assert drops.news() == {"calendar": 1}
