"""A worker without downloader: says what a crawl says to the frontier, as fast as it is answered."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

import redis
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawler.canonical import CanonicalFingerprinter
from crawler.dedup import BloomDupeFilter
from crawler.dedup.dupefilter import RedisDupeFilter
from crawler.frontier import payload
from crawler.frontier.control import Control
from crawler.frontier.message import ADD, FILTER, Message, Reply
from crawler.frontier.policy import Policy
from crawler.frontier.script import source
from crawler.frontier.seedkey import SeedKey
from crawler.frontier.slot import host_of
from crawler.keys import Keys

BATCH = 256
CAPACITY = 1_200_000  # of the memory's first layer
INTERNAL = 0.9  # share of a page's links that stays on its host


@dataclass(frozen=True)
class Mix:
    """What pages are like: hosts in all, links of a page, share of them seen before."""

    hosts: int
    links: int
    repeats: float


FIFTY = Mix(1000, 50, 0.8)


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
    mix: Mix = FIFTY
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
        host = number % self.mix.hosts
        return Request(f"https://www.site{host}.example/articles/{number}/some-title-of-it?page={number % 7}")

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
        self.made, hosts = made, self.mix.hosts
        self.last = [made - hosts + (host - made) % hosts for host in range(hosts)]

    def page(self, host: int) -> list[Any]:
        """The links of a page of a host."""
        numbers, hosts = [], self.mix.hosts
        for _ in range(self.mix.links):
            there = host if self.rng.random() < INTERNAL else self.rng.randrange(hosts)
            last = self.last[there]
            if self.rng.random() < self.mix.repeats:
                numbers.append(self.rng.randrange(there, last + 1, hosts))
            else:
                self.last[there] = last + hosts
                numbers.append(last + hosts)
        return [self.entry(number) for number in numbers]

    def crawl(self, pages: int, per: int = 5) -> float:
        """Leases, acknowledges and admits the links of `pages` pages, `per` to an exchange; server CPU seconds."""
        began, done = cpu(self.client), 0
        acks: list[Any] = []
        hosts: list[int] = []
        while done < pages:
            outbox = [entry for host in hosts for entry in self.page(host)]
            leases = self.say(outbox=outbox, acks=acks, want=per, ahead=per).leases
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
