"""Several workers are one crawler: they share the work, the pace, the start and the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.crew import Crew
from tests.site import Site

NAMES = ("w1", "w2", "w3")


def test_three_workers_share_the_work_and_close_together(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    crew = Crew(site(pages=600, latency=0.5, flaky=0.0), redis_url, tmp_path)
    crew.start(*NAMES)
    crew.finish(90)
    crew.assert_complete()
    report = crew.site.report()
    shares = {name: count / len(report.fetches) for name, count in report.agents.items()}
    assert set(shares) == set(NAMES)
    assert min(shares.values()) >= 0.15, shares
    assert max(crew.ended.values()) - report.hits[-1].time < 5, "the last worker closed long after the last page"


def test_503_once_is_tried_again(site: Callable[..., Site], redis_url: str, tmp_path: Path) -> None:
    crew = Crew(site(pages=60, flaky=0.1), redis_url, tmp_path)
    crew.start("w1", "w2")
    crew.finish(90)
    crew.assert_complete()
    assert crew.site.report().count("error") > 2


def test_several_hosts_are_one_crawl(site: Callable[..., Site], redis_url: str, tmp_path: Path) -> None:
    crew = Crew(site(pages=150, hosts=5, flaky=0.0), redis_url, tmp_path)
    crew.start("w1", "w2")
    crew.finish()
    crew.assert_complete()


def test_500_equal_start_requests_of_three_workers_are_one_fetch(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    books = site(pages=3, easy=True, latency=1)
    # Pinned, as replicas are: a worker that is slow to start would else find the run finished, and begin the next.
    crew = Crew(books, redis_url, tmp_path, spider="same_start", FRONTIER_RUN="equal")
    crew.start(*NAMES)
    crew.finish()
    assert books.report().times == {0: 1}


def test_a_worker_that_joins_a_finished_pinned_run_leaves_at_once(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    crew = Crew(site(pages=20, easy=True), redis_url, tmp_path, FRONTIER_RUN="once")
    crew.start("w1")
    crew.finish()
    crew.assert_complete()
    crew.site.reset()
    began = time.monotonic()
    crew.start("late")
    crew.finish(20)
    assert time.monotonic() - began < 15
    assert crew.site.hits()["log"] == []
    told = [line for line in crew.log("late").splitlines() if "is finished" in line]
    assert len(told) == 1
    assert "FRONTIER_RUN" in told[0]


def test_a_second_crawl_is_run_2_and_says_what_it_keeps(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    crew = Crew(site(pages=20, easy=True), redis_url, tmp_path)
    crew.start("w1")
    crew.finish()
    crew.assert_complete()
    crew.site.reset()
    crew.start("w2")
    crew.finish()
    assert crew.site.report().times == {0: 1}, "the start page again, all else is remembered"
    assert "run 2" in crew.log("w2")
    assert "keeps" in crew.log("w2")
    crew.site.reset()
    crew.start("w3", SCHEDULER_FLUSH_ON_START="1")
    crew.finish()
    assert crew.site.report().missed == []
    assert "run 3" in crew.log("w3")


@pytest.mark.slow
def test_every_host_keeps_its_pace_when_workers_come_and_go(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    """Six hosts, half a second each: a kill, a stop and two new workers hurry none of them."""
    books = site(pages=240, hosts=6, flaky=0.0, redirects=0.1)
    crew = Crew(books, redis_url, tmp_path, DOWNLOAD_DELAY="0.5", CONCURRENT_REQUESTS_PER_DOMAIN="1")
    crew.start(*NAMES)
    crew.fetched(50)
    crew.kill("w1")
    crew.start("w4")
    crew.fetched(110)
    crew.workers["w2"].terminate()
    crew.start("w5")
    crew.finish(90)
    crew.assert_complete(twice=6)
    for host in range(6):
        times = [hit.time for hit in books.report().hits if hit.host == host]
        busiest = max(sum(begin <= when < begin + 10 for when in times) for begin in times)
        assert busiest <= 22, f"{busiest} requests to host {host} in 10 s"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_one_pace_for_a_site_whatever_the_number_of_workers(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    """At most 1.1 requests/s over a minute, whatever they are for; nothing dropped; not much slower either."""
    crew = Crew(site(pages=70, flaky=0.0), redis_url, tmp_path, DOWNLOAD_DELAY="1", CONCURRENT_REQUESTS_PER_DOMAIN="1")
    crew.start(*NAMES)
    crew.finish(200)
    crew.assert_complete()
    times = [hit.time for hit in crew.site.report().hits]
    busiest = max(sum(begin <= when < begin + 60 for when in times) for begin in times)
    rate = len(times) / (times[-1] - times[0])
    print(f"busiest minute {busiest} requests, {rate:.3f} requests/s over {times[-1] - times[0]:.0f} s")
    assert busiest <= 66
    assert rate > 0.85, "slower than one request a second"
