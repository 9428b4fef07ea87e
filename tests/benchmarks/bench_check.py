"""`make bench-check`: did a change make the frontier dearer? Minutes on any machine, busy or not.

No absolute times: commands that the server executes and round trips are counted, and CPU is compared with a known piece
of work measured alternately with it in the same run. A limit is a tenth or two above what was measured when it was set;
who makes something cheaper lowers it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import redis
from scrapy.utils.request import fingerprint

from crawler.frontier.message import Message, columns
from tests.benchmarks.bench_frontier import KINDS
from tests.benchmarks.bench_worker import crawl, plain_site, reads
from tests.benchmarks.driver import Driver, cpu
from tests.site.server import SiteProcess
from tests.support.server import RedisServer

ROUNDS = 9

# What a piece of work costs at most: in commands, round trips, or times the work it is compared with.
LIMITS = {
    "commands of an exchange that says nothing": 35,  # 17 of them look at keys' types: an error would leave half-writes
    "commands per page of 50 links, compact": 66,
    "commands per page of 50 links, bitmap": 77,
    "server: page of 50 links, compact, in 100 GETRANGE from Lua": 5.0,
    "server: page of 50 links, bitmap, in 100 GETRANGE from Lua": 8.0,
    "worker: an admission packed, in fingerprints by Scrapy": 0.05,
    "worker: round trips per page of a small crawl": 0.14,
}
YARDSTICK = "for i = 1, 100000 do redis.call('GETRANGE', 'yardstick', '1000', '1071') end"


def commands(client: redis.Redis) -> int:
    """Commands executed, those inside of scripts included."""
    stats: Any = client.info("commandstats")
    return int(sum(row["calls"] for row in stats.values()))


def alternately(one: Callable[[], float], other: Callable[[], float]) -> float:
    """Median ratio of two measurements that take turns."""
    return statistics.median(one() / other() for _ in range(ROUNDS))


def of_the_server(kind: str) -> dict[str, float]:
    """Counts and ratios of the exchange."""
    short = kind.split(maxsplit=1)[0]
    with RedisServer() as server, server.client() as client:
        driver = Driver(client, KINDS[kind])
        driver.fill(10_000)
        client.set("yardstick", b"x" * 10_000)

        def yardstick() -> float:
            began = cpu(client)
            client.eval(YARDSTICK, 0)
            return (cpu(client) - began) / 1000

        before = commands(client)
        for _ in range(100):
            driver.say()
        silent = (commands(client) - before) / 100
        before = commands(client)
        driver.crawl(500)
        page = (commands(client) - before) / 500
        ratio = alternately(lambda: driver.crawl(250) / 250, yardstick)
    found = {
        f"commands per page of 50 links, {short}": page,
        f"server: page of 50 links, {short}, in 100 GETRANGE from Lua": ratio,
    }
    return found | ({"commands of an exchange that says nothing": silent} if short == "compact" else {})


def of_the_worker() -> dict[str, float]:
    """What packing costs, and how often a crawl asks."""
    with RedisServer() as server, server.client() as client:
        driver = Driver(client)
        requests = [driver.request(number) for number in range(256)]
        entries = [driver.entry(number) for number in range(256)]

        def packed() -> float:
            began = time.thread_time()
            for _ in range(20):
                Message("w", 1, "1", outbox=entries).pack(driver.constants)
            return (time.thread_time() - began) / 20

        def fingerprints() -> float:
            copies = [request.copy() for request in requests]  # Scrapy remembers fingerprints by request
            began = time.thread_time()
            for request in copies:
                fingerprint(request)
            return time.thread_time() - began

        ratio = alternately(packed, fingerprints)
        assert columns(entries)
        with SiteProcess(plain_site(600)) as site:
            client.flushall()
            before = reads(client)
            pages = crawl("ours", site.start, server.port, 1)["pages"]
            trips = (reads(client) - before - 1) / pages
    return {
        "worker: an admission packed, in fingerprints by Scrapy": ratio,
        "worker: round trips per page of a small crawl": trips,
    }


def main() -> int:
    """Prints every figure beside its limit; 1 if one is above."""
    found = {name: value for kind in KINDS for name, value in of_the_server(kind).items()} | of_the_worker()
    worse = [name for name, value in found.items() if value > LIMITS[name]]
    for name, value in found.items():
        print(f"{'ABOVE' if name in worse else 'ok':>5}  {value:8.3f}  limit {LIMITS[name]:<6g}  {name}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
