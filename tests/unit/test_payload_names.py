"""Classes and callbacks travel by name, and only those that the spider has or lists."""

from __future__ import annotations

import functools
import threading
from typing import Any

import msgpack
import pytest
from scrapy import Request, Spider
from scrapy.http import FormRequest, HtmlResponse, JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from crawler.frontier.payload import PayloadError, Unserialisable, decode, encode
from tests.unit.payload_spider import (
    URL,
    DeafRequest,
    ForgetfulRequest,
    MySpider,
    SlotRequest,
    SlottedForgetfulRequest,
    UnlistedRequest,
    facts,
    same,
)


@pytest.fixture
def spider() -> MySpider:
    return MySpider()


# ----------------------------------------------------------------------------------------------------- request classes


@pytest.mark.parametrize(
    "request_",
    [
        FormRequest(URL, formdata={"a": "1"}),
        FormRequest(URL, method="GET", formdata={"b": "2"}),
        FormRequest(URL),
        JsonRequest(URL, data={"b": 1, "a": [2]}, dumps_kwargs={"indent": 1}),
        JsonRequest(URL, method="GET", headers={"Accept": "*/*"}),
        XmlRpcRequest(URL, params=(1,), methodname="m"),
        XmlRpcRequest(URL, params=(1,), methodname="m", method="GET", dont_filter=False, encoding="latin-1"),
        SlotRequest(URL, render=("a", 1), meta={"slots": 4}),
    ],
    ids=lambda r: f"{type(r).__name__} {r.method}",
)
def test_classes_come_back(spider: MySpider, request_: Request) -> None:
    back = decode(encode(request_, spider), spider)
    assert type(back) is type(request_)
    assert facts(back) == facts(request_)


def test_headers_a_subclass_adds_and_the_user_removed_stay_removed(spider: MySpider) -> None:
    request = JsonRequest(URL, data={})
    del request.headers["Accept"]
    assert "Accept" not in decode(encode(request, spider), spider).headers


def local_class_request() -> Request:
    class LocalRequest(Request):
        pass

    return LocalRequest(URL)


def slotted() -> Request:
    request = SlottedForgetfulRequest(URL)
    request.country = "de"  # type: ignore[attr-defined]
    return request


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (local_class_request, ["LocalRequest", "inside a function"]),
        (lambda: UnlistedRequest(URL), ["UnlistedRequest", "request_classes = [UnlistedRequest]"]),
        (lambda: ForgetfulRequest(URL), ["'proxy_country'", "ForgetfulRequest", "attributes"]),
        (slotted, ["'country'", "SlottedForgetfulRequest", "attributes"]),
        (lambda: DeafRequest(URL), ["DeafRequest", "__init__ does not take"]),
        (
            lambda: JsonRequest(URL, dumps_kwargs={"default": str}),
            ["attributes['dumps_kwargs']['default']", "builtins.type"],
        ),
    ],
)
def test_classes_that_would_lose_something_are_refused(spider: MySpider, make: Any, words: list[str]) -> None:
    with pytest.raises(Unserialisable) as caught:
        encode(make(), spider)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_class_no_longer_listed_is_named(spider: MySpider) -> None:
    data = encode(SlotRequest(URL), spider)
    spider.request_classes = []
    with pytest.raises(PayloadError, match=r"unknown request class '.*SlotRequest'"):
        decode(data, spider)


# ----------------------------------------------------------------------------------------------------------- callbacks


@pytest.mark.parametrize(
    ("callback", "stored"),
    [
        (lambda s: None, None),
        (lambda s: NO_CALLBACK, False),
        (lambda s: s.parse, "parse"),
        (lambda s: s.parse_item, "parse_item"),
        (lambda s: s.alias, "parse_item"),
        (lambda s: s.decorated, "decorated"),
        (lambda s: s.static, "static"),
        (lambda s: s.of_class, "of_class"),
        (lambda s: s.secret(), "_MySpider__secret"),
        (lambda s: s.base_private(), "_BaseSpider__private"),
    ],
)
def test_callbacks_travel_by_name(spider: MySpider, callback: Any, stored: Any) -> None:
    function = callback(spider)
    data = encode(Request(URL, callback=function, errback=function), spider)
    body = msgpack.unpackb(data, strict_map_key=False)
    assert (body[2] if len(body) > 2 else None) == stored
    back = decode(data, spider)
    assert back.callback == function
    assert back.errback == function


class Other(Spider):
    name = "other"

    def parse(self, response: Any) -> None:
        pass


def closure() -> Any:
    def inner(response: Any) -> None:
        pass

    return inner


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (lambda s: lambda r: r, "is a lambda"),
        (lambda s: closure(), "defined inside a function"),
        (lambda s: Other().parse, "is a method of Other, not of this spider"),
        (lambda s: MySpider().parse, "is a method of MySpider, not of this spider"),
        (lambda s: s.overridden(), "overridden?"),
        (lambda s: functools.partial(s.parse), "is not a method"),
        (lambda s: print, "not of this spider"),
        (lambda s: threading.Thread, "is not a method"),
    ],
)
@pytest.mark.parametrize("role", ["callback", "errback"])
def test_foreign_callbacks_are_refused(spider: MySpider, callback: Any, words: str, role: str) -> None:
    with pytest.raises(Unserialisable, match=f"^{role} ") as caught:
        encode(Request(URL, **{role: callback(spider)}), spider)
    assert words in str(caught.value)


def test_a_function_on_the_instance_is_refused(spider: MySpider) -> None:
    spider.on_the_fly = lambda response: None  # type: ignore[attr-defined]
    with pytest.raises(Unserialisable, match="is a lambda"):
        encode(Request(URL, callback=spider.on_the_fly), spider)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["parse_old", "__init__", "costly", "name", "looked_at", ""])
def test_a_callback_that_is_no_method_is_named(spider: MySpider, name: str) -> None:
    with pytest.raises(PayloadError, match=f"callback '{name}': spider 'mine' has no such method"):
        decode(msgpack.packb([1, URL, name]), spider)
    assert spider.looked_at == []


def test_crawl_spider_rules_survive() -> None:
    class Links(CrawlSpider):
        name = "links"
        rules = (Rule(LinkExtractor(), callback="parse_page"),)

        def parse_page(self, response: Any) -> Any:
            yield {"url": response.url}

    spider = Links()
    response = HtmlResponse(URL, body=b"<a href='/next'>Next</a>", request=Request(URL))
    (request,) = [r for r in spider._requests_to_follow(response) if r]
    back = decode(encode(request, spider), spider)
    assert (back.callback, back.errback) == (spider._callback, spider._errback)
    assert same(back.meta, {"rule": 0, "link_text": "Next"})
