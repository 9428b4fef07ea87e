"""``scrapy frontier`` acts on a frontier that real scripts filled: hosts, dead letters, pause, flush; wrong words."""

from __future__ import annotations

import re
import time

import pytest
import redis as redis_py
from scrapy.settings import Settings

import crawler.keys
from crawler.dedup import BloomDupeFilter
from crawler.frontier import control, payload
from crawler.keys import Keys
from tests.support.frontier_command import BASE, SEED_KEY, FakeWorker, Frontier, request


def test_a_host_has_its_own_pace_or_none(frontier: Frontier, worker: FakeWorker) -> None:
    assert frontier("host", "plain", "a.example").out == "a.example: nothing special: the settings count\n"
    worker.send(outbox=[request(n) for n in range(10)])
    assert "BLOCKED" in frontier("host", "plain", "a.example", "--block").out
    assert worker.send(want=5).leases == []
    worker.send(outbox=[request(10)])
    assert worker.send(want=5).leases == []
    out = frontier("host", "plain", "a.example", "--no-block", "--delay", "60", "--concurrency", "2").out
    assert out == "a.example: delay 60 s, concurrency 2\n"
    assert len(worker.send(want=5).leases) == 1
    assert worker.send(want=5).leases == []
    shown = frontier("host", "plain", "a.example", "--json").rows[0]
    assert (shown["host"], shown["delay"], shown["concurrency"]) == ("a.example", 60_000, 2)
    assert "nothing special" in frontier("host", "plain", "a.example", "--reset").out


@pytest.mark.parametrize(
    ("given", "queue"),
    [
        ("https://A.Example:8080/x", "a.example"),
        ("Bücher.Example", "xn--bcher-kva.example"),
        ("2001:DB8::1", "[2001:db8::1]"),
        ("[::1]:8080", "[::1]"),
        ("Slot", "Slot"),
        ("shop:Slow", "shop:Slow"),
    ],
)
def test_a_host_may_be_written_as_people_do(frontier: Frontier, given: str, queue: str) -> None:
    assert frontier("host", "plain", given, "--delay", "5").out == f"{queue}: delay 5 s\n"


def test_a_slot_that_a_spider_chose_keeps_its_name(frontier: Frontier, worker: FakeWorker) -> None:
    worker.send(outbox=[request(1, "My.Slot")])
    assert frontier("host", "plain", "My.Slot", "--delay", "5").out == "My.Slot: delay 5 s\n"
    [lease] = worker.send(want=1).leases
    worker.send(acks=[(lease.id, 0, "", "", b"")])  # its queue is gone, what was said of it is not
    assert frontier("host", "plain", "My.Slot", "--reset").out.startswith("My.Slot: nothing special")


@pytest.fixture
def dead_worker(worker: FakeWorker, redis: redis_py.Redis) -> FakeWorker:
    """Two failed requests and a failed seed."""
    worker.send(outbox=[request(1, priority=5), request(2), request(3)])
    leases = worker.send(want=3).leases
    reasons = ["download: TimeoutError", "callback: KeyError", ""]
    acks = [(lease.id, 0, reason, "", b"") for lease, reason in zip(leases, reasons, strict=True)]
    worker.send(acks=acks)
    redis.rpush(SEED_KEY, "no scheme")
    (seed,) = worker.send(seeds=1).leases
    worker.send(acks=[(seed.id, 0, "seed: URL without a scheme", "", b"")])
    return worker


def test_dead_letters_are_listed_newest_first(frontier: Frontier, dead_worker: FakeWorker) -> None:
    rows = frontier("dead", "plain", "--json").rows
    assert [row["reason"] for row in rows] == [
        "seed: URL without a scheme",
        "callback: KeyError",
        "download: TimeoutError",
    ]
    assert rows[0]["seed"] == "no scheme"
    assert rows[2]["url"] == "https://a.example/1"
    assert abs(rows[0]["time"] - time.time()) < 60
    assert [row["reason"] for row in frontier("dead", "plain", "--json", "--reason", "keyerr").rows] == [
        "callback: KeyError"
    ]
    text = frontier("dead", "plain", "--limit", "1").out
    assert "seed 'no scheme'" in text
    assert "1 of 3; --limit 0 shows all" in text


def test_requeue_puts_requests_and_seeds_back(
    frontier: Frontier, dead_worker: FakeWorker, redis: redis_py.Redis
) -> None:
    assert frontier("requeue", "plain", "--reason", "timeout").out.startswith("1 requests queued again, 0 seeds")
    assert frontier("requeue", "plain").out == "1 requests queued again, 1 seeds pushed again; 0 dead letters left\n"
    assert redis.lrange(SEED_KEY, 0, -1) == [b"no scheme"]
    leases = dead_worker.send(want=5).leases
    urls = [payload.url_of(lease.payload) for lease in leases]
    assert urls == ["https://a.example/1", "https://a.example/2"]  # the first has the higher priority
    dead_worker.send(acks=[(lease.id, 0, "", "", b"") for lease in leases])
    assert redis.hlen(BASE + ":requests") == 0


def test_requeue_after_the_end_says_what_to_do(
    frontier: Frontier, dead_worker: FakeWorker, redis: redis_py.Redis
) -> None:
    redis.hset(BASE + ":meta", mapping={"state": "finished", "name": "may"})
    text = frontier("requeue", "plain").out
    assert "run may is finished: they wait for the next one, which `scrapy crawl plain` begins" in text
    assert "FRONTIER_RUN" in text


