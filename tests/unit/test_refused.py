"""A crawl that got no page because everything was refused says so; any other says nothing more."""

from __future__ import annotations

from itertools import repeat

import pytest

from crawler.commands.refused import line

START = ["https://a.example/"]


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        ({"guard/refused": 1}, "at a private address (CRAWLER_PRIVATE_HOSTS lists hosts that may be, CRAWLER_ALLOW"),
        ({"guard/scheme": 2}, "with another URL scheme (CRAWLER_SCHEMES)"),
        ({"offsite/filtered": 1}, "to another site (the spider's allowed_domains)"),
        (
            {"robotstxt/forbidden": 1, "response_received_count": 1, "robotstxt/response_count": 1},
            "forbidden by the site's robots.txt (ROBOTSTXT_OBEY)",
        ),
    ],
)
def test_each_refusal_is_told_with_what_decides_it(stats: dict[str, int], said: str) -> None:
    begins = f"This worker fetched no page from https://a.example/: requests were refused {said}"
    assert line(stats, START).startswith(begins)


@pytest.mark.parametrize(
    "stats",
    [
        {},
        {"offsite/filtered": 5, "response_received_count": 2, "robotstxt/response_count": 1},
        {"response_received_count": 1, "robotstxt/response_count": 1},
    ],
)
def test_a_crawl_that_got_a_page_or_met_no_refusal_says_nothing(stats: dict[str, int]) -> None:
    assert line(stats, START) == ""


def test_no_more_of_the_start_is_told_than_a_line_holds() -> None:
    assert line({"guard/refused": 9}, repeat("http://a/")).count("http://a/") == 3
