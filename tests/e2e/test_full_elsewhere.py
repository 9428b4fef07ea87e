"""A full memory with a scheduler that knows nothing of it: the crawl ends all the same, and goes on with more room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.site import Site
from tests.support.project import project_env, run_scrapy

SCRAPYS, SCRAPY_REDISS = "scrapy.core.scheduler.Scheduler", "scrapy_redis.scheduler.Scheduler"


@pytest.mark.parametrize(
    ("scheduler", "dupefilter"),
    [
        (SCRAPYS, "MemoryBloomDupeFilter"),
        pytest.param(SCRAPYS, "BloomDupeFilter", marks=pytest.mark.slow),
        pytest.param(SCRAPYS, "LayeredDupeFilter", marks=pytest.mark.slow),
        pytest.param(SCRAPY_REDISS, "CompactDupeFilter", marks=pytest.mark.slow),
        pytest.param(SCRAPY_REDISS, "BloomDupeFilter", marks=pytest.mark.slow),
    ],
)
def test_a_full_memory_ends_the_crawl(
    site: Callable[..., Site], redis_url: str, tmp_path: Path, scheduler: str, dupefilter: str
) -> None:
    """Without it pages that nobody remembers would be crawled again and again, by way of each other's links."""
    pages = site(pages=120, shape="tree", easy=True)
    pace = {"DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "8"}
    env = project_env(redis_url, tmp_path, BLOOM_GROWTH="0", BLOOM_CAPACITY="60", **pace)
    settings = {
        "SCHEDULER": scheduler, "DUPEFILTER_CLASS": f"crawler.dedup.{dupefilter}", "JOBDIR": str(tmp_path / "job"),
        "SCHEDULER_PERSIST": "1",
    }  # fmt: skip
    crawl = ["crawl", "site", "-a", f"start={pages.start}"]
    crawl += [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    full = run_scrapy(crawl, env)
    assert full.returncode == 1
    assert full.stderr.count("raise BLOOM_CAPACITY or set BLOOM_GROWTH=1") == 1, full.stderr
    assert "Spider closed (bloom_full)" in full.stderr
    more = run_scrapy(crawl, env | {"BLOOM_CAPACITY": "1000"})
    assert more.returncode == 0, more.stderr
    assert pages.report().missed == []
