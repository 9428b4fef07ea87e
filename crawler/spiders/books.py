"""A shop: rules say which links to follow, an item class says what a product is. ``scrapy crawl books``"""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from crawler.items import Book
from crawler.starts import start_urls

RATINGS = {"One": 1, "Two": 2, "Three": 3, "Four": 4, "Five": 5}


class BooksSpider(CrawlSpider):
    """Every book of the shop, by category. ``-a start=URL`` crawls a copy of the site."""

    name = "books"
    rules = (
        Rule(LinkExtractor(restrict_css=(".nav-list", ".pager"))),
        Rule(LinkExtractor(restrict_css=".product_pod h3"), callback="parse_book"),
    )
    # The feeds of this spider only. The default is the same file with the fields as they come.
    custom_settings = {
        "FEEDS": {
            "%(feed_dir)s/%(name)s/%(worker)s.jsonl": {
                "format": "jsonlines",
                "fields": ["title", "price", "currency", "rating", "in_stock", "category", "url", "fingerprint"],
            }
        }
    }

    def __init__(self, start: str = "https://books.toscrape.com/", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start_urls(start)
        self.allowed_domains = [urlsplit(url).hostname for url in self.start_urls]

    def parse_start_url(self, response: Response, **kwargs: Any) -> Iterable[Book]:
        """A seed may be a book; the start page is a list."""
        return self.parse_book(response) if response.css(".product_main") else ()

    def parse_book(self, response: Response) -> Iterator[Book]:
        """A product page. A missing part raises: then the request is among the dead letters, with the reason."""
        product = response.css(".product_main")
        price = product.css(".price_color::text")
        yield Book(
            url=response.url,
            title=product.css("h1::text").get(""),
            price=float(price.re_first(r"[\d.]+", "")),
            currency=price.re_first(r"[^\d.\s]+", ""),
            rating=RATINGS[product.css(".star-rating").attrib["class"].split()[-1]],
            in_stock="In stock" in "".join(product.css(".availability::text").getall()),
            category=response.css(".breadcrumb li:nth-last-child(2) a::text").get(""),
        )
