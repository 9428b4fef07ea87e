"""``scrapy frontier``: every action on a frontier that the real scripts filled, and every wrong word in one line."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack
import pytest
import redis as redis_py
from rich.console import Console
from scrapy import Request
from scrapy.cmdline import execute
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

import crawler.keys
from crawler.canonical import CanonicalFingerprinter
from crawler.commands.watch import watch
from crawler.dedup import BloomDupeFilter
from crawler.frontier import control as control_module
from crawler.frontier import payload
from crawler.frontier.control import Control
from crawler.frontier.deadletters import DeadLetters
from crawler.frontier.message import ADD, FILTER
from crawler.frontier.seedkey import SeedKey
from crawler.keys import Keys
from tests.integration import frontier_spiders
from tests.support.shard import CONSTANTS, Shard

SPIDER = frontier_spiders.Plain()
KEYS = Keys("crawler", "plain")
BASE, SEED_KEY = KEYS.frontier, "plain:start_urls"


class FakeWorker:
    """One worker of a shard, which speaks without Scrapy."""

    def __init__(self, client: redis_py.Redis, name: str = "w1", **constants: Any) -> None:
        self.client, self.name = client, name
        self.shard = Shard(client, KEYS, CONSTANTS | {"lease": 60_000, **constants}, seed_key=SEED_KEY)
        self.shard.join(name, versions="payload=1")

    def send(self, **fields: Any) -> Any:
        """One exchange."""
        return self.shard.say(self.name, **fields)


class Result(NamedTuple):
    returncode: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Frontier = Callable[..., Result]


@pytest.fixture
def frontier(redis_url: str, capfd: pytest.CaptureFixture[str]) -> Frontier:
    """``scrapy frontier ARGS`` in this process."""

    def run(*args: str, url: str = redis_url, **more: Any) -> Result:
        settings = Settings({"REDIS_URL": url}, priority="project")
        settings.setmodule("crawler.settings", priority=0)
        settings.setdict({"SPIDER_MODULES": [frontier_spiders.__name__], **more}, priority="cmdline")
        with pytest.raises(SystemExit) as exit_:
            execute(["scrapy", "frontier", *args], settings)
        return Result(int(exit_.value.code or 0), *capfd.readouterr())

    return run


@pytest.fixture
def worker(redis: redis_py.Redis) -> FakeWorker:
    return FakeWorker(redis)


def request(number: int, host: str = "a.example", **kwargs: Any) -> Any:
    url = f"https://{host}/{number}"
    data = payload.encode(Request(url, **kwargs), SPIDER)
    return (host, FILTER | ADD, data, data, kwargs.get("priority", 0), data)


def test_status_of_nothing(frontier: Frontier, redis: redis_py.Redis) -> None:
    assert frontier("status", "plain").out == "plain: never crawled with this frontier; 0 seeds wait\n"
    facts = frontier("status", "plain", "--json").rows[0]
    assert (facts["state"], facts["queued"], facts["run"]) == ("none", 0, None)
    assert redis.keys("*") == []


def test_status_counts(frontier: Frontier, worker: FakeWorker, redis: redis_py.Redis) -> None:
    worker.send(outbox=[request(n) for n in range(10)] + [request(n, "b.example") for n in range(5)])
    worker.send(want=4)
    redis.rpush(SEED_KEY, "https://a.example/", "https://b.example/")
    facts = frontier("status", "plain", "--json").rows[0]
    expected = {
        "spider": "plain", "run": "1", "state": "running", "paused": False, "queued": 11, "leased": 4,
        "dead": 0, "seeds": 2,
        "hosts_queued": 2, "hosts_due": 2, "workers_live": 1, "workers_dead": 0, "versions": "payload=1",
        "memory_full": False,
    }  # fmt: skip
    assert {name: facts[name] for name in expected} == expected
    text = frontier("status", "plain").out
    assert "11 queued, 4 leased, 0 done, 0 dead" in text
    assert "1 live, 0 not heard of" in text


def test_watch_shows_rates_until_the_run_ends(worker: FakeWorker, redis: redis_py.Redis) -> None:
    worker.send(outbox=[request(n) for n in range(10)])
    control = Control(redis, BASE, SeedKey(SEED_KEY, "list"))
    out = io.StringIO()
    steps = iter(range(3))

    def pause(seconds: float) -> None:
        """Each time some requests get done; at last the run ends."""
        step = next(steps)
        leases = worker.send(want=5).leases
        reasons = ["callback: KeyError" if step else ""] * len(leases)
        acks = [(lease.id, 0, reason, "", b"") for lease, reason in zip(leases, reasons, strict=True)]
        worker.send(acks=acks, finished=5000 * (step + 1), failed=17)
        if step == 2:
            redis.hset(BASE + ":meta", "state", "finished")

    watch(control, DeadLetters(control), "plain", every=1.0, console=Console(file=out, width=120), pause=pause)
    text = out.getvalue()
    assert "10 queued" in text
    assert "10 done" in text
    looks = [line for line in text.splitlines() if line.startswith("plain run 1 ")]
    assert len(looks) == 4
    assert all(line.endswith("heard of)") for line in looks), "one line each, however long"
    assert "requests/s" in text
    assert "callback: KeyError" in text
    assert "finished" in text
    line = next(line for line in text.splitlines() if line.startswith("w1")).split()
    assert float(line[-3]) > 1000, "requests/s of the worker"
    assert line[-2:] == ["15000", "17"]


def test_watch_ends_at_once_without_a_run(redis: redis_py.Redis) -> None:
    control, out = Control(redis, BASE, SeedKey(SEED_KEY, "list")), io.StringIO()
    watch(control, DeadLetters(control), "plain", console=Console(file=out))
    assert out.getvalue().startswith("plain no run: 0 queued")
    assert out.getvalue().count("\n") == 1


def test_workers_tell_the_dead(frontier: Frontier, worker: FakeWorker, redis: redis_py.Redis) -> None:
    worker.send(held=3, finished=70, failed=2)
    FakeWorker(worker.client, "w2").send()
    beat = redis.hget(BASE + ":workers", "w2")
    assert isinstance(beat, bytes)
    old = msgpack.unpackb(beat, raw=True)
    redis.hset(BASE + ":workers", "w2", msgpack.packb([old[0] - 60_000, *old[1:]], use_bin_type=False))
    rows = frontier("workers", "plain", "--json").rows
    assert [(row["name"], row["live"], row["held"]) for row in rows] == [("w1", True, 3), ("w2", False, 0)]
    assert rows[0]["info"] == "test"
    assert (rows[0]["finished"], rows[0]["failed"]) == (70, 2)
    assert "dead" in frontier("workers", "plain").out


def test_workers_dead_for_an_hour_are_forgotten(worker: FakeWorker, redis: redis_py.Redis) -> None:
    other = FakeWorker(redis, "w2")
    other.send()
    redis.hset(BASE + ":workers", "w2", msgpack.packb([1, False, "test", 0], use_bin_type=False))
    worker.send()
    assert redis.hkeys(BASE + ":workers") == [b"w2", b"w1"]  # looked after every few seconds
    redis.hset(BASE + ":meta", "looked", 1)
    worker.send()
    assert redis.hkeys(BASE + ":workers") == redis.hkeys(BASE + ":replies") == [b"w1"]


def test_hosts(frontier: Frontier, redis: redis_py.Redis) -> None:
    worker = FakeWorker(redis, delay=5000, concurrency=1)
    worker.send(outbox=[request(1), request(2), request(3, "b.example")])
    worker.send(want=1)
    rows = {row["host"]: row for row in frontier("hosts", "plain", "--json").rows}
    assert sum(row["leased"] for row in rows.values()) == 1
    assert sum(row["queued"] for row in rows.values()) == 2
    assert len(frontier("hosts", "plain", "--json", "--limit", "1").rows) == 1
    assert "busy" in frontier("hosts", "plain").out


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


def test_status_tells_what_traps_took_and_who_is_given_up(
    frontier: Frontier, worker: FakeWorker, redis: redis_py.Redis
) -> None:
    worker.send(dropped={"calendar": 3, "depth": 1})
    redis.hset(BASE + ":meta", mapping={"hosts_given_up": 2, "dead_fallen": 9})
    text = frontier("status", "plain").out
    assert "dropped   3 calendar, 1 depth" in text
    assert "2 given up" in text
    assert "9 older ones fell out" in text


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


def test_explain_knows_what_was_seen(frontier: Frontier, redis: redis_py.Redis) -> None:
    settings = Settings()
    settings.setmodule("crawler.settings")
    crawler = Crawler(frontier_spiders.Plain, settings)
    crawler.stats = load_object(settings["STATS_CLASS"])(crawler)
    fingerprint = CanonicalFingerprinter.from_crawler(crawler).fingerprint(Request("https://a.example/1"))
    BloomDupeFilter.memory_at(settings, redis, BASE).add([fingerprint])
    text = frontier("explain", "plain", "https://a.example/1?utm_source=x").out
    assert "seen      yes\nfinished  it is neither queued nor leased nor dead" in text


def test_explain(frontier: Frontier, worker: FakeWorker, redis: redis_py.Redis) -> None:
    worker.send(outbox=[request(n) for n in range(600)])
    url = "https://A.example:443/599?utm_source=x"
    (found,) = frontier("explain", "plain", url, "--json").rows
    assert found["canonical"] == "https://a.example/599"
    assert [queued["place"] for queued in found["queued"]] == [600]
    assert "queued    place 600 of host a.example" in frontier("explain", "plain", url).out
    (lease, *_) = worker.send(want=1).leases
    assert "leased    by w1, the lease ends in" in frontier("explain", "plain", payload.url_of(lease.payload)).out
    worker.send(acks=[(lease.id, 0, "callback: KeyError", "", b"")])
    assert ": callback: KeyError" in frontier("explain", "plain", payload.url_of(lease.payload)).out
    assert "it was never admitted" in frontier("explain", "plain", "https://a.example/none").out


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


@pytest.mark.slow
def test_looks_are_quick_with_a_million_queued(redis: redis_py.Redis) -> None:
    """One host with everything is the worst case: nothing may walk through its queue."""
    FakeWorker(redis)
    script = redis.register_script("""
        for i = 1, 20000 do
          redis.call('HSET', KEYS[1] .. ':requests', ARGV[1] + i, 'x')
          redis.call('ZADD', KEYS[1] .. ':queue:a.example', i, ARGV[1] + i)
        end
        redis.call('ZADD', KEYS[1] .. ':ready', 1, 'a.example')
    """)
    for start in range(0, 1_000_000, 20_000):
        script(keys=[BASE], args=[start])
    control = Control(redis, BASE, SeedKey(SEED_KEY, "list"))
    control.status()
    times = []
    for look in (control.status, control.workers, lambda: control.hosts(20)):
        tries = []
        for _ in range(5):  # the best of them: other tests run beside this one
            began = time.perf_counter()
            look()
            tries.append(time.perf_counter() - began)
        times.append(min(tries))
    assert control.status()["queued"] == 1_000_000
    assert max(times) < 0.05, times


def test_flush_knows_every_key_of_the_catalogue() -> None:
    named = set(re.findall(r"^BASE:([a-z]+)", crawler.keys.__doc__ or "", re.MULTILINE))
    kept = {"meta", "queue", "pinned", "mine", "hosts", "robots", "seeds", "batches", "bye"}  # see there why
    assert named - kept == set(control_module._FIXED)
