"""The smallest spider: a start page, what to take from a page, the next page. ``scrapy crawl quotes``"""

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Response

from crawler.starts import start_urls


class QuotesSpider(scrapy.Spider):
    """Quotes with their authors and tags. ``-a start=URL`` crawls a copy of the site."""

    name = "quotes"

    def __init__(self, start: str = "https://quotes.toscrape.com/", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start_urls(start)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        """Quotes are items, the next page is a request."""
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "author": quote.css("small.author::text").get(),
                "tags": quote.css("a.tag::text").getall(),
            }
        yield from response.follow_all(response.css("li.next a::attr(href)").getall())
