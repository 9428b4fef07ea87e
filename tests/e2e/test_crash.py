"""kill -9 and SIGTERM at any moment: no page and no item is lost, and the others go on."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.crew import CONCURRENCY, Crew
from tests.site import Site

NAMES = ("w1", "w2", "w3")
TREE = {"shape": "tree", "latency": 0.05, "slow_seconds": 0.5, "flaky": 0.0}


def kill_trial(seed: int, site: Site, redis_url: str, folder: Path) -> None:
    """300 pages; one of three workers dies when a random number of pages is fetched, at a random instant after that."""
    rng = random.Random(seed)
    crew = Crew(site, redis_url, folder)
    crew.start(*NAMES)
    crew.fetched(rng.randrange(1, 260))
    time.sleep(rng.random() * 0.2)  # the random moment itself
    crew.kill(rng.choice(NAMES))
    crew.finish(90)
    crew.assert_complete(twice=CONCURRENCY)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_kill_of_one_of_three_loses_nothing(
    seed: int, site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    kill_trial(seed, site(pages=300, **TREE), redis_url, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_kill_at_ten_more_moments(seed: int, site: Callable[..., Site], redis_url: str, tmp_path: Path) -> None:
    kill_trial(seed, site(pages=300, seed=seed, **TREE), redis_url, tmp_path)


@pytest.mark.slow
def test_the_only_worker_is_killed_and_another_goes_on(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    crew = Crew(site(pages=100, **TREE), redis_url, tmp_path)
    crew.start("w1")
    crew.fetched(40)
    crew.kill("w1")
    crew.start("w1")  # by the same name, as a restarted container has
    crew.finish(90)
    crew.assert_complete(twice=CONCURRENCY)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_of_three_are_killed_together(seed: int, site: Callable[..., Site], redis_url: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    crew = Crew(site(pages=300, seed=seed, **TREE), redis_url, tmp_path)
    crew.start(*NAMES)
    crew.fetched(rng.randrange(1, 260))
    for name in rng.sample(NAMES, 2):
        crew.kill(name)
    crew.finish(90)
    crew.assert_complete(twice=2 * CONCURRENCY)


@pytest.mark.slow
def test_a_worker_that_sleeps_longer_than_its_lease_does_no_harm(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    """Its leases go to the others, its late news change nothing, and it works on afterwards."""
    crew = Crew(site(pages=900, **{**TREE, "latency": 0.4}), redis_url, tmp_path)
    crew.start(*NAMES)
    crew.until(lambda: min(crew.fetched_by(name) for name in NAMES) >= 10, "all three at work")
    crew.workers["w2"].send_signal(signal.SIGSTOP)
    before = crew.fetched_by("w2")
    time.sleep(14)  # FRONTIER_LEASE is 10
    crew.workers["w2"].send_signal(signal.SIGCONT)
    crew.finish(90)
    crew.assert_complete(twice=CONCURRENCY)
    assert crew.fetched_by("w2") > before + CONCURRENCY, "it did not work on"
    assert "leases went to another worker" in crew.log("w2")


def test_sigterm_to_one_of_three_is_quick_and_loses_nothing(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    books = site(pages=240, hosts=24, shape="tree", easy=True)
    crew = Crew(books, redis_url, tmp_path, DOWNLOAD_DELAY="1", CONCURRENT_REQUESTS_PER_DOMAIN="1")
    crew.start(*NAMES)
    crew.until(lambda: min(crew.fetched_by(name) for name in NAMES) >= 5, "all three at work")
    before = books.status()["agents"]
    crew.workers["w2"].send_signal(signal.SIGTERM)
    assert crew.workers["w2"].wait(10) == 0
    assert crew.workers["w1"].poll() is None
    assert crew.workers["w3"].poll() is None
    crew.finish(90)
    crew.assert_complete()
    for name in ("w1", "w3"):
        assert crew.fetched_by(name) > before[name][0], f"{name} did not go on"


def test_a_stopped_crawl_resumes_without_fetching_again(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    books = site(pages=200, **TREE)
    crew = Crew(books, redis_url, tmp_path)
    crew.start(*NAMES)
    crew.fetched(60)
    for name in NAMES:
        crew.workers[name].send_signal(signal.SIGTERM)
    crew.finish(10)
    assert len(books.report().fetched) < 200, "it was over before it was stopped"
    crew.start("w4", "w5")
    crew.finish()
    crew.assert_complete()
    assert "Joined run" in crew.log("w4")


@pytest.mark.slow
def test_another_goes_on_when_a_worker_dies_in_a_long_start(
    site: Callable[..., Site], redis_url: str, tmp_path: Path
) -> None:
    crew = Crew(site(pages=150, easy=True), redis_url, tmp_path, spider="long_start")
    crew.start("w1", "w2")
    crew.fetched(30)
    starting = [name for name in ("w1", "w2") if "start() begins" in crew.log(name)]
    assert len(starting) == 1, f"{starting} executed start() at the same time"
    crew.kill(starting[0])
    crew.finish(90)
    crew.assert_complete(twice=CONCURRENCY)
    other = "w2" if starting == ["w1"] else "w1"
    assert "start() ends" in crew.log(other)
