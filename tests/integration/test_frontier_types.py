"""Keys that something else wrote: a type that is not theirs is named in one line, with what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler.frontier.refusal import refusal, wrong_type
from crawler.frontier.seedkey import SeedFault
from crawler.keys import FRONTIER_TYPES, Keys
from tests.integration import frontier_spiders
from tests.support.pages import Pages
from tests.support.project import project_env, run_scrapy, start_scrapy
from tests.support.server import wait_for
from tests.support.shard import Shard, admission

MODULES = ["-s", f"SPIDER_MODULES={frontier_spiders.__name__}"]
KEYS = Keys("crawler", "plain")
PER_HOST = ("queue:h", "pinned:w:h", "mine:w", "gone:queue:h")


@pytest.mark.parametrize("name", [*sorted(FRONTIER_TYPES), *PER_HOST])
def test_every_key_of_a_wrong_type_is_named(redis: redis_py.Redis, redis_url: str, name: str) -> None:
    shard = Shard(redis, KEYS)
    shard.join()
    shard.put("a")
    key, wanted = f"{KEYS.frontier}:{name}", FRONTIER_TYPES.get(name, "zset")
    redis.delete(key)
    redis.set(key, "x")
    error = redis_py.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value script: 1")
    line = str(refusal(Settings({"REDIS_URL": redis_url}), [KEYS], error))
    kind = "a sorted set" if wanted == "zset" else f"a {wanted}"
    assert line.startswith(f"{key} is a string in Redis, not {kind}: something else wrote it; rename or delete")


def test_the_memory_and_unknown_keys(redis: redis_py.Redis) -> None:
    assert "begins with {crawler:plain:0}" in str(wrong_type(redis, [KEYS]))
    redis.set("{crawler:plain:0}:dedup:meta", "x")
    assert str(wrong_type(redis, [KEYS])).startswith("{crawler:plain:0}:dedup:meta is a string in Redis, not a hash")


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.slow), "meanwhile"])
def test_a_worker_and_a_command_name_the_key(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path, moment: str
) -> None:
    key = f"{KEYS.frontier}:{'workers' if moment == 'before' else 'dead'}"  # the second is touched by the first failure
    redis.set(key, "x")
    redis.rpush("plain:start_urls", "no URL")
    line = f"{key} is a string in Redis, not a {FRONTIER_TYPES[key.rpartition(':')[2]]}"
    done = run_scrapy(["crawl", "plain", *MODULES], project_env(redis_url, tmp_path))
    assert done.returncode == 1
    assert [line in text for text in done.stderr.splitlines() if "WRONGTYPE" in text or key in text] == [True]
    assert "Traceback" not in done.stderr
    assert "lost its latest writes" not in done.stderr
    looked = run_scrapy(["frontier", "workers" if moment == "before" else "status", "plain", *MODULES],
                        project_env(redis_url, tmp_path))  # fmt: skip
    assert looked.returncode == 1
    assert looked.stderr.startswith(line)
    assert len(looked.stderr.splitlines()) == 1


def test_a_seed_key_of_a_wrong_type_is_told_once_and_taken_when_repaired(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    redis.hset("fed:start_urls", "a", "b")
    with Pages({"/1": "<title>page</title>"}) as site:
        env = project_env(redis_url, tmp_path, FRONTIER_IDLE="0", DOWNLOAD_DELAY="0")
        log = tmp_path / "log"
        worker = start_scrapy(["crawl", "fed", *MODULES], env, log)
        line = "No seed can be taken: fed:start_urls is a hash in Redis, not a list: rename or delete that key"
        wait_for(lambda: line in log.read_text(), "the line")
        for _ in range(3):  # ticks
            before = redis.hget("{crawler:fed:0}:meta", "seen")
            wait_for(lambda old=before: redis.hget("{crawler:fed:0}:meta", "seen") != old, "another tick")  # type: ignore[misc]
        redis.delete("fed:start_urls")
        redis.rpush("fed:start_urls", f"{site.url}/1")
        wait_for(lambda: site.hits["/1"] == 1, "the seed is crawled")
        worker.terminate()
        worker.wait(30)
    text = log.read_text()
    assert text.count("No seed can be taken") == 1
    assert text.count("Seeds can be taken from fed:start_urls again") == 1


def test_what_is_told_of_a_seed_key(caplog: pytest.LogCaptureFixture) -> None:
    spider: Any = frontier_spiders.Plain()
    fault = SeedFault(Settings({"REDIS_START_URLS_AS_SET": True}), spider)
    for found in (None, "", "string", "string", None, "hash", "", ""):
        fault.look(found)
    first, second = (record.getMessage() for record in caplog.records)
    assert "plain:start_urls is a string in Redis, not a set: rename or delete that key" in first
    assert second == "Seeds can be taken from plain:start_urls again"


@pytest.mark.parametrize("own", [False, True])
def test_the_frontiers_own_list_says_nothing_of_the_seed_key(redis: redis_py.Redis, own: bool) -> None:
    """On a cluster seeds are moved there; whoever moves them has seen whether the seed key is in order."""
    shard = Shard(redis, KEYS)
    shard.join()
    shard.seed_key = f"{KEYS.frontier}:seeds" if own else "plain:start_urls"
    redis.rpush(shard.seed_key, "1")
    found = None if own else ""
    replies = [shard.say(seeds=1) for _ in range(2)]
    assert [(len(reply.leases), reply.odd_seeds) for reply in replies] == [(1, found), (0, found)]


@pytest.mark.parametrize("name", ["dead", "requests", "owners", "deliveries", "inflight", "leases", "ready", "due"])
def test_nothing_is_half_done_when_a_key_is_of_a_wrong_type(redis: redis_py.Redis, name: str) -> None:
    """Else, when it is deleted as the line says, pages count as seen that nobody queued, and the run never ends."""
    shard = Shard(redis, KEYS)
    shard.constants["delay"] = 1
    shard.join()
    shard.say(start="want")
    key = f"{KEYS.frontier}:{name}"
    before = {key: redis.dump(key) for key in redis.scan_iter()}
    redis.set(key, "x")
    with pytest.raises(redis_py.ResponseError, match="WRONGTYPE"):
        shard.say(outbox=[admission("good"), (*admission("bad", flags=0), {"dead": ["why", "http://h/bad"]})])
    redis.delete(key)
    assert {key: redis.dump(key) for key in redis.scan_iter()} == before
