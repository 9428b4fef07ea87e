"""Past one Redis: crawls by real workers over shards, a real Redis Cluster, sentinels; masters die meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.crew import CONCURRENCY, Crew
from tests.site import Site
from tests.support.cluster import RedisCluster, Watched, follow
from tests.support.project import run_scrapy


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """Three masters without replicas."""
    with RedisCluster() as nodes:
        yield nodes


def frontier(crew: Crew, *args: str) -> Any:
    """``scrapy frontier ACTION SPIDER --json`` with the crew's settings."""
    done = run_scrapy(["frontier", args[0], crew.spider, *args[1:]], crew.env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def crew_on(books: Site, env: dict[str, str], folder: Path, **settings: str) -> Crew:
    """Workers on whatever `env` names."""
    return Crew(books, env["REDIS_URL"], folder, **{name: env[name] for name in env if name != "REDIS_URL"}, **settings)


def test_a_crawl_on_a_real_cluster(cluster: RedisCluster, site: Callable[..., Site], tmp_path: Path) -> None:
    books = site(pages=80, hosts=8)
    crew = crew_on(books, cluster.env, tmp_path, FRONTIER_SHARDS="5", SCHEDULER_PERSIST="1")
    crew.start("w1", "w2")
    crew.finish()
    crew.assert_complete()
    facts = json.loads(frontier(crew, "status", "--json"))
    assert (facts["state"], facts["queued"], facts["leased"]) == ("finished", 0, 0)
    with cluster.client() as client:
        used = {
            key.decode().split(":")[2].rstrip("}") for key in client.keys("{crawler:site:*", target_nodes="primaries")
        }
    assert used == {"0", "1", "2", "3", "4"}
    other = run_scrapy(["crawl", "site", "-a", f"start={books.start}"], {**crew.env, "FRONTIER_SHARDS": "16"})
    assert other.returncode != 0
    assert "FRONTIER_SHARDS=16" in other.stderr
    assert "has 5 for its life" in other.stderr
    assert "Traceback" not in other.stderr


@pytest.mark.slow
def test_shards_on_one_server_survive_a_kill(redis_url: str, site: Callable[..., Site], tmp_path: Path) -> None:
    books = site(pages=400, hosts=12, latency=0.05)
    crew = Crew(books, redis_url, tmp_path, FRONTIER_SHARDS="4")
    crew.start("w1", "w2", "w3")
    crew.fetched(150)
    crew.kill("w2")
    crew.start("w4")
    crew.finish()
    crew.assert_complete(twice=CONCURRENCY)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("trial", range(3))
def test_a_masters_death_loses_nothing(trial: int, site: Callable[..., Site], tmp_path: Path) -> None:
    """One of three masters is killed and its replica promoted; each worker may fetch again what it was at."""
    with RedisCluster(3, 1) as nodes:
        books = site(pages=900, hosts=16, latency=0.05, seed=trial)
        crew = crew_on(books, nodes.env, tmp_path, FRONTIER_SHARDS="16", FRONTIER_WAIT_REPLICAS="1")
        crew.start("w1", "w2", "w3")
        crew.fetched(300)
        time.sleep(trial * 0.1)
        nodes.masters[trial].kill()
        follow(nodes.replicas[trial])
        nodes.masters[trial].start()  # comes back as a replica: what waits for one goes on
        crew.finish(120)
        crew.assert_complete(twice=3 * 4 * CONCURRENCY)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_sentinels_failover_loses_nothing(site: Callable[..., Site], tmp_path: Path) -> None:
    with Watched() as pair:
        books = site(pages=900, hosts=16, latency=0.05)
        crew = crew_on(books, pair.env, tmp_path, FRONTIER_WAIT_REPLICAS="1")
        crew.start("w1", "w2", "w3")
        crew.fetched(300)
        pair.master.kill()
        follow(pair.replica, 30)
        crew.until(lambda: "replicas" in crew.log("w1"), "the missing replica is told")
        pair.master.start()  # comes back as a replica, by the sentinels' word
        crew.finish(120)
        crew.assert_complete(twice=3 * 4 * CONCURRENCY)
