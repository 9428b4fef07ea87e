"""The smallest spider: a start page, what to take from a page, the next page. ``scrapy crawl quotes``"""

import scrapy

from crawler.starts import start_urls


class QuotesSpider(scrapy.Spider):
    name = "quotes"

    def __init__(self, start="https://quotes.toscrape.com/", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = start_urls(start)  # -a start=URL crawls a copy of the site

    def parse(self, response):
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "author": quote.css("small.author::text").get(),
                "tags": quote.css("a.tag::text").getall(),
            }
        yield from response.follow_all(css="li.next a")
