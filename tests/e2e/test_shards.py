"""Past one Redis: crawls by real workers over shards, a real Redis Cluster, sentinels; masters die meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scrapy.settings import Settings

from crawler.connection import sync_client
from crawler.frontier.seedkey import SeedKey
from crawler.frontier.spread import control_of
from crawler.keys import Keys
from crawler.metrics.sample import Sampler
from tests.e2e.crew import CONCURRENCY, Crew
from tests.e2e.test_seeds import FAST, MODULES
from tests.site import Site
from tests.support.cluster import RedisCluster, Watched, follow
from tests.support.pages import Pages
from tests.support.project import project_env, run_scrapy
from tests.support.server import RedisServer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """Three masters without replicas."""
    with RedisCluster() as nodes:
        yield nodes


def crew_on(books: Site, env: dict[str, str], folder: Path, **settings: str) -> Crew:
    """Workers on whatever `env` names."""
    return Crew(books, env["REDIS_URL"], folder, **{name: env[name] for name in env if name != "REDIS_URL"}, **settings)


def test_a_crawl_on_a_real_cluster(cluster: RedisCluster, site: Callable[..., Site], tmp_path: Path) -> None:
    books = site(pages=50, hosts=8)
    crew = crew_on(books, cluster.env, tmp_path, FRONTIER_SHARDS="5", SCHEDULER_PERSIST="1")
    crew.start("w1", "w2")
    crew.finish()
    crew.assert_complete()
    with cluster.client() as client:
        facts = control_of(client, Keys("crawler", "site").spread(5), SeedKey("site:start_urls", "list")).status()
        assert (facts["state"], facts["queued"], facts["leased"]) == ("finished", 0, 0)
        used = {
            key.decode().split(":")[2].rstrip("}") for key in client.keys("{crawler:site:*", target_nodes="primaries")
        }
    assert used == {"0", "1", "2", "3", "4"}
    shards = [(keys.frontier, keys.dedup) for keys in Keys("crawler", "site").spread(5)]
    sampler = Sampler(lambda: sync_client(Settings(cluster.env)), shards, "site:start_urls", 1.0)
    sample = sampler.read()
    sampler.close()
    assert sample.bloom is not None
    assert sample.bloom.elements >= 50
    assert sample.server is not None
    other = run_scrapy(["crawl", "site", "-a", f"start={books.start}"], {**crew.env, "FRONTIER_SHARDS": "16"})
    assert other.returncode != 0
    assert "FRONTIER_SHARDS=16" in other.stderr
    assert "has 5 for its life" in other.stderr
    assert "Traceback" not in other.stderr


@pytest.mark.slow
@pytest.mark.parametrize("spider", ["fed", "ofset", "ofzset"])
def test_seeds_on_a_cluster_are_taken_once_and_a_fed_spider_ends(
    cluster: RedisCluster, tmp_path: Path, spider: str
) -> None:
    with Pages({f"/{number}": "<title>page</title>" for number in range(400)}) as pages:
        env = {**project_env("", tmp_path, **FAST), **cluster.env, "FRONTIER_SHARDS": "3", "FRONTIER_IDLE": "1"}
        listed = tmp_path / "seeds.txt"
        listed.write_text("\n".join(f"{pages.url}/{number}" for number in range(400)))
        assert run_scrapy(["seed", spider, *MODULES, "--file", str(listed)], env).returncode == 0
        crawled = run_scrapy(["crawl", spider, *MODULES], env)
        assert crawled.returncode == 0, crawled.stderr
        assert "Traceback" not in crawled.stderr
        del pages.hits["/robots.txt"]
        assert pages.hits == {f"/{number}": 1 for number in range(400)}
        facts = json.loads(run_scrapy(["frontier", "status", spider, *MODULES, "--json"], env).stdout)
        assert (facts["seeds"], facts["state"]) == (0, "finished")


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


COMMANDS = [
    "frontier status", "frontier workers", "frontier hosts", "frontier dead", "frontier requeue", "frontier drop --yes",
    "frontier pause", "frontier resume", "frontier explain URL", "frontier host example.com --delay 2",
    "dedup status", "dedup check URL", "dedup export FILE", "dedup clear --yes", "dedup import FILE",
    "frontier flush --yes",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["Bloom", "Exact", "Compact", "Layered"])
def test_the_rights_in_deploy_are_enough(kind: str, site: Callable[..., Site], tmp_path: Path) -> None:
    """A crawl with everything on, and every command, as the user of deploy/redis-users.acl."""
    rules = (ROOT / "deploy" / "redis-users.acl").read_text().replace("CHANGE-ME", "secret")
    acl = tmp_path / "users.acl"
    acl.write_text(rules.replace("user default off", "user default on nopass ~* &* +@all"))
    with RedisServer(options=["--aclfile", str(acl)]) as server:
        url = f"redis://crawler:secret@127.0.0.1:{server.port}/0"
        books = site(pages=60, hosts=6, flaky=0.05)
        crew = Crew(
            books, url, tmp_path, FRONTIER_SHARDS="3", REDIS_PIPELINE_ENABLED="1", CANONICAL_AUDIT="0.3",
            FRONTIER_HOST_MAX_PAGES="1000", DOWNLOAD_DELAY="0.01",
        )  # fmt: skip
        own = ["-s", f"DUPEFILTER_CLASS=crawler.dedup.{kind}DupeFilter"]
        seeded = run_scrapy(["seed", "site", books.start.split(",")[0]], crew.env)
        assert seeded.returncode == 0, seeded.stderr
        crawled = run_scrapy(["crawl", "site", "-a", f"start={books.start}", *own], crew.env, timeout=120)
        assert crawled.returncode == 0, crawled.stderr
        for words in COMMANDS if kind == "Bloom" else COMMANDS[10:]:
            group, action, *rest = (
                words.replace("URL", "http://127.0.0.1/x").replace("FILE", str(tmp_path / "f")).split()
            )
            done = run_scrapy([group, action, "site", *rest, *own], crew.env)
            assert done.returncode == 0, (words, done.stderr)
        with server.client() as client:
            assert client.acl_log() == []


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("trial", range(3))
@pytest.mark.parametrize("replicas", [1, 0])
def test_a_masters_death(replicas: int, trial: int, site: Callable[..., Site], tmp_path: Path) -> None:
    """One of three masters is killed a second after its link to its replica broke, and the replica is promoted.

    Each page is linked to from one other only. Nothing is lost when workers wait for replicas. When they don't, it is
    printed how much was. Each worker may fetch again what it was at.
    """
    with RedisCluster(3, 1) as nodes:
        books = site(pages=900, hosts=16, latency=0.05, seed=trial, shape="tree")
        crew = crew_on(books, nodes.env, tmp_path, FRONTIER_SHARDS="16", FRONTIER_WAIT_REPLICAS=str(replicas))
        crew.start("w1", "w2", "w3")
        crew.fetched(200 + 100 * trial)
        nodes.replicas[trial].freeze()
        with nodes.masters[trial].client() as client:  # the kernel would deliver what was sent, on one machine
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        time.sleep(1)
        before = books.status()["fetched"]
        nodes.masters[trial].kill()
        nodes.replicas[trial].resume()
        follow(nodes.replicas[trial])
        nodes.masters[trial].start()  # comes back as a replica: what waits for one goes on
        crew.finish(120)
        if replicas:
            crew.assert_complete(twice=3 * 4 * CONCURRENCY)
        else:
            missed = books.report().missed
            print(f"lost without FRONTIER_WAIT_REPLICAS: {len(missed)} of 900 pages ({before} fetched at the kill)")
            assert len(missed) < 900 - before


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
