"""Requests as bytes: everything that goes in comes out, and what can't go in is said with its place."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import HtmlResponse

from crawler.frontier import values
from crawler.frontier.payload import MAX_BYTES, Unserialisable, decode, encode, url_of
from tests.unit.payload_spider import (
    BASE,
    URL,
    VALUES,
    MySpider,
    Point,
    facts,
    same,
)


@pytest.fixture
def spider() -> MySpider:
    return MySpider()


# ---------------------------------------------------------------------------------------------------------- round trips


def test_plain_get_is_small_and_exact(spider: MySpider) -> None:
    request = Request(URL, callback=spider.parse_item, meta={"depth": 3})
    data = encode(request, spider)
    assert len(data) - len(URL) < 40
    assert URL.encode() in data
    assert url_of(data) == URL
    back = decode(data, spider)
    assert facts(back) == facts(request)
    assert back.callback == spider.parse_item
    assert type(back) is Request


def test_every_attribute_travels(spider: MySpider) -> None:
    request = Request(
        URL,
        callback=spider.parse_item,
        method="PUT",
        headers={"X-A": ["1", "2"], "Referer": "https://a.example/ü"},
        body="ä".encode("latin-1"),
        cookies=[{"name": "n", "value": "v", "secure": True}],
        meta={"a": 1},
        encoding="latin-1",
        priority=-7,
        dont_filter=True,
        errback=spider.failed,
        flags=["f"],
        cb_kwargs={"k": [1]},
    )
    back = decode(encode(request, spider), spider)
    assert facts(back) == facts(request)
    assert back.headers.getlist("X-A") == [b"1", b"2"]
    assert back.headers.encoding == "latin-1"


@pytest.mark.parametrize(
    "url",
    [
        "https://site.example/%E4%B8%AD?q=%zz&b=a+b#frag",
        "about:blank",
        "data:text/html,%3Cp%3Ehello",
        "s3://bucket/key",
        "https://[2001:db8::1]:8443/a|b",
    ],
)
def test_urls_come_back_as_they_were(spider: MySpider, url: str) -> None:
    request = Request(url)
    back = decode(encode(request, spider), spider)
    assert back.url == request.url
    assert back.meta == {}


@pytest.mark.parametrize(
    ("referer", "more"),
    [
        (URL, 10),
        ("https://site.example/catalogue/", 10),
        ("https://site.example/", 10),
        ("https://site.example", 30),
        ("https://other.example/ü", 40),
        ("x", 12),
        ("", 12),
        (URL + "&b=2", 14),
    ],
)
def test_a_referer_costs_what_differs_from_the_url(spider: MySpider, referer: str, more: int) -> None:
    request = Request(URL, headers={"Referer": referer})
    data = encode(request, spider)
    assert len(data) - len(encode(Request(URL), spider)) <= more
    assert facts(decode(data, spider)) == facts(request)


@pytest.mark.parametrize("headers", [{"Referer": ["a", "b"]}, {"Referer": URL, "X": "1"}, {"X": "1", "Referer": URL}])
def test_a_referer_among_other_headers_keeps_its_place(spider: MySpider, headers: dict[str, Any]) -> None:
    request = Request(URL, headers=headers)
    back = decode(encode(request, spider), spider)
    assert list(back.headers.items()) == list(request.headers.items())


def test_verbatim_urls_stay_verbatim(spider: MySpider) -> None:
    request = Request("https://site.example/a b/ü", meta={"verbatim_url": True})
    back = decode(encode(request, spider), spider)
    assert back.url == "https://site.example/a b/ü"
    assert back.meta == {"verbatim_url": True}


def test_an_unsafe_url_in_a_payload_is_quoted(spider: MySpider) -> None:
    data = msgpack.packb([1, "https://site.example/a\r\nX-Evil: 1"])
    assert "\n" not in decode(data, spider).url


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)  # the repr of a set changes
def test_values_keep_their_types(spider: MySpider, value: Any) -> None:
    request = Request(URL, meta={"v": value, "nested": [{"v": (value,)}]}, cb_kwargs={"v": value}, cookies={"v": "1"})
    back = decode(encode(request, spider), spider)
    if isinstance(value, decimal.Decimal) and value.is_nan():
        assert back.meta["v"].is_nan()
        return
    assert same(back.meta, request.meta)
    assert same(back.cb_kwargs, request.cb_kwargs)


def test_time_zones_come_back_with_name_and_fold(spider: MySpider) -> None:
    when = BASE.replace(fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    back = decode(encode(Request(URL, meta={"t": when}), spider), spider).meta["t"]
    assert (back.tzinfo.key, back.fold) == ("Europe/Berlin", 1)


def test_strings_of_lxml_become_plain_strings(spider: MySpider) -> None:
    text = HtmlResponse(URL, body=b"<p>hello</p>").selector.root.xpath("//p/text()")[0]
    assert type(text) is not str
    back = decode(encode(Request(URL, meta={"t": text}), spider), spider)
    assert same(back.meta, {"t": "hello"})


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids(),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers() | st.binary(), inner)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), plain))
def test_whatever_travels_comes_back(meta: dict[str, Any]) -> None:
    assert same(values.unpack(values.pack(meta)), meta)


# ---------------------------------------------------------------------------------------------------------------- meta


@pytest.mark.parametrize(
    ("url", "meta", "headers", "kept"),
    [
        (URL, {"download_slot": "site.example", "a": 1}, {}, {"a": 1}),
        (URL, {"download_slot": "mine"}, {}, {"download_slot": "mine"}),
        (URL, {"download_slot": None}, {}, {"download_slot": None}),
        (URL, {"download_slot": "old.example"}, {}, {"download_slot": "old.example"}),
        (
            URL,
            {"download_slot": "group.example"},
            {"Referer": "http://group.example/"},
            {"download_slot": "group.example"},
        ),
        (
            URL,
            {"download_slot": "old.example", "redirect_urls": ["http://old.example:81/x"]},
            {},
            {"redirect_urls": ["http://old.example:81/x"]},
        ),
        (
            URL,
            {"download_latency": 0.1, "cached_response": object(), "cache_timestamp": 1.0, "download_timeout": 9},
            {},
            {"download_timeout": 9},
        ),
    ],
)
def test_what_scrapy_wrote_for_one_download_stays_behind(
    spider: MySpider, url: str, meta: dict[str, Any], headers: dict[str, str], kept: dict[str, Any]
) -> None:
    request = Request(url, meta=meta, headers=headers)
    assert decode(encode(request, spider), spider).meta == kept
    assert request.meta == meta  # the request itself is untouched


class Box:
    pass


def own_tail() -> list[Any]:
    tail: list[Any] = []
    tail.append(tail)
    return tail


def own_tuple_tail() -> list[Any]:
    tail: list[Any] = []
    tail.append((tail,))
    return tail


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"meta": {"lock": threading.Lock()}}, "meta['lock']: a value of type _thread.lock"),
        ({"meta": {"a": [{"b": (1, Box())}]}}, "meta['a'][0]['b'][1]: a value of type tests.unit.test_payload.Box"),
        ({"cb_kwargs": {"p": Point(1, 2)}}, "cb_kwargs['p']: a value of type tests.unit.payload_spider.Point"),
        ({"cb_kwargs": {"f": lambda: 0}}, "cb_kwargs['f']: a value of type builtins.function"),
        ({"meta": {"r": Request(URL)}}, "meta['r']: a value of type scrapy.http.request.Request"),
        ({"meta": {"d": {Point(1, 2): 1}}}, "key Point(x=1, y=2)"),
        ({"meta": {"me": own_tail()}}, "nested too deeply, or a value that contains itself"),
        ({"meta": {"me": own_tuple_tail()}}, "nested too deeply, or a value that contains itself"),
        ({"body": b"x" * MAX_BYTES}, f"at most {MAX_BYTES}"),
        ({"meta": {"t": BASE.replace(tzinfo=type("Tz", (dt.tzinfo,), {})())}}, "a time zone of type"),
    ],
)
def test_what_cannot_travel_is_named_with_its_place(spider: MySpider, kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(Unserialisable) as caught:
        encode(Request(URL, **kwargs), spider)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
