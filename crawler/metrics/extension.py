"""The extension: one endpoint per crawl that shows, when asked, what the crawl's stats, scheduler and Redis know.

Nothing is counted twice: what nobody else counts is in :mod:`crawler.metrics.instruments`, and how many items a
pipeline raised on goes into Scrapy's stats as ``item_error_count``.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from redis.exceptions import RedisError
from scrapy import signals
from scrapy.exceptions import NotConfigured

from crawler import config, connection
from crawler.dedup.options import capacity
from crawler.errors import ConfigError, CrawlerError
from crawler.frontier.fed import feed_key
from crawler.frontier.policy import host_delays
from crawler.frontier.scheduler import Scheduler, shared_scheduler
from crawler.keys import Keys, shards_of
from crawler.metrics import frontier, stats
from crawler.metrics.files import Discovery, Textfile
from crawler.metrics.health import Health, Verdict
from crawler.metrics.instruments import Instruments
from crawler.metrics.options import Options
from crawler.metrics.sample import Sample, Sampler
from crawler.metrics.server import Answer, Server

if TYPE_CHECKING:
    from typing import Self

    import redis
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

_SAMPLE_SECONDS = 1.0  # patience with Redis during a scrape
_FILES_SECONDS = 10.0  # between two writings of the files


class MetricsExtension(Collector):
    """Settings: ``METRICS_*``. Also the collector of its registry."""

    def __init__(self, crawler: Crawler, options: Options, registry: CollectorRegistry | None = None) -> None:
        self.crawler, self.options = crawler, options
        self.registry = registry or CollectorRegistry()
        self.server: Server | None = None
        self.health = Health(time.monotonic(), shared=False)
        self._labels: dict[str, str] = {}
        self._info: dict[str, str] = {}
        self._sampler: Sampler | None = None
        self._sample: Sample | None = None
        self._instruments: Instruments | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._files: list[Textfile | Discovery] = []
        self._failing: set[Path | str] = set()  # what cannot be written or read now, which the log has said
        self._opened, self._watched = time.monotonic(), False  # whether anybody ever looked
        self._scraped, self._stopped = asyncio.Event(), asyncio.Event()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises ConfigError for the first unusable setting, NotConfigured with ``METRICS_ENABLED=0``."""
        if not config.flag(crawler.settings, "METRICS_ENABLED", True):
            raise NotConfigured
        config.worker_name(crawler.settings, "")
        extension = cls(crawler, Options.from_settings(crawler.settings))
        connect = crawler.signals.connect
        connect(extension.spider_opened, signal=signals.spider_opened)
        connect(extension.spider_closed, signal=signals.spider_closed)
        connect(extension.engine_stopped, signal=signals.engine_stopped)
        connect(extension.response_downloaded, signal=signals.response_downloaded)
        connect(extension.item_error, signal=signals.item_error)
        return extension

    # From Scrapy.
    async def spider_opened(self, spider: Spider) -> None:
        """Begins to serve."""
        scheduler = self._scheduler
        self._labels = {"spider": spider.name}
        self._info = self._describe(scheduler)
        self._register(scheduler)
        if scheduler is not None and scheduler.link is not None:
            self._sampler = self._make_sampler(spider)
        routes = {"/metrics": self._metrics, "/healthz": self._healthz, "/readyz": self._readyz, "/livez": self._livez}
        server = Server(self.options.host, self.options.port, routes)
        try:
            await server.start()
        except ConfigError as error:  # an endpoint less is no reason to crawl less
            logger.error("%s: this worker has no metrics endpoint", error)
        else:
            self.server = server
            taken = f" (METRICS_PORT={self.options.port} is taken)" if server.moved else ""
            logger.info("Metrics: http://%s/metrics%s", server.address, taken)
        self._files = self._make_files(spider)
        self._ticking = asyncio.create_task(self._tick(), name="metrics files")

    async def spider_closed(self, spider: Spider, reason: str) -> None:
        """Stays for one more scrape, then stops."""
        self.health.closing = True
        if self.server is not None and reason not in ("shutdown", "run_finished"):
            await self._linger()
        await self._stop()

    async def engine_stopped(self) -> None:
        """A signal while lingering: the end is now."""
        self._stopped.set()
        await self._stop()

    def response_downloaded(self, response: Response, request: Request) -> None:
        """A response came over the network; one from a cache has no such signal."""
        if self._instruments is not None:
            self._instruments.response(response.status, request.meta.get("download_latency"))

    def item_error(self) -> None:
        """A pipeline raised."""
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("item_error_count")

    # Set-up.
    @property
    def _scheduler(self) -> Scheduler | None:
        return shared_scheduler(self.crawler)

    @property
    def _worker_name(self) -> str:
        return config.worker_name(self.crawler.settings, platform.node())

    def _describe(self, scheduler: Scheduler | None) -> dict[str, str]:
        return {
            "worker": self._worker_name,
            "lease_owner": scheduler.worker_name if scheduler is not None else "",
            "host": platform.node(),
            "scrapy": scrapy.__version__,
            "python": platform.python_version(),
        }

    def _register(self, scheduler: Scheduler | None) -> None:
        link = scheduler.link if scheduler is not None else None
        instruments = self._instruments = Instruments(self.registry, self._labels, shared=link is not None)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(self)
        if link is not None:
            health = self.health = Health(time.monotonic(), shared=True)

            def observe(seconds: float) -> None:
                instruments.exchange(seconds)
                health.exchanged(time.monotonic())

            link.observe = observe

    def _make_sampler(self, spider: Spider) -> Sampler:
        settings = self.crawler.settings
        keys = Keys.from_settings(settings, spider.name)
        shards = [(shard.frontier, shard.dedup) for shard in keys.spread(shards_of(settings))]

        def connect() -> redis.Redis:
            patience = {"socket_timeout": _SAMPLE_SECONDS, "socket_connect_timeout": _SAMPLE_SECONDS}
            return connection.sync_client(settings, single_connection_client=True, **patience)

        delay, delays = host_delays(settings)
        ordinary = max([2 * seconds for seconds in (delay, *delays.values())])
        if config.flag(settings, "ROBOTSTXT_OBEY", True):
            ordinary = max(ordinary, 1 + config.number(settings, "FRONTIER_CRAWL_DELAY_MAX", 30))
        limit = 0 if config.flag(settings, "BLOOM_GROWTH", True) else capacity(settings)
        seeds, _ = feed_key(spider, settings)
        return Sampler(connect, shards, seeds, ordinary, limit)

    def _make_files(self, spider: Spider) -> list[Textfile | Discovery]:
        files: list[Textfile | Discovery] = []
        options, worker = self.options, self._worker_name
        if options.textfile is not None:
            files.append(Textfile(options.textfile, worker, self.registry))
        if options.discovery is not None and self.server is not None:
            files.append(Discovery(options.discovery, self.server.address, {"spider": spider.name, "worker": worker}))
        return files

    # What is shown.
    def describe(self) -> list[Metric]:
        """Nothing: families depend on the moment."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every family, from what others have counted up to now."""
        info = GaugeMetricFamily("crawler_worker_info", "1; who this is.", labels=[*self._labels, *self._info])
        info.add_metric([*self._labels.values(), *self._info.values()], 1)
        yield info
        report = getattr(self.crawler.request_fingerprinter, "report", None)
        if report is not None:
            report()  # it brings its stats up to date only now and then
        assert self.crawler.stats is not None
        yield from stats.families(self.crawler.stats.get_stats(), self._labels)
        if (scheduler := self._scheduler) is not None:
            yield from frontier.families(scheduler, self._sample, self._labels)

    async def _refresh(self) -> None:
        """Asks Redis; without an answer (for a second) its families are left out rather than outdated."""
        if self._sampler is None:
            return
        try:
            self._sample = await self._sampler.sample(anew=self.health.closing)
        except Exception as error:
            self._sample = None
            self._sampler.close()
            if not isinstance(error, (RedisError, OSError, CrawlerError)) and "sample" not in self._failing:
                logger.exception("Metrics: what Redis holds for them cannot be understood")
                self._failing.add("sample")

    async def _metrics(self, headers: Mapping[str, str]) -> Answer:
        await self._refresh()
        encode, content_type = choose_encoder(headers.get("accept", ""))
        body = encode(self.registry)
        self._watched = True
        if self.health.closing:
            self._scraped.set()
        return Answer(body, 200, content_type)

    async def _healthz(self, _: Mapping[str, str]) -> Answer:
        return _probe(self.health.healthy(time.monotonic()))

    async def _readyz(self, _: Mapping[str, str]) -> Answer:
        engine: Any = self.crawler.engine
        if engine is not None and engine._slot is not None and engine._slot.closing is not None:
            return _probe(Verdict(False, "closing"))  # within FRONTIER_GRACE, long before `spider_closed`
        return _probe(self.health.ready(time.monotonic()))

    async def _livez(self, _: Mapping[str, str]) -> Answer:
        return _probe(Verdict(True, "ok"))

    # Files and the end.
    async def _tick(self) -> None:
        while True:
            await self._write_files()
            await asyncio.sleep(_FILES_SECONDS)

    async def _write_files(self) -> None:
        for file in self._files:
            if isinstance(file, Textfile):
                await self._refresh()
            await self._at(file, file.write)

    async def _at(self, file: Textfile | Discovery, write: Callable[[], None]) -> None:
        """A textfile is made on the loop, where what it tells is counted; the discovery asks around, in a thread."""
        try:
            write() if isinstance(file, Textfile) else await asyncio.to_thread(write)
            self._failing.discard(file.path)
        except Exception as error:  # noqa: BLE001 (a stat that breaks what reads it must not keep the end from coming)
            if file.path not in self._failing:
                reason = (isinstance(error, OSError) and error.strerror) or repr(error)
                logger.warning("%s cannot be written (%s): tried again every 10 s", file.path, reason)
            self._failing.add(file.path)

    async def _linger(self) -> None:
        """Until Prometheus has seen the end, METRICS_LINGER seconds at most; not when nobody has looked for so long."""
        patience = self.options.linger
        if not patience or (not self._watched and time.monotonic() - self._opened >= patience):
            return
        logger.info("Waiting up to %g s for the last scrape (METRICS_LINGER)", patience)
        events = [asyncio.create_task(event.wait()) for event in (self._scraped, self._stopped)]
        await asyncio.wait(events, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        for event in events:
            event.cancel()

    async def _stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._files, files = [], self._files
        for file in files:
            await self._at(file, file.leave)
        server, self.server = self.server, None
        if server is not None:
            await server.stop()
        if self._sampler is not None:
            self._sampler.close()


def _probe(verdict: Verdict) -> Answer:
    return Answer(f"{verdict.text}\n".encode(), 200 if verdict.ok else 503)
