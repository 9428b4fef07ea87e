"""What reads bytes from outside, and what it may raise for any of them: one line for a person, nothing else.

Each target takes any bytes. It returns whether it accepted them (a fuzzer that never gets in tests nothing) and lets
through only what would be a defect.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack
from scrapy import Request, Spider
from scrapy.http import FormRequest, JsonRequest

from crawler.canonical import rules
from crawler.canonical.url import Canonicaliser
from crawler.env import read_env_file
from crawler.errors import ConfigError
from crawler.frontier import payload
from crawler.frontier.payload import PayloadError, Unserialisable
from crawler.frontier.seedfile import Reader
from crawler.frontier.seeds import SeedError, requests_from_seed
from crawler.frontier.slot import host_of

_T = TypeVar("_T")


class Own(Request):
    """A request class of the spider's own."""

    attributes = (*Request.attributes, "shop")

    def __init__(self, *args: object, shop: object = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.shop = shop


class FuzzSpider(Spider):
    name = "fuzz"
    request_classes = [Own]

    def parse_page(self, response: object) -> None:
        """A callback to name."""


SPIDER = FuzzSpider()


def _queue(request: Request) -> None:
    """Writes a request as the frontier would, or it says why not."""
    try:
        payload.encode(request, SPIDER)
        host_of(request)
    except Unserialisable as error:
        _one_line(error)


def decode(data: bytes) -> bool:
    """A queue entry; what was read can be written again or says why not."""
    for read in (payload.url_of, payload.priority_of):
        try:
            read(data)
        except PayloadError as error:
            _one_line(error)
    try:
        request = payload.decode(data, SPIDER)
    except PayloadError as error:
        return _one_line(error)
    _queue(request)
    return True


def seed(data: bytes) -> bool:
    """A seed; what becomes of it can be queued or says why not."""
    try:
        requests = requests_from_seed(data, SPIDER)
    except SeedError as error:
        return _one_line(error)
    for request in requests:
        _queue(request)
    return True


def seed_file(data: bytes) -> bool:
    """A file of seeds, whose good lines survive its bad ones."""
    lines = list(Reader(FuzzSpider, 1, True)(io.BytesIO(data)))
    for line in lines:
        assert "\n" not in line.fault, line.fault
    return any(not line.fault for line in lines)


def rule_file(data: bytes) -> bool:
    """A file of site rules, its examples included."""
    try:
        sites = _through_file(data, rules.read)
        faults = rules.failures(Canonicaliser(sites=sites), sites)
    except ConfigError as error:
        return _one_line(error)
    for fault in faults:
        _one_line(fault)
    return True


def env_file(data: bytes) -> bool:
    """A ``.env`` file."""
    try:
        _through_file(data, read_env_file)
    except ConfigError as error:
        return _one_line(error)
    return True


def _through_file(data: bytes, read: Callable[[Path], _T]) -> _T:
    with tempfile.NamedTemporaryFile(prefix="fuzz") as file:
        file.write(data)
        file.flush()
        return read(Path(file.name))


def _one_line(error: Exception) -> bool:
    text = str(error)
    assert text, "an error without a word"
    assert not set(text) & set("\n\r\0\x1b"), text
    assert len(text) < 50_000, len(text)  # what is quoted may be long, but not longer than the files here
    return False


@dataclass(frozen=True)
class Target:
    """A reader with valid examples to damage and tokens that are worth inserting."""

    read: Callable[[bytes], bool]
    examples: tuple[bytes, ...]
    tokens: tuple[bytes, ...]
    rebuild: Callable[[bytes, Random], bytes] | None = None  # an example with other values of the right form


def _payloads() -> Iterator[bytes]:
    values: dict[Any, Any] = {
        "tuple": (1, (2.5, b"x")), "set": {1, "a"}, "frozen": frozenset({2}), "date": dt.date(2026, 1, 2),
        "time": dt.time(1, 2, tzinfo=dt.UTC), "stamp": dt.datetime(2026, 1, 2, tzinfo=ZoneInfo("Asia/Tokyo")),
        "delta": dt.timedelta(days=3), "decimal": Decimal("1.50"), "big": 2**200, "uuid": UUID(int=7),
        "ordered": OrderedDict(a=1), "complex": 1 + 2j, 5: None, "deep": [[[{"a": [True]}]]],
    }  # fmt: skip
    url = "https://example.com/a?b=c"
    for request in (
        Request(url),
        Request(url, SPIDER.parse_page, meta=values, cb_kwargs=values, priority=-5, dont_filter=True, flags=["x"]),
        Request(url, method="POST", body=b"\0\1", headers={"A": ["b", "c"]}, cookies={"d": "e"}, encoding="cp1252"),
        Request(url, headers={"Referer": "https://example.com/z"}, errback=SPIDER.parse_page),
        FormRequest(url, formdata={"q": "books"}),
        JsonRequest(url, data={"q": 1}),
        Own(url, shop={"id": 1}),
    ):
        yield payload.encode(request, SPIDER)


_VALUES: tuple[Any, ...] = (
    None, True, -1, 2**63, 0.5, float("nan"), "", "parse_page", "__class__", "http://a/", "\ud800", "../x", b"",
    b"\xff", [], [[]], {}, {1: 2}, [1, 2], msgpack.ExtType(9, b"\x7f" * 5000), msgpack.ExtType(9, b""),
    msgpack.ExtType(99, b""), msgpack.ExtType(2, b"\x91\x90"), msgpack.ExtType(4, b"\x90"),
)  # fmt: skip


def _other_values(example: bytes, random_: Random) -> bytes:
    """The payload with some of its values exchanged for others."""

    def change(value: Any) -> Any:
        if random_.random() < 0.1:
            return random_.choice(_VALUES)
        if isinstance(value, list):
            return [change(item) for item in value]
        if isinstance(value, dict):
            return {
                random_.choice(range(16)) if random_.random() < 0.1 else key: change(item)
                for key, item in value.items()
            }
        if isinstance(value, msgpack.ExtType) and random_.random() < 0.3:
            return msgpack.ExtType(random_.randrange(13), value.data)
        return value

    body = msgpack.unpackb(example, strict_map_key=False, unicode_errors="surrogatepass")
    packed: bytes = msgpack.packb(change(body), unicode_errors="surrogatepass")
    return packed


_SEED = {
    "url": "https://example.com/ä", "method": "POST", "headers": {"A": "b"}, "cookies": [{"name": "a", "value": "b"}],
    "meta": {"depth": 3, "x": [1.5, None]}, "cb_kwargs": {"a": 1}, "callback": "parse_page", "encoding": "utf-8",
    "priority": 10, "dont_filter": False, "flags": ["a"],
}  # fmt: skip
_SEEDS = (
    b"https://example.com/",
    json.dumps(_SEED | {"body": "x"}).encode(),
    json.dumps({"url": "http://[::1]:80/", "formdata": {"q": "b"}}, ensure_ascii=False).encode(),
)
_RULES = b"""
[[site]]
hosts = ["shop.example", "=a.example", "b.*"]
path = "/product"
keep = ["id"]
fold = ["slash", "www"]
order = "keep"
fragment = "route"
path_sub = [{ re = "/ref=[^/]+", to = "" }]
same = [["https://shop.example/product?id=1&ts=9", "https://shop.example/product?id=1"]]
different = [["https://shop.example/product?id=1", "https://shop.example/product?id=2"]]
[[site]]
hosts = ["*"]
path_re = "^/a(b|c)*d"
strip = ["x"]
restore = ["utm_source"]
groups = ["session"]
host = "c.example"
different = [["https://d.example/abd?y=1", "https://d.example/abd?y=2"]]
"""
_TEXT = (
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x1b[31m",
    b"\r\n",
    b"9" * 5000,
    b"[" * 3000,
    b'{"a":' * 2000,
    b"1e999",
    b"-0",
    b"\\ud800",
)

TARGETS = {
    "payload": Target(
        decode,
        tuple(_payloads()),
        (
            b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
            b"\xc9\xff\xff\xff\xff\x01", b"\xc7\x00\x01", b"\xd4\x09\x01", b"\xc8\x10\x00\x09" + b"\x7f" * 4096,
            b"\x91" * 2000, b"\x81" * 600, b"\xc0", b"\xcb\x7f\xf8" + bytes(6), b"\xd6\xff" + bytes(4),
            b"\xc7\x0b\x081e99999999", b"\xa3../",
        ),
        _other_values,
    ),
    "seed": Target(seed, _SEEDS, _TEXT),
    "seed file": Target(seed_file, (b"\xef\xbb\xbf# c\n" + b"\n".join(_SEEDS),), (*_TEXT, b"\n", b"x" * (1 << 20))),
    "rules": Target(
        rule_file, (_RULES,), (*_TEXT, b"[[site]]", b"(a*)*", b"'''", b"= 1979-05-27T07:32:00Z", b"{", b"\\1")
    ),
    "env": Target(env_file, (b"A=b\nexport C='d e'\n# f\nG=\"h\" # i\n",), _TEXT),
}  # fmt: skip
