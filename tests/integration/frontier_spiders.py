"""Spiders for tests of seeds, dead letters and control: ``-s SPIDER_MODULES=tests.integration.frontier_spiders``."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy_redis.spiders import RedisSpider

from crawler.canonical import CanonicalFingerprinter


class Plain(Spider):
    """Crawls its seeds, then ends."""

    name = "plain"

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url, "method": response.request.method if response.request else "", "kwargs": kwargs}

    def parse_old(self, response: Response) -> None:
        """Was here when the requests were queued; RENAMED=1 is the deploy that renames it."""

    def parse_named(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url, "callback": "parse_named", "kwargs": kwargs}


if os.environ.get("RENAMED"):
    del Plain.parse_old


class Fed(RedisSpider):  # type: ignore[misc]  # scrapy-redis has no types
    """Waits for seeds."""

    name = "fed"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


class Own(Fed):
    """Reads seeds in a format of its own: ``BASE-URL FIRST LAST``."""

    name = "own"

    def make_request_from_data(self, data: bytes) -> Any:
        base, first, last = data.decode().split()
        for number in range(int(first), int(last) + 1):
            yield Request(f"{base}{number}", dont_filter=True)


class OfSet(Fed):
    name = "ofset"
    redis_key = "my:%(name)s"
    custom_settings = {"REDIS_START_URLS_AS_SET": True}


class OfZset(Fed):
    name = "ofzset"
    custom_settings = {"REDIS_START_URLS_AS_ZSET": True}


class Broken(Spider):
    name = "broken"
    redis_key = "%(spider)s:seeds"


class Mixed(Spider):
    """One callback that yields requests which can travel and requests which can't; argument `site`: its URL."""

    name = "mixed"
    count = 200

    async def start(self) -> AsyncIterator[Any]:
        yield Request(f"{self.site}/")  # type: ignore[attr-defined]

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(self.count):
            yield response.follow(f"/good/{number}", callback=self.parse_leaf)
            if number % 2:
                yield response.follow(f"/bad/{number}", callback=self.closure())
            else:
                yield response.follow(f"/bad/{number}", callback=self.parse_leaf, meta={"lock": threading.Lock()})

    def parse_leaf(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}

    def closure(self) -> Any:
        """A callback that no other process could find."""

        def inner(response: Response) -> Iterator[Any]:
            yield {"url": response.url}

        return inner


class Copies(Spider):
    """Requests that copy their page's meta, with and without a slot of the user's; argument `site`: its URL."""

    name = "copies"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(f"{self.site}/1")  # type: ignore[attr-defined]
        yield Request(f"{self.site}/2", meta={"download_slot": "mine"})  # type: ignore[attr-defined]

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "slot": response.meta.get("download_slot"), "meta": sorted(response.meta)}
        if response.meta["depth"] < 2:
            yield response.follow(f"{response.url}{response.meta['depth']}", meta=response.meta)


class Links(Spider):
    """Follows ten links that a fingerprinter takes and three that it does not; argument `site`: its URL."""

    name = "links"
    custom_settings = {"REQUEST_FINGERPRINTER_CLASS": "tests.integration.frontier_spiders.OddFingerprinter"}

    async def start(self) -> AsyncIterator[Any]:
        yield Request(f"{self.site}/")  # type: ignore[attr-defined]

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(10):
            if number < 3:
                yield response.follow(f"/bad/{number}", callback=self.parse_leaf, priority=number)
            yield response.follow(f"/good/{number}", callback=self.parse_leaf)

    def parse_leaf(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


class OddFingerprinter(CanonicalFingerprinter):
    """A user's rule with a bug."""

    def fingerprint(self, request: Request) -> bytes:
        if request.url.endswith("/bad/0"):
            return "no bytes"  # type: ignore[return-value]
        if "/bad/" in request.url:
            raise ZeroDivisionError("a rule\nof the user's")
        return super().fingerprint(request)
