"""The auditor: a spider middleware that fetches a share of merged URLs after all, to see whether they were one page.

No one can know for every site that a parameter carries no page identity. With ``CANONICAL_AUDIT = 0.01``, of each
hundred different URLs that lost something on the way to their key one is tried: it is fetched, and its canonical form
before and after it. If the canonical form was the same page both times and the other URL was another, a rule eats
pages: that is logged, counted, and shown by ``scrapy canonical --audit SPIDER``. ``CANONICAL_LEARN`` does the same with
parameters that no rule drops, so that ``scrapy canonical --suggest SPIDER`` can propose some.

It looks at requests on their way out of the spider, so it needs nothing from the scheduler or the dupefilter. Its
fetches go through the downloader and all its middlewares (robots.txt and the site's pace hold), not through the queue.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from scrapy import Request, signals
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse

from crawler import config
from crawler.canonical.findings import Findings
from crawler.canonical.fingerprinter import CLASSES, CanonicalFingerprinter
from crawler.canonical.trials import Trial, chosen, learning_trial, merge_trial, page_digest, verdict
from crawler.keys import Keys
from crawler.nodes import Nodes, nodes_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_TEXTS = "//title//text() | //body//text()[not(ancestor::script or ancestor::style or ancestor::template)]"


class AuditMiddleware:
    """Runs the trials. `share` is for URLs that lost something, `learn` for parameters that no rule drops."""

    def __init__(
        self, crawler: Crawler, fingerprinter: CanonicalFingerprinter, base: str, *, share: float, learn: float
    ) -> None:
        self._crawler = crawler
        self._canonicaliser = fingerprinter.canonicaliser
        self._host = fingerprinter.canonical_host
        self._base = base
        self._share, self._learn = share, learn
        self._nodes: Nodes | None = None
        self._told: set[tuple[str, str]] = set()
        self._redis_failed = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> AuditMiddleware:
        """Reads ``CANONICAL_AUDIT`` and ``CANONICAL_LEARN`` (shares from 0, off, to 1)."""
        share = config.number(crawler.settings, "CANONICAL_AUDIT", 0.0, high=1.0)
        learn = config.number(crawler.settings, "CANONICAL_LEARN", 0.0, high=1.0)
        fingerprinter = crawler.request_fingerprinter
        if not share and not learn:
            raise NotConfigured
        if not isinstance(fingerprinter, CanonicalFingerprinter):
            raise NotConfigured("CANONICAL_AUDIT needs crawler.canonical.CanonicalFingerprinter")
        assert crawler.spider
        base = Keys.from_settings(crawler.settings, crawler.spider.name).audit
        audit = cls(crawler, fingerprinter, base, share=share, learn=learn)
        crawler.signals.connect(audit.spider_closed, signals.spider_closed)
        return audit

    async def spider_closed(self) -> None:
        """Lets go of the connection."""
        if self._nodes is not None:
            await self._nodes.aclose()

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Passes everything on, then runs the trials that its requests gave rise to."""
        trials: list[tuple[Trial, Request]] = []
        async for item in result:
            yield item
            if isinstance(item, Request) and item.method == "GET" and not item.body:
                trials += [(trial, item) for trial in self._trials(item)]
        for trial, request in trials:
            if self._crawler.crawling:  # else the worker was told to stop
                await self._run(trial, request)

    def _trials(self, request: Request) -> list[Trial]:
        if request.meta.get("canonical") is False or request.meta.get("verbatim_url"):
            return []
        found = []
        if chosen(request.url, self._share):
            found.append(merge_trial(self._canonicaliser, request.url))
        if self._learn and chosen(f"learn {request.url}", self._learn):
            found.append(learning_trial(self._canonicaliser, request.url))
        return [trial for trial in found if trial]

    async def _run(self, trial: Trial, request: Request) -> None:
        host = self._host(trial.variant)
        try:
            findings = await self._findings()
            if not await findings.first(trial):
                return
            outcome = await self._outcome(trial, request)
            await findings.add(host, trial, outcome)
        except (RedisError, OSError) as error:
            if not self._redis_failed:
                logger.warning("The audit of canonical URLs has no Redis to write to and pauses: %s", error)
            self._redis_failed = True
            return
        self._redis_failed = False
        self._crawler.stats.inc_value(f"canonical/audit/{outcome}")
        if outcome == "changed":
            self._tell(host, trial)

    async def _findings(self) -> Findings:
        if self._nodes is None:
            self._nodes = nodes_of(self._crawler.settings)
        return Findings(await self._nodes.client(self._base), self._base)

    async def _outcome(self, trial: Trial, request: Request) -> str:
        looks = []
        for url in (trial.reference, trial.variant, trial.reference):
            try:
                looks.append(await self._look(url, request))
            except Exception as error:  # noqa: BLE001 - whatever a download may raise: the trial has no answer
                logger.debug("Audit: %s could not be fetched: %s", url, error)
                return "failed"
        return verdict(*looks)

    async def _look(self, url: str, request: Request) -> bytes:
        kept = {key: value for key, value in request.meta.items() if key != CLASSES and not key.startswith("redirect_")}
        meta = {**kept, "canonical": False, "dont_cache": True}
        engine = self._crawler.engine
        response = await engine.download_async(
            request.replace(url=url, meta=meta, callback=None, errback=None, dont_filter=True)
        )
        texts = response.xpath(_TEXTS).getall() if isinstance(response, TextResponse) and response.text else []
        return page_digest(response.status, texts, response.body)

    def _tell(self, host: str, trial: Trial) -> None:
        for subject in trial.subjects:
            if (host, subject) not in self._told and len(self._told) < 1000:
                self._told.add((host, subject))
                logger.warning(
                    "Canonical URLs on %s may eat pages: %r is not what %s and %s should differ in, yet they are two "
                    "pages. See: scrapy canonical --suggest %s",
                    host, subject, trial.variant, trial.reference, self._crawler.spider.name,  # type: ignore[union-attr]
                )  # fmt: skip
