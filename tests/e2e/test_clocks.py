"""Machines whose clocks differ by hours: leases, delays and heartbeats are by the server's clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import redis as redis_py

from crawler.frontier.control import Control
from crawler.frontier.seedkey import SeedKey
from tests.e2e.crew import Crew
from tests.site import Site

DELAY = 0.6
SKEW = "import time\nreal = time.time\ntime.time = lambda: real() + {}\ntime.time_ns = lambda: int(time.time() * 1e9)\n"


@pytest.mark.slow
def test_an_hour_early_and_an_hour_late(
    site: Callable[..., Site], redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    books = site(pages=30, shape="tree", easy=True, robots=0)
    settings = {"DOWNLOAD_DELAY": str(DELAY), "CONCURRENT_REQUESTS_PER_DOMAIN": "2", "FRONTIER_LEASE": "4"}
    crew = Crew(books, redis_url, tmp_path, ROBOTSTXT_OBEY="0", **settings)
    for name, skew in {"early": 3600, "late": -3600}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(SKEW.format(skew))
        crew.start(name, PYTHONPATH=str(tmp_path / name))
    crew.start("right")
    crew.until(lambda: all(crew.fetched_by(name) >= 3 for name in crew.workers), "each works")
    workers = Control(redis, "{crawler:site:0}", SeedKey("site:start_urls", "list")).workers()
    assert [worker.live for worker in workers] == [True] * 3
    assert max(worker.age for worker in workers) < 5
    assert len({crew.log(name)[:13] for name in crew.workers}) == 3, "the logs' hours tell that the clocks differ"
    crew.kill("early")
    crew.finish(90)
    crew.assert_complete(twice=2 * 2)
    times = sorted(hit.time for hit in books.report().hits)
    gap = min(later - earlier for earlier, later in pairwise(times))
    print(f"{len(times)} requests, smallest gap {gap:.3f} s of {DELAY}")
    assert gap >= 0.8 * DELAY  # a clock that counted would be hours off; test_politeness.py judges the pace
    assert "lost its latest writes" not in crew.log("late") + crew.log("right")
