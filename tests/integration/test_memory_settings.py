"""``FRONTIER=memory``: no setting of the shared frontier is ignored without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.commands.unused import SHARED, unused
from tests.integration import frontier_spiders
from tests.support.project import clean_env, run_scrapy
from tests.unit.test_settings import COPY, load

ALONE = "scrapy.core.scheduler.Scheduler"
OTHER: dict[str, Any] = {"FRONTIER_RUN": "x", "FRONTIER_ORDER": "lifo", "FRONTIER_PIN_COOKIEJARS": "1"}


@pytest.mark.skipif(COPY, reason="a copy's page is its owner's")
def test_the_list_is_that_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = load(monkeypatch)
    assert {name: page[name] for name in page if name.startswith("FRONTIER_")} == SHARED


@pytest.mark.parametrize("name", SHARED)
def test_each_is_named_when_it_is_set(name: str) -> None:
    settings = Settings(SHARED | {"SCHEDULER": ALONE})
    assert unused(settings) == []
    for value in (str(SHARED[name] or 0), "") if isinstance(SHARED[name], int | float) else ():
        settings.set(name, value or SHARED[name])
        assert unused(settings) == [], "the default, as text"
    settings.set(name, OTHER.get(name, "7"))
    assert unused(settings) == [name]
    settings.set("SCHEDULER", "crawler.frontier.Scheduler")
    assert unused(settings) == []


def test_a_crawl_says_it_in_one_line(tmp_path: Path) -> None:
    env = clean_env({"FRONTIER": "memory", "FEED_DIR": str(tmp_path), "FRONTIER_HOST_DELAY": "2"})
    args = ["crawl", "mixed", "-a", "site=http://127.0.0.1:1", "-s", f"SPIDER_MODULES={frontier_spiders.__name__}",
            "-s", "FRONTIER_LEASE=60", "-s", "RETRY_ENABLED=0"]  # fmt: skip
    log = run_scrapy(args, env).stderr
    [line] = [line for line in log.splitlines() if "have no effect" in line]
    assert line.endswith("no effect: FRONTIER_HOST_DELAY (set DOWNLOAD_DELAY), FRONTIER_LEASE")
