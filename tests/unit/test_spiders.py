"""What the example spiders send survives the way through Redis, and the site spider stays on its site."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, XmlResponse
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from crawler.commands.spider import check_methods
from crawler.errors import ConfigError
from crawler.frontier import payload
from crawler.spiders.books import BooksSpider
from crawler.spiders.quotes import QuotesSpider
from crawler.spiders.site import SiteSpider
from crawler.spiders.sitemap import SiteMapSpider
from tests.support.shops import books_site, quotes_site


def make(cls: type[Spider], **arguments: str) -> Any:
    return get_crawler(cls)._create_spider(**arguments)


def travelled(request: Request, sender: Spider, receiver: Spider | None = None) -> Request:
    """`request` as another worker, with a spider of its own, gets it."""
    return payload.decode(payload.encode(request, sender), receiver or sender)


async def collect(output: Any) -> list[Any]:
    if hasattr(output, "__aiter__"):
        return [element async for element in output]
    return list(output)


def called(request: Request, spider: Spider, body: str) -> list[Any]:
    """What the request's callback gives for a page of this `body`."""
    response = HtmlResponse(request.url, body=body.encode(), encoding="utf-8", request=request)
    callback = request.callback or spider._parse
    return asyncio.run(collect(callback(response, **request.cb_kwargs)))


def test_rules_of_a_crawl_spider_survive_the_queue() -> None:
    pages = books_site(books=4)
    sender, receiver = make(BooksSpider), make(BooksSpider)
    start = Request("https://books.toscrape.com/", callback=sender._parse)
    requests = [element for element in called(start, sender, str(pages["/"])) if isinstance(element, Request)]
    books = []
    for request in requests:
        arrived = travelled(request, sender, receiver)
        assert arrived.callback == receiver._callback
        assert arrived.errback == receiver._errback
        assert arrived.meta == request.meta
        assert {"rule", "link_text"} <= set(arrived.meta)
        path = arrived.url.removeprefix("https://books.toscrape.com")
        books += [item for item in called(arrived, receiver, str(pages[path])) if not isinstance(item, Request)]
    assert sorted(book.title for book in books) == ["Book 0", "Book 1", "Book 2"]  # those of the first page


class Careful(Spider):
    """Takes one argument by name and one by hand."""

    name = "careful"

    def __init__(self, log: str = "", **kwargs: Any) -> None:
        self.begin = kwargs.pop("start", "")
        super().__init__(**kwargs)
        self.log = log  # type: ignore[method-assign,assignment]


def test_an_argument_takes_no_method_s_place() -> None:
    mine = {"start": "https://a.example/", "log": "x", "start_urls": "y", "other": "z"}
    check_methods(make(Careful, **mine), mine)
    check_methods(make(SiteSpider, start="https://a.example/"), {"start": "https://a.example/"})
    for name in ("start", "parse"):
        with pytest.raises(
            ConfigError, match=rf"^-a {name}=no: it would replace the method {name} of Spider: leave it"
        ):
            check_methods(make(Spider, name="x", **{name: "no"}), {name: "no"})


def test_a_seed_of_a_crawl_spider_may_be_a_book() -> None:
    path = "/catalogue/book-0_0/index.html"
    found = called(Request(f"https://books.toscrape.com{path}"), make(BooksSpider), str(books_site(books=4)[path]))
    books = [element for element in found if not isinstance(element, Request)]
    assert [book.title for book in books] == ["Book 0"]


@pytest.mark.parametrize(
    ("cls", "arguments"), [(QuotesSpider, {}), (SiteSpider, {"start": "https://quotes.toscrape.com/"})]
)
def test_links_of_a_page_survive_the_queue(cls: type[Spider], arguments: dict[str, str]) -> None:
    spider = make(cls, **arguments)
    start = Request("https://quotes.toscrape.com/")
    found = [element for element in called(start, spider, str(quotes_site()["/"])) if isinstance(element, Request)]
    assert found
    for request in found:
        assert travelled(request, spider).to_dict(spider=spider) == request.to_dict(spider=spider)


def test_requests_of_a_sitemap_spider_survive_the_queue() -> None:
    spider = make(SiteMapSpider, start="https://a.example/")
    (first,) = asyncio.run(collect(spider.start()))
    assert first.dont_filter
    assert (first.url, travelled(first, spider).callback) == ("https://a.example/robots.txt", spider._parse_sitemap)
    body = b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://a.example/p</loc></url></urlset>'
    (page,) = spider._parse_sitemap(XmlResponse("https://a.example/s.xml", body=body))
    assert travelled(page, spider).callback == spider.parse


@pytest.mark.parametrize(
    ("start", "urls"),
    [
        ("https://a.example/", ["https://a.example/robots.txt"]),
        ("https://a.example/deep/page.html?x=1", ["https://a.example/robots.txt"]),
        ("https://a.example/robots.txt", ["https://a.example/robots.txt"]),
        (
            "https://a.example/s.xml,https://b.example/x.xml.gz",
            ["https://a.example/s.xml", "https://b.example/x.xml.gz"],
        ),
        ("https://a.example/sitemap.txt?page=2", ["https://a.example/sitemap.txt?page=2"]),
    ],
)
def test_where_a_sitemap_is(start: str, urls: list[str]) -> None:
    assert SiteMapSpider(start=start).sitemap_urls == urls


@pytest.mark.parametrize(
    ("start", "link", "followed"),
    [
        ("https://a.example/", "https://a.example/x", True),
        ("https://a.example/", "http://a.example/x", True),
        ("https://a.example/", "http://A.EXAMPLE:80/x", True),
        ("https://a.example/", "https://www.a.example/x", True),
        ("https://www.a.example/", "https://a.example/x", True),
        ("https://a.example/", "https://docs.a.example/x", False),
        ("https://a.example/", "https://a.example.evil.example/x", False),
        ("https://a.example/", "https://a.example:8443/x", False),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/x", True),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:9000/x", False),
        ("https://bücher.example/", "https://xn--bcher-kva.example/x", True),
        ("https://a.example/", "ftp://a.example/x", False),
        ("https://a.example/", "file:///etc/passwd", False),
        ("https://a.example/", "http://a.example:99999/", False),
        ("https://a.example/", "http://[a/", False),
    ],
)
def test_what_is_on_the_site(start: str, link: str, followed: bool) -> None:
    assert SiteSpider(start=start).on_site(link) is followed


@pytest.mark.parametrize("name", ["books", "feed", "quotes", "site", "sitemap"])
def test_every_example_is_listed_and_described(name: str) -> None:
    settings = Settings({"SPIDER_MODULES": ["crawler.spiders"]})
    spider = load_object("scrapy.spiderloader.SpiderLoader").from_settings(settings).load(name)
    assert importlib.import_module(spider.__module__).__doc__
