"""Spiders that only the end-to-end tests need. Their argument `start` is the first page of a test site."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

from itemadapter import ItemAdapter
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from crawler.spiders.site import SiteSpider


class _OfSite(Spider):
    """Yields an item per page, follows nothing."""

    def __init__(self, start: str, **arguments: str) -> None:
        super().__init__(**arguments)
        self.first = start.split(",", maxsplit=1)[0]

    def parse(self, response: Response) -> Any:
        yield {"url": response.url, "title": response.css("title::text").get()}


class SameStart(_OfSite):
    """Asks for one page 500 times at its start."""

    name = "same_start"

    async def start(self) -> AsyncIterator[Any]:
        for _ in range(500):
            yield Request(self.first, dont_filter=True)


class LongStart(_OfSite):
    """Knows all pages of the site, and takes 20 ms to think of each."""

    name = "long_start"
    pause = 0.02

    async def start(self) -> AsyncIterator[Any]:
        self.logger.info("start() begins")
        truth = await self.crawler.engine.download_async(Request(f"{self.first}__truth__", callback=NO_CALLBACK))
        for page in json.loads(truth.body)["pages"]:
            await asyncio.sleep(self.pause)
            yield Request(page["url"])
        self.logger.info("start() ends")


class AllPages(LongStart):
    """The same without a pause."""

    name = "all_pages"
    pause = 0.0


class WithFiles(AllPages):
    """Downloads a file of the same host with each page."""

    name = "with_files"
    custom_settings = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}, "FILES_STORE": os.environ.get("TEST_FILES", ""),
        "HTTPCACHE_DIR": os.environ.get("TEST_CACHE", ""), "HTTPCACHE_ENABLED": bool(os.environ.get("TEST_CACHE")),
    }  # fmt: skip

    def parse(self, response: Response) -> Any:
        file = f"{self.first}private/{abs(hash(response.url))}"
        yield {"title": response.css("title::text").get(), "file_urls": [file] if self.settings["FILES_STORE"] else []}


class IdleBatches(_OfSite):
    """Asks for another page each time the crawl has nothing left to do, five times."""

    name = "idle_batches"
    batches = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.next_batch, signal=signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.first)

    def next_batch(self) -> None:
        self.batches += 1
        if self.batches <= 5:
            self.crawler.engine.crawl(Request(f"{self.first}?batch={self.batches}", dont_filter=True))
            raise DontCloseSpider


class BrokenStart(_OfSite):
    """Ten requests, and half-way an error as long as the file named `broken` exists; the tenth page is slow to come."""

    name = "broken_start"

    def __init__(self, start: str, broken: str, **arguments: str) -> None:
        super().__init__(start, **arguments)
        self.broken = Path(broken)

    async def start(self) -> AsyncIterator[Any]:
        for number in range(10):
            if number == 5 and self.broken.exists():
                raise OSError("the list of pages is not to be had")
            yield Request(f"{self.first}?n={number}")


class Private(_OfSite):
    """Asks for what robots.txt forbids and what it allows, in turn, all at once."""

    name = "private"

    async def start(self) -> AsyncIterator[Any]:
        for number, page in enumerate(("", "index.html", "Doc/1", "doc/1", "find?q=2", "find?page=2&q=2")):
            yield Request(f"{self.first}private/{number}")
            yield Request(self.first + page)


class Faulty(SiteSpider):
    """Crawls a test site; the callback of one page in 17 raises at its end, the pipeline of one in 19."""

    name = "faulty"
    custom_settings = {"ITEM_PIPELINES": {"tests.e2e.spiders.FaultyPipeline": 500}}

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield from super().parse(response, **kwargs)
        if page_number(response.css("title::text").get() or "") % 17 == 3:
            raise ValueError("a callback that raises")


class FaultyPipeline:
    """Refuses some pages by an error."""

    def process_item(self, item: Any) -> Any:
        if page_number(ItemAdapter(item)["title"]) % 19 == 4:
            raise ValueError("a pipeline that raises")
        return item


def page_number(title: str) -> int:
    """N of "Page N"; 0 for another title."""
    number = title.removeprefix("Page ")
    return int(number) if number.isdigit() else 0


class Jars(_OfSite):
    """Three customers of a shop, each with a cookie jar: pages of a customer are shown after the login only."""

    name = "jars"

    async def start(self) -> AsyncIterator[Any]:
        for customer in range(3):
            yield self.login(customer, f"{self.first}{customer}/0")

    def login(self, customer: int, page: str) -> Request:
        return Request(
            f"{self.first}{customer}/login", self.logged_in, meta={"cookiejar": customer}, cb_kwargs={"page": page},
            dont_filter=True,
        )  # fmt: skip

    def logged_in(self, response: Response, page: str) -> Any:
        yield Request(page, self.shown, meta={"cookiejar": response.meta["cookiejar"]}, dont_filter=True)

    def shown(self, response: Response) -> Any:
        jar = response.meta["cookiejar"]
        if response.css("title::text").get() == "login":  # the jar came to another worker, without its cookies
            yield self.login(jar, response.url)
            return
        yield {"url": response.url, "title": response.css("title::text").get()}
        for link in response.css("a::attr(href)").getall():
            yield Request(response.urljoin(link), self.shown, meta={"cookiejar": jar})
