"""Bytes of Redis per queued request, seen-memory included: ours against scrapy-redis's, for the same requests."""

from __future__ import annotations

from collections.abc import Iterator

import redis
from scrapy import Request
from scrapy.settings import Settings
from scrapy.utils.request import fingerprint
from scrapy_redis.queue import PriorityQueue

from crawler.dedup import BloomDupeFilter
from crawler.frontier import payload
from crawler.frontier.slot import host_of
from tests.integration.frontier_spiders import Plain
from tests.support.server import RedisServer
from tests.support.shard import Shard

COUNT, BATCH = 50_000, 250
SPIDER = Plain()


def requests() -> Iterator[Request]:
    """Links as a crawl finds them: a callback, the depth, the page they were on."""
    for number in range(COUNT):
        host = f"https://www.shop{number % 50}.example/catalogue/category/books"
        yield Request(
            f"{host}/page-{number}.html?page={number % 7}", callback=SPIDER.parse,
            meta={"depth": number % 9}, headers={"Referer": f"{host}/index.html"},
        )  # fmt: skip


def used(client: redis.Redis) -> int:
    """Bytes in use."""
    return int(client.info("memory")["used_memory"])


def ours(client: redis.Redis) -> None:
    """The exchange, and a Bloom filter sized for what it gets."""
    settings = Settings({"BLOOM_CAPACITY": COUNT})
    memory = BloomDupeFilter.memory_at(settings, client, "{bench}")
    shard = Shard(client)
    shard.join()
    outbox, keys = [], []
    for request in requests():
        host = host_of(request)
        outbox.append((host, 0, b"", b"", request.priority, payload.encode(request, SPIDER)))
        keys.append(fingerprint(request))
        if len(outbox) == BATCH:
            shard.say(outbox=outbox)
            memory.add(keys)
            outbox, keys = [], []


def theirs(client: redis.Redis) -> None:
    """scrapy-redis's default queue and dupefilter."""
    queue = PriorityQueue(client, SPIDER, "%(spider)s:requests")
    for request in requests():
        client.sadd("plain:dupefilter", fingerprint(request).hex())
        queue.push(request)


def test_a_queued_request_costs_at_most_half_of_scrapy_redis() -> None:
    costs = []
    for fill in (ours, theirs):
        with RedisServer() as server, server.client() as client:
            before = used(client)
            fill(client)
            costs.append((used(client) - before) / COUNT)
    print(f"\nbytes per queued request: {costs[0]:.0f} ours, {costs[1]:.0f} scrapy-redis ({costs[0] / costs[1]:.2f})")
    assert costs[0] <= costs[1] / 2
