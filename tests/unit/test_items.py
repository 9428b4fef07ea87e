"""Items carry a key that a repeat has too, whatever kind of item; ``-a start=`` is checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import attrs
import pytest
import scrapy
from scrapy import Request, Spider
from scrapy.http import Response, TextResponse
from scrapy.utils.test import get_crawler

from crawler.errors import ConfigError
from crawler.itemkeys import ItemFingerprint
from crawler.items import Book, Page
from crawler.starts import start_urls


class ItemWith(scrapy.Item):
    fingerprint = scrapy.Field()


class ItemWithout(scrapy.Item):
    title = scrapy.Field()


@dataclass
class DataWithout:
    title: str = ""


@dataclass(frozen=True)
class Frozen:
    fingerprint: str = ""


@attrs.define
class Attrs:
    fingerprint: str = ""


class Fingerprinter:
    """A key that is easy to read: the path."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.rpartition("/")[2].encode()


@pytest.fixture
def middleware() -> ItemFingerprint:
    crawler = get_crawler(Spider, {"REQUEST_FINGERPRINTER_CLASS": Fingerprinter})
    crawler.request_fingerprinter = Fingerprinter()
    return ItemFingerprint.from_crawler(crawler)


def response(path: str) -> Response:
    return TextResponse(f"http://a.example/{path}", request=Request(f"http://a.example/{path}"))


def test_every_kind_of_item_with_the_field_gets_it(middleware: ItemFingerprint) -> None:
    items: list[Any] = [{}, ItemWith(), Attrs(), Page("http://a.example/p", 200, "text/html")]
    out = list(middleware.process_spider_output(response("p"), items))
    keys = [item["fingerprint"] if isinstance(item, (dict, scrapy.Item)) else item.fingerprint for item in out]
    assert keys == [f"{b'p'.hex()}-{number}" for number in range(4)]


def test_a_repeated_page_gives_the_same_keys_and_another_page_others(middleware: ItemFingerprint) -> None:
    def keys(path: str) -> list[str]:
        return [item["fingerprint"] for item in middleware.process_spider_output(response(path), [{}, {}])]

    assert keys("p") == keys("p")
    assert not set(keys("p")) & set(keys("q"))


def test_requests_and_the_spider_s_own_key_stay(middleware: ItemFingerprint) -> None:
    request = Request("http://a.example/next")
    out = list(middleware.process_spider_output(response("p"), [request, {"fingerprint": "mine"}, {}]))
    assert out[0] is request
    assert [item["fingerprint"] for item in out[1:]] == ["mine", f"{b'p'.hex()}-1"]


@pytest.mark.parametrize("item", [ItemWithout(title="x"), DataWithout("x"), Frozen()])
def test_an_item_without_the_field_passes_and_is_named_once(
    middleware: ItemFingerprint, caplog: pytest.LogCaptureFixture, item: Any
) -> None:
    before = repr(item)
    assert list(middleware.process_spider_output(response("p"), [item, item])) == [item, item]
    assert repr(item) == before
    assert [record.message for record in caplog.records if type(item).__name__ in record.message].__len__() == 1


async def _aiter(items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


def test_async_callbacks_too(middleware: ItemFingerprint) -> None:
    import asyncio

    async def run() -> list[Any]:
        return [item async for item in middleware.process_spider_output_async(response("p"), _aiter([{}]))]

    assert asyncio.run(run()) == [{"fingerprint": f"{b'p'.hex()}-0"}]


def test_items_of_start_have_no_request_and_no_key(middleware: ItemFingerprint) -> None:
    import asyncio

    async def run() -> list[Any]:
        return [item async for item in middleware.process_start(_aiter([{"a": 1}]))]

    assert asyncio.run(run()) == [{"a": 1}]


def test_the_project_s_items_have_the_field() -> None:
    assert {"fingerprint"} <= set(Page.__dataclass_fields__) & set(Book.__dataclass_fields__)


@pytest.mark.parametrize(
    ("start", "urls"),
    [
        ("https://a.example/", ["https://a.example/"]),
        ("https://a.example/x,1", ["https://a.example/x,1"]),
        ("https://a.example/x,http://b.example", ["https://a.example/x", "http://b.example"]),
        (" https://a.example/ \n https://b.example/, ", ["https://a.example/", "https://b.example/"]),
        ("https://bücher.example/ä", ["https://xn--bcher-kva.example/%C3%A4"]),
        ("http://127.0.0.1:8000", ["http://127.0.0.1:8000"]),
    ],
)
def test_start_urls(start: str, urls: list[str]) -> None:
    assert start_urls(start) == urls


@pytest.mark.parametrize(
    "start", ["", " , ", "a.example", "ftp://a.example/", "https://", "http://a.example:99999/", "http://[a/", "/etc"]
)
def test_unusable_start(start: str) -> None:
    with pytest.raises(ConfigError, match=r"^start=.*-a start=https://example\.com/"):
        start_urls(start)