def test_drop_needs_a_yes(frontier: Frontier, dead_worker: FakeWorker) -> None:
    refused = frontier("drop", "plain")
    assert (refused.returncode, refused.err) == (
        2, "--yes=(not given): this deletes dead letters of plain; say --yes\n",
    )  # fmt: skip
    assert frontier("drop", "plain", "--yes", "--reason", "seed").out == "1 dead letters deleted; 2 left\n"
    assert frontier("drop", "plain", "--yes").out == "2 dead letters deleted; 0 left\n"
    assert frontier("dead", "plain").out == "no dead letters\n"


def test_pause_and_resume(frontier: Frontier, worker: FakeWorker) -> None:
    worker.send(outbox=[request(1)])
    assert "is paused" in frontier("pause", "plain").out
    reply = worker.send(want=5)
    assert (reply.paused, reply.leases) == (True, [])
    assert "PAUSED" in frontier("status", "plain").out
    frontier("resume", "plain")
    reply = worker.send(want=5)
    assert (reply.paused, len(reply.leases)) == (False, 1)


def test_flush_needs_a_yes_and_stops_workers(frontier: Frontier, worker: FakeWorker, redis: redis_py.Redis) -> None:
    worker.send(outbox=[request(n, f"h{n}.example") for n in range(50)])
    worker.send(want=10)
    redis.rpush(SEED_KEY, "https://a.example/")
    redis.set("{crawler:plain2:0}:queue:other", "x")
    assert frontier("flush", "plain").returncode == 2
    assert redis.hlen(BASE + ":requests") == 50
    result = frontier("flush", "plain", "--yes")
    assert result.out == (
        "plain: 50 requests dropped; what was seen is forgotten; "
        "1 seeds still wait in plain:start_urls; 1 workers will stop\n"
    )
    keys = {key.decode() for key in redis.keys("*") if isinstance(key, bytes)}
    assert keys == {BASE + ":meta", BASE + ":memory", SEED_KEY, "{crawler:plain2:0}:queue:other"}
    assert worker.send(want=5).state == "lost"
    assert redis.hlen(BASE + ":requests") == 0
    fresh = FakeWorker(worker.client, "w9")
    assert int(fresh.shard.run) > int(worker.shard.run)
    assert worker.send(want=5).state == "lost"


def test_flush_forgets_what_was_seen_unless_told_or_shared(frontier: Frontier, redis: redis_py.Redis) -> None:
    settings = Settings()
    settings.setmodule("crawler.settings")
    memory = BloomDupeFilter.memory_at(settings, redis, BASE)
    assert memory.add([b"x"]) == b"1"
    assert "what was seen is kept" in frontier("flush", "plain", "--yes", "--keep-seen").out
    shared = Keys("crawler", "plain", "all").frontier
    redis.hset(f"{shared}:meta", "versions", "payload=1 fingerprint=old")
    assert "DEDUP_SCOPE=all shares it" in frontier("flush", "plain", "--yes", DEDUP_SCOPE="all").out
    assert not redis.hexists(f"{shared}:meta", "versions"), "other rules may begin anew, whoever else shares it"
    assert memory.has([b"x"]) == b"1"
    assert "what was seen is forgotten" in frontier("flush", "plain", "--yes").out
    assert memory.has([b"x"]) == b"0"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "action=(not given): must be one of status, watch,"),
        (["stat", "plain"], "action=stat: must be one of status"),
        (["status"], "spider=(not given): name one: scrapy frontier status SPIDER"),
        (["status", "plian"], "spider=plian: no such spider; did you mean plain?"),
        (["status", "plain", "x"], "arguments=status plain x: write scrapy frontier status SPIDER"),
        (["explain", "plain"], "arguments=explain plain: write scrapy frontier explain SPIDER URL"),
        (["explain", "plain", "no-scheme"], "URL=no-scheme: must begin with a scheme"),
        (["pause", "plain", "--json"], "--json=True: not an option of scrapy frontier pause SPIDER"),
        (["dead", "plain", "--limit", "many"], "--limit=many: must be a whole number"),
        (["dead", "plain", "--limit", "-1"], "--limit=-1: must be at least 0"),
        (["dead", "plain", "--jsn=1"], "option=--jsn=1: no such option"),
        (["host", "plain", "a.example", "--delay", "slow"], "--delay=slow: must be a number of seconds"),
        (["host", "plain", "a.example", "--delay", "-1"], "--delay=-1: must be at least 0"),
        (["host", "plain", "a.example", "--concurrency", "0"], "--concurrency=0: must be at least 1"),
        (["hosts", "plain", "--block"], "--block=True: not an option of scrapy frontier hosts SPIDER"),
        (["flush", "plain"], "--yes=(not given): this deletes the queue"),
    ],
)
def test_wrong_words_are_one_line(frontier: Frontier, args: list[str], words: str) -> None:
    result = frontier(*args)
    assert words in result.err
    assert len(result.err.splitlines()) == 1
    assert result.returncode == 2


def test_no_server_is_one_line(frontier: Frontier) -> None:
    result = frontier("status", "plain", url="redis://127.0.0.1:1/0")
    assert result.returncode == 1
    assert len(result.err.splitlines()) == 1


def test_flush_knows_every_key_of_the_catalogue() -> None:
    named = set(re.findall(r"^BASE:([a-z]+)", crawler.keys.__doc__ or "", re.MULTILINE))
    kept = {"meta", "queue", "pinned", "mine", "hosts", "robots", "seeds", "batches", "bye"}  # see there why
    assert named - kept == set(control._FIXED)
