"""A real Prometheus beside real workers: its sums are those of the site's books, and its alert tells of a dead one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis as redis_py
from scrapy import Request
from scrapy.http import HtmlResponse

from crawler.keys import Keys
from crawler.spiders.site import SiteSpider
from tests.e2e.crew import Watched
from tests.site import Site
from tests.support.project import PROJECT
from tests.support.prometheus import Prometheus, get, scrape, targets
from tests.support.server import wait_for

Sites = Callable[..., Site]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[Path], Prometheus]]:
    """``prometheus(sd_file)`` → a running server that scrapes every second."""
    with ExitStack() as stack:

        def start(sd_file: Path) -> Prometheus:
            folder = tmp_path / "prometheus"
            folder.mkdir()
            job = {"job_name": "crawler", "file_sd_configs": [{"files": [str(sd_file)]}]}
            timing = {"scrape_interval": "1s", "evaluation_interval": "1s"}
            rules = [str(PROJECT / "deploy" / "prometheus" / "rules.yml")]
            return stack.enter_context(
                Prometheus(folder, {"global": timing, "rule_files": rules, "scrape_configs": [job]})
            )

        yield start


def links_offered(site: Site) -> int:
    """Links that the spider finds on the site's pages, each page read once."""
    spider, links = SiteSpider(start=site.start), 0
    for page in site.truth()["pages"]:
        request, body = Request(page["url"]), get(page["url"]).text.encode()
        response = HtmlResponse(page["url"], body=body, encoding="utf-8", request=request)
        links += sum(isinstance(found, Request) for found in spider.parse(response))
    return links


def test_prometheus_adds_up_to_what_the_site_counted(
    site: Sites, redis_url: str, redis: redis_py.Redis, tmp_path: Path, prometheus: Callable[[Path], Prometheus]
) -> None:
    """Three workers, a real Prometheus, sums over the workers in PromQL: equal to the site's own books, to the page.

    Three shards of the frontier, whose figures are one.
    """
    books = site(pages=300, hosts=3, easy=True, latency=0.05, robots=0)
    crew = Watched(books, redis_url, tmp_path, FRONTIER_RUN="sums", FRONTIER_SHARDS="3")
    server = prometheus(crew.sd_file)
    meta = Keys("crawler", "site").frontier + ":meta"
    redis.hset(meta, "paused", "1")  # nobody begins before everybody is seen, however slowly one of them starts
    crew.start("w1", "w2", "w3")
    wait_for(lambda: server.value('sum(up{job="crawler"})') == 3, "Prometheus sees 3 workers", 60, every=0.2)
    redis.hdel(meta, "paused")
    crew.finish(90)
    report = books.report()
    assert report.missed == []
    assert report.twice == {}

    def total(metric: str) -> float | None:
        return server.value(f"sum(max_over_time({metric}[10m]))")

    duplicates = links_offered(books) + len(books.start.split(",")) - 300
    assert duplicates > 300
    figures = {
        "responses": total("crawler_responses_total"),
        "downloads": total("crawler_download_seconds_count"),
        "items": total('crawler_items_total{outcome="scraped"}'),
        "new": total('crawler_dedup_checks_total{result="new"}'),
        "duplicates": total('crawler_dedup_checks_total{result="duplicate"}'),
    }
    hits = len(report.hits)
    assert server.value("max(max_over_time(crawler_bloom_elements[10m]))") == 300, "over the shards"
    assert (server.value("max(max_over_time(crawler_frontier_queued[10m]))") or 0) > 3
    assert figures == {
        "responses": hits, "downloads": hits, "items": 300, "new": 300, "duplicates": duplicates,
    }  # fmt: skip
    workers = server.query("sum by (worker) (max_over_time(crawler_worker_info[10m]))")
    assert {labels[0][1] for labels in workers} == {"w1", "w2", "w3"}
    assert server.value('max(max_over_time(ALERTS{alertstate="firing"}[10m]))') is None, "a healthy crawl wakes nobody"


@pytest.mark.slow
def test_a_killed_worker_is_reported_lost_and_the_alert_fires(
    site: Sites, redis_url: str, tmp_path: Path, prometheus: Callable[[Path], Prometheus]
) -> None:
    crew = Watched(site(pages=2000, easy=True), redis_url, tmp_path, DOWNLOAD_DELAY="0.2")
    crew.start("w1", "w2")
    crew.address("w1")
    crew.address("w2")
    server = prometheus(crew.sd_file)
    alert = 'ALERTS{alertname="crawler_worker_lost",alertstate="firing"}'
    wait_for(lambda: server.value('sum(up{job="crawler"})') == 2, "Prometheus sees 2 workers", 60, every=0.2)
    assert server.query(alert) == {}
    crew.kill("w2")
    wait_for(lambda: set(targets(crew.sd_file)) == {"w1"}, "the dead one is out of the file", 15)

    def lost() -> bool:
        return scrape(crew.address("w1")).sum("crawler_frontier_workers", state="lost") == 1

    wait_for(lost, "the dead one is reported lost", 20, every=0.5)
    wait_for(lambda: server.query(alert), "the alert fires", 20, every=0.5)
    crew.workers["w1"].terminate()
    crew.finish(20)
