"""``scrapy frontier`` looks: status, watch, workers, hosts and explain, on a frontier that the real scripts filled."""

from __future__ import annotations

import io
import time

import msgpack
import pytest
import redis as redis_py
from rich.console import Console
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from crawler.canonical import CanonicalFingerprinter
from crawler.dedup import BloomDupeFilter
from crawler.frontier import payload
from crawler.frontier.control import Control
from crawler.frontier.deadletters import DeadLetters
from crawler.frontier.seedkey import SeedKey
from crawler.frontier.watch import watch
from tests.integration import frontier_spiders
from tests.support.frontier_command import BASE, SEED_KEY, FakeWorker, Frontier, request


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
    assert "2 wait (one that was taken counts as done, and so does its request)" in text
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


def test_status_tells_what_traps_took_and_who_is_given_up(
    frontier: Frontier, worker: FakeWorker, redis: redis_py.Redis
) -> None:
    worker.send(dropped={"calendar": 3, "depth": 1})
    redis.hset(BASE + ":meta", mapping={"hosts_given_up": 2, "dead_fallen": 9})
    text = frontier("status", "plain").out
    assert "dropped   3 calendar, 1 depth" in text
    assert "2 given up" in text
    assert "9 older ones fell out" in text


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
