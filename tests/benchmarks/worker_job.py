"""One worker crawls the benchmark's site under one scheduler, in a process of its own; prints one line of JSON.

    python -m tests.benchmarks.worker_job MODE START_URL      (REDIS_URL in the environment)

In the environment, too: BENCH_CONCURRENT, BENCH_SECONDS (stop after so many), BENCH_BORN (when the process was made),
BENCH_TURNS (seconds of each turn with and without metrics, for ours).
MODE: memory (Scrapy alone), lean (Scrapy alone without the two consoles that this project imports late), scrapy-redis,
bloomfilter (scrapy-redis-bloomfilter), ours (this project's settings page), compact (the same with CompactDupeFilter).
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings.default_settings import EXTENSIONS_BASE

DOORS = (".TelnetConsole", ".RemoteControl")
PEERS: dict[str, dict[str, Any]] = {
    "memory": {},
    "lean": {"EXTENSIONS_BASE": {name: order for name, order in EXTENSIONS_BASE.items() if not name.endswith(DOORS)}},
    "scrapy-redis": {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    },
    "bloomfilter": {
        "SCHEDULER": "scrapy_redis_bloomfilter.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis_bloomfilter.dupefilter.RFPDupeFilter",
        "BLOOMFILTER_HASH_NUMBER": 6,
        "BLOOMFILTER_BIT": 24,
    },
}
COMMON = {  # the same work for all: no delay, no robots.txt, quiet logs
    "CONCURRENT_REQUESTS": int(os.environ.get("BENCH_CONCURRENT", "64")),
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "REDIS_URL": os.environ.get("REDIS_URL"),
    "CLOSESPIDER_TIMEOUT": float(os.environ.get("BENCH_SECONDS", "0")),
}


_LOOK = 0.005  # seconds between two looks at the reactor


class Bench(scrapy.Spider):
    """Follows every link; no items."""

    name = "bench"
    url = ""
    asked: list[float]
    came: list[float]

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Bench:
        """Notes when requests reach the downloader and when pages come."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.asked = []
        spider.came = []
        crawler.signals.connect(
            lambda: spider.asked.append(time.time()), scrapy.signals.request_reached_downloader, weak=False
        )
        crawler.signals.connect(lambda: spider.came.append(time.time()), scrapy.signals.response_received, weak=False)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """The one page that leads to all others."""
        yield scrapy.Request(self.url, dont_filter=True)

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        """All links of the page."""
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


def project_settings() -> dict[str, Any]:
    """This project's settings page as it is, but for feeds: peers write none."""
    from crawler import settings as page

    ours = {name: getattr(page, name) for name in dir(page) if name.isupper()}
    return ours | {"FEEDS": {}, "SPIDER_MODULES": [], "CRAWLER_ALLOW_PRIVATE": True, "METRICS_PORT": 0}


def held(function: Callable[..., Any], worst: list[float]) -> Callable[..., Any]:
    """`function`, noting the longest CPU time of one call: so long the reactor could do nothing else."""

    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            worst[0] = max(worst[0], time.thread_time() - began)

    return timed


class Lag:
    """How late the reactor is, looked at every five milliseconds: moments and seconds of what is worth telling."""

    def __init__(self) -> None:
        self.late: list[tuple[float, float]] = []

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_LOOK)
            lag = time.perf_counter() - began - _LOOK
            if lag > 0.002:
                self.late.append((time.time(), round(lag, 4)))


def main(mode: str, url: str) -> None:
    """Crawls once and prints the figures."""
    worst = [0.0]
    settings = dict(PEERS[mode] if mode in PEERS else project_settings())
    if mode == "compact":
        settings["DUPEFILTER_CLASS"] = "crawler.dedup.CompactDupeFilter"
    if mode not in PEERS:
        from crawler.frontier.message import Message, Reply
        from crawler.frontier.worker import Worker

        for owner, name in ((Worker, "collect"), (Worker, "apply"), (Message, "pack")):
            setattr(owner, name, held(getattr(owner, name), worst))
        Reply.unpack = held(Reply.unpack, worst)  # type: ignore[method-assign]
    process = AsyncCrawlerProcess(settings | COMMON)
    crawler = process.create_crawler(Bench)
    lag, watching = Lag(), []
    crawler.signals.connect(
        lambda: watching.append(asyncio.ensure_future(lag.watch())), scrapy.signals.spider_opened, weak=False
    )
    crawler.signals.connect(lambda: [task.cancel() for task in watching], scrapy.signals.spider_closed, weak=False)
    turns: list[dict[str, Any]] = []
    if seconds := float(os.environ.get("BENCH_TURNS", "0")):
        from tests.benchmarks.turns import Turns

        switch = Turns(crawler, seconds)
        turns = switch.done
        crawler.signals.connect(
            lambda: watching.append(asyncio.ensure_future(switch.watch())), scrapy.signals.spider_opened, weak=False
        )
    process.crawl(crawler, url=url)
    process.start()
    assert crawler.stats is not None
    stats = crawler.stats.get_stats()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    pages = stats.get("response_received_count", 0)  # none: the others were faster
    duration = (stats["finish_time"] - stats["start_time"]).total_seconds()
    spider: Any = crawler.spider
    figures = {
        "mode": mode,
        "pages": pages,
        "pages_per_second": round(pages / duration, 1),
        "cpu_ms_per_page": round(1000 * (usage.ru_utime + usage.ru_stime) / max(1, pages), 3),
        "held_ms": round(1000 * worst[0], 2),
        "seconds": round(duration, 3),
        "first_request_ms": round(1000 * ([*spider.asked, time.time()][0] - float(os.environ.get("BENCH_BORN", "0")))),
        "came": [round(moment, 3) for moment in spider.came],
        "late": lag.late,
        "turns": turns,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
