"""``scrapy frontier`` while workers run: pause, kill, resume, flush, and what it says about them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis as redis_py

from crawler.frontier.control import Control
from crawler.frontier.seedkey import SeedKey
from tests.e2e.crew import Crew
from tests.site import Site
from tests.support.server import wait_for


@pytest.fixture
def control(redis: redis_py.Redis) -> Control:
    """The frontier of the spider `site`. In this process: starting a command may take longer than the crawl."""
    return Control(redis, "{crawler:site:0}", SeedKey("site:start_urls", "list"))


@pytest.mark.slow
def test_pause_kill_resume_loses_nothing(
    site: Callable[..., Site], redis_url: str, control: Control, tmp_path: Path
) -> None:
    crew = Crew(site(pages=150, latency=0.1, flaky=0.0, shape="tree"), redis_url, tmp_path, CONCURRENT_REQUESTS="4")
    crew.start("w1", "w2")
    crew.fetched(20)
    control.pause()
    time.sleep(2)  # the promise: within two seconds no request starts
    before = len(crew.site.report().hits)
    assert control.status()["paused"]
    time.sleep(2)
    assert len(crew.site.report().hits) == before
    assert all(worker.poll() is None for worker in crew.workers.values()), "a pause is not the end"
    crew.kill("w1")
    control.resume()
    crew.finish(90)
    crew.assert_complete(twice=4)


def test_what_is_said_while_workers_run_and_after_a_flush(
    site: Callable[..., Site], redis_url: str, control: Control, tmp_path: Path
) -> None:
    crew = Crew(site(pages=300, easy=True, latency=0.3), redis_url, tmp_path, CONCURRENT_REQUESTS="2")
    crew.start("w1", "w2")
    crew.fetched(10)
    facts = wait_for(lambda: (now := control.status())["leased"] and now["queued"] and now, "queued and leased ones")
    assert (facts["state"], facts["workers_live"], facts["workers_dead"]) == ("running", 2, 0)
    assert sorted(row.name[:2] for row in control.workers() if row.live) == ["w1", "w2"]
    assert [row.host.split(":")[0] for row in control.hosts(10) if row.host] == ["127.0.0.1"]
    assert control.flush() > 0
    wait_for(lambda: all(w.poll() is not None for w in crew.workers.values()), "the workers stopped", 30)
    assert {worker.returncode for worker in crew.workers.values()} == {1}
    assert "is gone or was flushed" in crew.log("w1")
    assert "Traceback" not in crew.log("w1")
    assert control.status()["state"] == "none"
    keys = [bytes(key).decode() for key in control.client.scan_iter(f"{control.base}*")]
    left = {key.removeprefix(f"{control.base}:").split(":")[0] for key in keys}
    assert left <= {"meta", "hosts", "robots", "dedup"}
