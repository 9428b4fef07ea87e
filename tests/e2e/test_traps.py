"""A calendar that goes on for ever is left after a while, and the crawl ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis as redis_py

from crawler.frontier.control import Control
from crawler.frontier.seedkey import SeedKey
from tests.e2e.crew import Crew
from tests.site import Site


@pytest.mark.slow
def test_an_endless_calendar_is_left(
    site: Callable[..., Site], redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    books = site(pages=30, easy=True, traps=1)
    crew = Crew(books, redis_url, tmp_path, FRONTIER_CALENDAR_MAX="5")
    crew.start("w1", "w2")
    crew.finish(60)
    crew.assert_complete()
    assert books.report().count("trap") == 12 + 5, "twelve months, and five that are none"
    dropped = Control(redis, "{crawler:site:0}", SeedKey("site:start_urls", "list")).status()["dropped"]
    assert dropped["calendar"] >= 1
    assert "its calendar has had FRONTIER_CALENDAR_MAX pages" in crew.log("w1") + crew.log("w2")
