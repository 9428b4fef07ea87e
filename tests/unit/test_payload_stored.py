"""The stored format stays as it is, and no bytes break its reader."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections import OrderedDict
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import JsonRequest
from scrapy.http.request import NO_CALLBACK

from crawler.frontier.payload import MAX_BYTES, PayloadError, decode, encode
from tests.unit.payload_spider import (
    BASE,
    URL,
    VALUES,
    MySpider,
    facts,
    same,
)


@pytest.fixture
def spider() -> MySpider:
    return MySpider()


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


EVERYTHING: list[Any] = [
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


def test_stored_format_of_everything(spider: MySpider) -> None:
    """Numbers of fields and extension types are what old payloads in a queue rely on."""
    request = decode(msgpack.packb(EVERYTHING), spider)
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
            "damaged payload",
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
