"""Requests as bytes: everything that goes in comes out, what can't go in is said, and no bytes break the reader."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import threading
import uuid
from collections import OrderedDict, namedtuple
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.http import FormRequest, HtmlResponse, JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from crawler.frontier import values
from crawler.frontier.payload import MAX_BYTES, PayloadError, Unserialisable, decode, encode, url_of

URL = "https://site.example/catalogue/page-1.html?a=1"
BASE = dt.datetime(2026, 3, 4, 5, 6, 7, 89)  # noqa: DTZ001 (naive on purpose)
Point = namedtuple("Point", "x y")


class SlotRequest(Request):
    """A user's class that does it right."""

    attributes: tuple[str, ...] = (*Request.attributes, "render")

    def __init__(self, *args: Any, render: object = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.render = render
        self.meta.setdefault("slots", 1)


class ForgetfulRequest(Request):
    """Its attribute is not listed in `attributes`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.proxy_country = "de"


class SlottedForgetfulRequest(Request):
    __slots__ = ("country",)


class DeafRequest(Request):
    """Its constructor doesn't take what `attributes` promises."""

    attributes: tuple[str, ...] = (*Request.attributes, "render")
    render = 1

    def __init__(self, url: str, callback: Any = None) -> None:
        super().__init__(url, callback)


class UnlistedRequest(Request):
    pass


def undecorated(method: Any) -> Any:
    def wrapper(self: Any, *args: Any) -> Any:
        return method(self, *args)

    return wrapper


class BaseSpider(Spider):
    def parse(self, response: Any) -> None:
        pass

    def __private(self, response: Any) -> None:
        pass

    def base_private(self) -> Any:
        return self.__private


class MySpider(BaseSpider):
    name = "mine"
    request_classes = [SlotRequest, ForgetfulRequest, SlottedForgetfulRequest, DeafRequest]
    looked_at: list[str] = []

    def parse(self, response: Any) -> None:
        pass

    def parse_item(self, response: Any) -> None:
        pass

    alias = parse_item

    @undecorated
    def decorated(self, response: Any) -> None:
        pass

    @staticmethod
    def static(response: Any) -> None:
        pass

    @classmethod
    def of_class(cls, response: Any) -> None:
        pass

    def __secret(self, response: Any) -> None:
        pass

    def secret(self) -> Any:
        return self.__secret

    def overridden(self) -> Any:
        return super().parse

    @property
    def costly(self) -> Any:
        self.looked_at.append("costly")
        return self.parse

    def failed(self, failure: Any) -> None:
        pass


@pytest.fixture
def spider() -> MySpider:
    return MySpider()


def facts(request: Request) -> dict[str, Any]:
    """Everything a request carries, types of nested values included."""
    return {name: (type(value), value) for name in request.attributes for value in [getattr(request, name)]}


def same(one: Any, other: Any) -> bool:
    """Equality that tells 1 from True from 1.0, lists from tuples, at any depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(k1, k2) and same(v1, v2) for (k1, v1), (k2, v2) in zip(one.items(), other.items(), strict=True)
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, (set, frozenset)):
        return {(type(v), v) for v in one} == {(type(v), v) for v in other}
    return bool(one == other)


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


VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**63,
    2**64,
    -(2**200),
    1.5,
    float("inf"),
    "",
    "ü",
    "\ud800",
    b"",
    b"\xff",
    (),
    (1, (2, [3, (4,)])),
    {1, "a", (2, 3)},
    frozenset({b"x", None}),
    {1: "int", "1": "str", b"1": "bytes", None: 0, (1, 2): 3},
    OrderedDict([("b", 1), ("a", (2,))]),
    BASE,
    BASE.replace(tzinfo=dt.UTC),
    BASE.replace(fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    BASE.replace(tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
    BASE.date(),
    BASE.time(),
    BASE.timetz().replace(tzinfo=dt.UTC),
    dt.timedelta(days=-3, microseconds=1),
    decimal.Decimal("-1.50"),
    decimal.Decimal("NaN"),
    uuid.UUID(int=7),
    1j,
    [[[[{"deep": [({"er": ()},)]}]]]],
]


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
        ({"cb_kwargs": {"p": Point(1, 2)}}, "cb_kwargs['p']: a value of type tests.unit.test_payload.Point"),
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


# -------------------------------------------------------------------------------------------------------- stored format


GOLDEN = [
    (lambda s: Request("https://a.example/"), "9201b268747470733a2f2f612e6578616d706c652f"),
    (
        lambda s: Request("https://a.example/b", headers={"Referer": "https://a.example/c"}),
        "9401b368747470733a2f2f612e6578616d706c652f62c0810e9212c40163",
    ),
    (
        lambda s: Request("https://a.example/", callback=s.parse_item, meta={"depth": 1}),
        "9401b268747470733a2f2f612e6578616d706c652faa70617273655f6974656d810781a5646570746801",
    ),
]


@pytest.mark.parametrize(("make", "hex_"), GOLDEN)
def test_stored_format(spider: MySpider, make: Any, hex_: str) -> None:
    assert encode(make(spider), spider).hex() == hex_
    assert facts(decode(bytes.fromhex(hex_), spider)) == facts(make(spider))


def test_stored_format_of_everything(spider: MySpider) -> None:
    """Numbers of fields and extension types are what old payloads in a queue rely on."""
    body = [
        1,
        "https://a.example/",
        False,
        {
            1: 2,
            2: "failed",
            3: "POST",
            4: {b"Accept": [b"a", b"b"], b"X": b"y"},
            5: b"{}",
            6: {"c": "1"},
            7: {
                "tuple": msgpack.ExtType(1, b"\x91\x01"),
                "set": msgpack.ExtType(2, b"\x91\x01"),
                "frozenset": msgpack.ExtType(3, b"\x91\x01"),
                "datetime": msgpack.ExtType(4, msgpack.packb([2026, 3, 4, 5, 6, 7, 89, 1, "Europe/Berlin"])),
                "date": msgpack.ExtType(5, msgpack.packb([2026, 3, 4])),
                "time": msgpack.ExtType(6, msgpack.packb([5, 6, 7, 89, 0, 3_600_000_000])),
                "timedelta": msgpack.ExtType(7, msgpack.packb([-1, 2, 3])),
                "decimal": msgpack.ExtType(8, b"1.50"),
                "int": msgpack.ExtType(9, b"\x01" + b"\x00" * 8),
                "uuid": msgpack.ExtType(10, bytes(15) + b"\x07"),
                "ordered": msgpack.ExtType(11, msgpack.packb([["k", 1]])),
                "complex": msgpack.ExtType(12, msgpack.packb([0.0, 1.0])),
            },
            8: {"k": 1},
            9: ["f"],
            10: "latin-1",
            11: 5,
            12: True,
            13: {"dumps_kwargs": {"sort_keys": False}},
        },
    ]
    request = decode(msgpack.packb(body), spider)
    expected = JsonRequest(
        "https://a.example/",
        NO_CALLBACK,
        "POST",
        {"Accept": ["a", "b"], "X": "y"},
        b"{}",
        {"c": "1"},
        {
            "tuple": (1,),
            "set": {1},
            "frozenset": frozenset({1}),
            "datetime": BASE.replace(fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            "date": BASE.date(),
            "time": BASE.time().replace(tzinfo=dt.timezone(dt.timedelta(hours=1))),
            "timedelta": dt.timedelta(days=-1, seconds=2, microseconds=3),
            "decimal": decimal.Decimal("1.50"),
            "int": 2**64,
            "uuid": uuid.UUID(int=7),
            "ordered": OrderedDict(k=1),
            "complex": 1j,
        },
        "latin-1",
        5,
        True,
        spider.failed,
        ["f"],
        {"k": 1},
        dumps_kwargs={"sort_keys": False},
    )
    del expected.headers["Content-Type"]
    assert facts(request) == facts(expected)
    assert same(request.meta, expected.meta)


# ------------------------------------------------------------------------------------------------------------ bad bytes


def nested_extensions(levels: int) -> bytes:
    data = b"\x90"
    for _ in range(levels):
        data = msgpack.packb([msgpack.ExtType(1, data)])
    return bytes(msgpack.packb([1, URL, None, {7: {"v": msgpack.ExtType(1, data)}}]))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "damaged payload"),
        (b"\x80\x04\x95pickle", "damaged payload"),
        (b"https://site.example/", "damaged payload"),
        (msgpack.packb([]), "not a payload"),
        (msgpack.packb({}), "not a payload"),
        (msgpack.packb([True, URL]), "not a payload"),
        (msgpack.packb([2, URL]), "payload version 2: this worker reads version 1"),
        (msgpack.packb([1]), "1 elements"),
        (msgpack.packb([1, URL, None, {}, 5]), "5 elements"),
        (msgpack.packb([1, 7]), "url is int, expected str"),
        (msgpack.packb([1, b"https://a.example/"]), "url is bytes, expected str"),
        (msgpack.packb([1, "no scheme"]), "Missing scheme"),
        (msgpack.packb([1, URL, 5]), "callback is int"),
        (msgpack.packb([1, URL, None, []]), "fields is list, expected dict"),
        (msgpack.packb([1, URL, None, {99: 1}]), "unknown fields ['99']"),
        (msgpack.packb([1, URL, None, {7: []}]), "meta is list, expected dict"),
        (msgpack.packb([1, URL, None, {11: "high"}]), "priority is str, expected int"),
        (msgpack.packb([1, URL, None, {4: {1: 2}}]), "damaged payload"),
        (msgpack.packb([1, URL, None, {14: [99, b""]}]), "referer is not a length and bytes"),
        (msgpack.packb([1, URL, None, {14: [-1, b""]}]), "referer is not a length and bytes"),
        (msgpack.packb([1, URL, None, {14: [1]}]), "damaged payload"),
        (msgpack.packb([1, URL, None, {10: "no-such-codec", 4: {"ü": "ü"}}]), "damaged payload"),
        (msgpack.packb([1, URL, None, {1: 9}]), "unknown request class 9"),
        (msgpack.packb([1, URL, None, {1: "os.system"}]), "unknown request class 'os.system'"),
        (msgpack.packb([1, URL, None, {1: 1, 13: {"url": "x"}}]), "has no attribute 'url'"),
        (msgpack.packb([1, URL, None, {7: {"v": msgpack.ExtType(99, b"")}}]), "unknown extension type 99"),
        (msgpack.packb([1, URL, None, {7: {"v": msgpack.ExtType(5, msgpack.packb([2026, 13, 1]))}}]), "month must be"),
        (msgpack.packb([1, URL, None, {7: {"v": msgpack.ExtType(2, msgpack.packb([[]]))}}]), "unhashable"),
        (
            msgpack.packb(
                [1, URL, None, {7: {"v": msgpack.ExtType(6, msgpack.packb([1, 2, 3, 4, 0, "../../etc/passwd"]))}}]
            ),
            "",
        ),
        (nested_extensions(2000), "damaged payload"),
        (
            b"\x94\x01" + msgpack.packb(URL) + b"\xc0\x81\x07\x81\xa1v" + b"\xdd\x00\x01\x00\x00" * 1500,
            "damaged payload",
        ),
        (msgpack.packb([1, URL]) + b"\x00", "damaged payload"),
        (b"x" * (MAX_BYTES + 1), "at most"),
    ],
)
def test_bad_bytes_give_one_line(spider: MySpider, data: bytes, words: str) -> None:
    with pytest.raises(PayloadError) as caught:
        decode(data, spider)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_payload_error(data: bytes) -> None:
    decodes_or_says_why(data)


@given(st.data())
def test_any_change_of_a_payload_is_a_request_or_a_payload_error(data: st.DataObject) -> None:
    spider = MySpider()
    request = JsonRequest(
        URL, data={"a": 1}, callback=spider.parse, meta={"v": VALUES[:20]}, cookies=[{"name": "a", "value": "b"}]
    )
    payload = bytearray(encode(request, spider))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    decodes_or_says_why(
        bytes(payload[: data.draw(st.integers(0, len(payload)))]) if data.draw(st.booleans()) else bytes(payload)
    )


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.builds(msgpack.ExtType, st.integers(0, 15), st.binary(max_size=12)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.integers(0, 14) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.just(URL) | junk,
    st.sampled_from([None, "parse", False]) | junk,
    st.dictionaries(st.integers(0, 15), junk, max_size=5),
)
@example(URL, None, {4: {"a": {}}})
@example(URL, None, {9: [{}], 6: [{}]})
def test_any_well_formed_nonsense_is_a_request_or_a_payload_error(url: Any, callback: Any, fields: Any) -> None:
    decodes_or_says_why(msgpack.packb([1, url, callback, fields], unicode_errors="surrogatepass"))


def decodes_or_says_why(data: bytes) -> None:
    try:
        assert isinstance(decode(data, MySpider()), Request)
    except PayloadError as error:
        assert "\n" not in str(error)  # noqa: PT017


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
