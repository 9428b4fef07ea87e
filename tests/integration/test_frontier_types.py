"""Keys that something else wrote: a type that is not theirs is named in one line, with what to do about it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler.canonical import canonical_host
from crawler.frontier.control import Control
from crawler.frontier.deadletters import DeadLetters
from crawler.frontier.message import Reply
from crawler.frontier.refusal import refusal, wrong_type
from crawler.frontier.script import source
from crawler.frontier.seedkey import SeedFault, SeedKey
from crawler.keys import FRONTIER_TYPES, Keys
from tests.integration import frontier_spiders
from tests.support.pages import Pages
from tests.support.project import project_env, run_scrapy, start_scrapy
from tests.support.server import wait_for
from tests.support.shard import Shard, admission, dead_letters, finish

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


class TestOneQueueOfMany:
    """A queue in whose place something else wrote costs its host, and nothing else."""

    BAD = f"{KEYS.frontier}:queue:bad"
    WHY = f"{BAD} is a string in Redis, not a sorted set: rename or delete it, then requeue".encode()

    @pytest.fixture
    def shard(self, redis: redis_py.Redis) -> Shard:
        shard = Shard(redis, KEYS)
        shard.join()
        return shard

    def letters(self, shard: Shard) -> list[tuple[bytes, bytes, bytes]]:
        return [
            (letter[b"payload"], letter[b"host"], letter[b"reason"]) for letter in dead_letters(shard.client, shard)
        ]

    def test_what_is_found(self, shard: Shard, redis: redis_py.Redis) -> None:
        redis.set(self.BAD, "x")
        reply = shard.say(outbox=[admission("b1", "bad"), admission("g", "good"), admission("b2", "bad")])
        assert (reply.verdicts, reply.misfits, reply.queued, reply.dead) == (b"111", [self.BAD], 1, 2)
        assert sorted(self.letters(shard)) == [(b"b1", b"bad", self.WHY), (b"b2", b"bad", self.WHY)]
        assert finish(shard) == "finished"
        assert redis.get(self.BAD) == b"x"

    def test_it_can_be_requeued_when_the_key_is_gone_and_not_before(
        self, shard: Shard, redis: redis_py.Redis, redis_url: str
    ) -> None:
        redis.set(self.BAD, "x")
        shard.put("b", host="bad")
        dead = DeadLetters(Control(redis, KEYS.frontier, SeedKey("seeds", "list")))
        with pytest.raises(redis_py.ResponseError, match="WRONGTYPE"):
            dead.requeue("not a sorted set")
        assert len(dead) == 1, "else it would be nowhere"
        redis.delete(self.BAD)
        assert dead.requeue("not a sorted set") == (1, 0)
        assert shard.take() == ["b"]

    @pytest.mark.parametrize("how", ["gives", "expired", "rolled back"])
    def test_what_goes_back(self, shard: Shard, redis: redis_py.Redis, how: str) -> None:
        shard.put("b", host="bad")
        shard.put("g1", "g2", host="good")
        leases = {lease.payload: lease.id for lease in shard.say(want=9, ahead=9).leases}
        assert len(leases) == 3
        redis.set(self.BAD, "x")
        if how == "expired":
            redis.zadd(f"{KEYS.frontier}:leases", dict.fromkeys(leases.values(), 1))
            reply = shard.say("v")
        elif how == "rolled back":
            shard.seqs["w"] += 1
            reply = shard.say()
        else:
            reply = shard.say(gives=list(leases.values()))
        assert (reply.misfits, reply.leased, reply.queued) == ([self.BAD], 0, 2)
        assert self.letters(shard) == [(b"b", b"bad", self.WHY)]
        assert sorted(shard.take(worker="v") + shard.take(worker="v")) == ["g1", "g2"]

    def test_what_is_handed_out(self, shard: Shard, redis: redis_py.Redis) -> None:
        shard.put("b", host="bad")
        shard.put("g", host="good")
        shard.put("a", host="a")
        redis.set(self.BAD, "x")
        reply = shard.say(want=9, ahead=9)
        assert ({lease.payload for lease in reply.leases}, reply.misfits) == ({b"a", b"g"}, [self.BAD])
        assert shard.say(want=9, ahead=9).misfits == [], "it is not looked at again and again"

    def test_what_is_given_up(self, shard: Shard, redis: redis_py.Redis) -> None:
        shard.constants |= {"give_up": 1, "backoff": 0}
        redis.set(self.BAD, "x")
        for _ in range(5):
            time.sleep(0.002)
            reply = shard.say(health=[("bad", 0, 0, 0)])
        assert (reply.gone, reply.misfits) == (["bad"], [])
        shard.put("g", host="good")
        assert redis.get(self.BAD) == b"x", "it is not ours to rename"
        assert shard.take() == ["g"]

    @pytest.mark.parametrize("name", ["queue:bad", "pinned:w:bad", "mine:w"])
    def test_cookie_jars(self, shard: Shard, redis: redis_py.Redis, name: str) -> None:
        def put(*names: str) -> Reply:
            return shard.say("v", outbox=[(*admission(one, "bad"), {"jar": "j"}) for one in names])

        put("first")
        [lease] = shard.say(want=1).leases  # w holds the jar
        put("second")
        if name == "queue:bad":  # the worker dies, and its requests go back to the host
            redis.hdel(f"{KEYS.frontier}:workers", "w")
        else:
            redis.delete(f"{KEYS.frontier}:{name}")
        redis.set(f"{KEYS.frontier}:{name}", "x")
        reply = shard.say("v") if name == "queue:bad" else put("third")
        assert reply.misfits == [f"{KEYS.frontier}:{name}"]
        lost = b"second" if name == "queue:bad" else b"third"
        assert [letter[0] for letter in self.letters(shard)] == [lost]
        assert redis.hexists(f"{KEYS.frontier}:requests", lease.id)

    def test_a_worker_says_it_once_and_crawls_on(self, redis: redis_py.Redis, redis_url: str, tmp_path: Path) -> None:
        with Pages({"/1": "<title>page</title>", "/2": "<title>page</title>"}) as site:
            redis.set(key := f"{KEYS.frontier}:queue:{canonical_host(site.url)}", "x")
            redis.rpush("plain:start_urls", f"{site.url}/1", f"{site.url}/2")
            done = run_scrapy(["crawl", "plain", *MODULES], project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0"))
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(f"{key} in Redis is not a sorted set") == 1
        assert (site.hits.total(), redis.xlen(f"{KEYS.frontier}:dead")) == (0, 2)


def test_moved_seeds_wait_while_the_frontiers_list_is_of_a_wrong_type(redis: redis_py.Redis) -> None:
    """A batch that counts as moved is removed where it stood."""
    keys, arguments = [f"{KEYS.frontier}:seeds", f"{KEYS.frontier}:batches"], ["1.1", "seed"]
    redis.set(keys[0], "x")
    with pytest.raises(redis_py.ResponseError, match="WRONGTYPE"):
        redis.eval(source("seeds_put"), 2, *keys, *arguments)
    redis.delete(keys[0])
    assert redis.eval(source("seeds_put"), 2, *keys, *arguments) == 1
    assert redis.lrange(keys[0], 0, -1) == [b"seed"]
