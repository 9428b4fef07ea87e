"""Requests as bytes and back: data only, never code.

A payload is one msgpack array ``[version, url, callback, fields]``, cut after the last element that is not a default:

======== ======================================================================================================
version  1. A worker that meets another number refuses the payload and says so.
url      str, as the request carries it (already safe), so that tools read it without knowing the rest.
callback method name of the spider, nil (``parse``), or false (Scrapy's ``NO_CALLBACK``).
fields   map of small integers (:class:`Field`) to what differs from Scrapy's defaults.
======== ======================================================================================================

Values keep their types (``crawler/frontier/values.py``); what has no form there makes the request
:class:`Unserialisable`, naming the place of the value; nothing is dropped silently. Lua never looks inside: for Redis a
payload is an opaque string.

Request classes come from an allow list: Scrapy's own four, and the spider's attribute ``request_classes`` (a list of
classes; their ``attributes`` travel). No name in a payload is ever imported.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from scrapy.http import Request

from crawler.frontier.callbacks import method_of, name_of
from crawler.frontier.classes import BASE_ATTRIBUTES, check_attributes, class_of, code_of
from crawler.frontier.message import bounded
from crawler.frontier.slot import lasting_meta
from crawler.frontier.values import PayloadError, Unserialisable, expect, locate, one_line, pack, path_of, unpack

if TYPE_CHECKING:
    from scrapy import Spider

__all__ = [
    "MAX_BYTES",
    "VERSION",
    "Field",
    "PayloadError",
    "Unserialisable",
    "decode",
    "encode",
    "priority_of",
    "url_of",
]

VERSION = 1
MAX_BYTES = 16 * 1024 * 1024  # one request; larger bodies belong on disk, not in a queue


class Field(IntEnum):
    """Keys of the payload's map. A stored format: numbers are never given a new meaning."""

    CLASS = 1
    ERRBACK = 2
    METHOD = 3
    HEADERS = 4
    BODY = 5
    COOKIES = 6
    META = 7
    CB_KWARGS = 8
    FLAGS = 9
    ENCODING = 10
    PRIORITY = 11
    DONT_FILTER = 12
    ATTRIBUTES = 13  # of subclasses: name → value
    REFERER = 14  # instead of HEADERS when that is the only one: [n, rest], the first n bytes are those of the URL


# Plain ints: an IntEnum is a subclass of int, which the strict packer hands to `default`, and attribute access costs.
(_CLASS, _ERRBACK, _METHOD, _HEADERS, _BODY, _COOKIES, _META, _CB_KWARGS, _FLAGS, _ENCODING, _PRIORITY, _DONT_FILTER,
 _ATTRIBUTES, _REFERER) = map(int, Field)  # fmt: skip


# --------------------------------------------------------------------------------------------------------- encoding


def encode(request: Request, spider: Spider) -> bytes:
    """`request` as bytes. Raises :class:`Unserialisable` with the reason; changes nothing in the request."""
    callback = request.callback
    name: str | bool | None = None if callback is None else name_of(callback, spider, "callback")
    fields = _fields(request, spider)
    if fields:
        body: list[Any] = [VERSION, str(request.url), name, fields]
    elif name is not None:
        body = [VERSION, str(request.url), name]
    else:
        body = [VERSION, str(request.url)]
    try:
        data = pack(body)
    except Unserialisable as error:
        raise Unserialisable(
            locate({Field(n).name.lower(): value for n, value in fields.items()}) or str(error)
        ) from None
    if len(data) > MAX_BYTES:
        raise Unserialisable(f"{len(data)} bytes: a queued request may have at most {MAX_BYTES}")
    return data


def _fields(request: Request, spider: Spider) -> dict[int, Any]:  # noqa: C901 (one test per attribute, hot path)
    fields: dict[int, Any] = {}
    if type(request) is not Request:
        _add_class(fields, request, spider)
    if request.errback is not None:
        fields[_ERRBACK] = name_of(request.errback, spider, "errback")
    if request.method != "GET":
        fields[_METHOD] = str(request.method)
    if request.headers:
        _add_headers(fields, request)
    if request.body:
        fields[_BODY] = request.body
    if request.cookies:
        fields[_COOKIES] = request.cookies
    if request.meta and (meta := lasting_meta(request)):
        fields[_META] = meta
    if request.cb_kwargs:
        fields[_CB_KWARGS] = request.cb_kwargs
    if request.flags:
        fields[_FLAGS] = request.flags
    if request.encoding != "utf-8":
        fields[_ENCODING] = request.encoding
    if request.priority:
        fields[_PRIORITY] = int(request.priority)
    if request.dont_filter:
        fields[_DONT_FILTER] = True
    return fields


def _add_headers(fields: dict[int, Any], request: Request) -> None:
    headers = {name: values[0] if len(values) == 1 else values for name, values in request.headers.items()}
    referer = headers.get(b"Referer")
    if len(headers) == 1 and type(referer) is bytes and request.url.isascii():
        url = request.url.encode()
        same = len(url)
        while not referer.startswith(url[:same]):
            same = url.rfind(b"/", 0, same - 1) + 1
        fields[_REFERER] = [same, referer[same:]]  # a link's Referer is most of the URL once more
    else:
        fields[_HEADERS] = headers


def _add_class(fields: dict[int, Any], request: Request, spider: Spider) -> None:
    cls = type(request)
    code = fields[_CLASS] = code_of(cls, spider)
    if isinstance(code, str):  # a class of the spider's own
        check_attributes(request)
    extra = {name: getattr(request, name) for name in cls.attributes if name not in BASE_ATTRIBUTES}
    if extra:
        fields[_ATTRIBUTES] = extra


# --------------------------------------------------------------------------------------------------------- decoding


def decode(data: bytes, spider: Spider) -> Request:
    """The request in `data`. Raises :class:`PayloadError` on any bytes that are not one; never another exception."""
    try:
        return _request(_envelope(data), spider)
    except PayloadError:
        raise
    except Exception as error:  # noqa: BLE001 (Scrapy's and users' constructors may raise anything)
        raise PayloadError(one_line(f"damaged payload: {type(error).__name__}: {error}")) from None


def url_of(data: bytes) -> str:
    """The URL in a payload, without building the request. Raises :class:`PayloadError`."""
    return str(_envelope(data)[1])


def priority_of(data: bytes) -> int:
    """The priority in a payload, as the frontier takes it. Raises :class:`PayloadError`."""
    body = _envelope(data)
    return bounded(expect("priority", body[3].get(_PRIORITY, 0), int)) if len(body) > 3 else 0


def _envelope(data: bytes) -> list[Any]:
    """The payload's array, checked: version, length and the types of its elements."""
    if len(data) > MAX_BYTES:
        raise PayloadError(f"payload of {len(data)} bytes: at most {MAX_BYTES} are read")
    body = unpack(data)
    if type(body) is not list or not body or type(body[0]) is not int or not 0 <= body[0] < 1000:
        raise PayloadError("not a payload: no list that begins with a version")
    if body[0] != VERSION:
        raise PayloadError(f"payload version {body[0]}: this worker reads version {VERSION}")
    if not 2 <= len(body) <= 4:
        raise PayloadError(f"payload with {len(body)} elements: 2 to 4 expected")
    expect("url", body[1], str)
    if len(body) == 4:
        expect("fields", body[3], dict)
    return body


def _request(body: list[Any], spider: Spider) -> Request:
    url: str = body[1]
    callback = method_of(body[2], spider, "callback") if len(body) > 2 else None
    fields: dict[int, Any] = body[3] if len(body) > 3 else {}
    meta = expect("meta", fields.get(_META, {}), dict)
    verbatim = "verbatim_url" in meta
    if not verbatim and url.isascii() and url.isprintable() and " " not in url:
        meta["verbatim_url"] = True  # the URL is safe already, and quoting it again would cost more than all the rest
    if fields.keys() - _KNOWN_FIELDS:
        raise PayloadError(f"payload with unknown fields {sorted(map(str, fields.keys() - _KNOWN_FIELDS))}")
    if _REFERER in fields:
        fields[_HEADERS] = {b"Referer": _referer(fields[_REFERER], url)}
    cls = class_of(fields.get(_CLASS), spider) if _CLASS in fields else Request
    request = cls(url, callback=callback, meta=meta, **_arguments(fields, cls, spider))
    if not verbatim:
        request.meta.pop("verbatim_url", None)
    if cls is not Request:  # constructors of subclasses add headers; what was queued is what counts
        request.headers = fields.get(_HEADERS, {})
    return request


def _referer(value: object, url: str) -> bytes:
    same, rest = expect("referer", value, list)
    if type(same) is not int or not 0 <= same <= len(url) or type(rest) is not bytes:
        raise PayloadError("referer is not a length and bytes")
    return url[:same].encode() + rest


def _arguments(fields: dict[int, Any], cls: type[Request], spider: Spider) -> dict[str, Any]:
    """Constructor arguments but url, callback and meta. Subclasses have other defaults: they get each one."""
    if not fields:
        return {}
    arguments: dict[str, Any] = {}
    for number, (name, kind, default) in _SIMPLE.items():
        if number in fields:
            arguments[name] = expect(name, fields[number], *kind)
        elif cls is not Request:
            arguments[name] = default
    if _ERRBACK in fields:
        arguments["errback"] = method_of(fields[_ERRBACK], spider, "errback")
    if _ATTRIBUTES in fields:
        for name, value in expect("attributes", fields[_ATTRIBUTES], dict).items():
            if name in BASE_ATTRIBUTES or name not in cls.attributes:
                raise PayloadError(one_line(f"request class {path_of(cls)} has no attribute {name!r} any more"))
            arguments[name] = value
    return arguments


_SIMPLE: dict[int, tuple[str, tuple[type, ...], Any]] = {
    _METHOD: ("method", (str,), "GET"),
    _HEADERS: ("headers", (dict,), None),
    _BODY: ("body", (bytes,), b""),
    _COOKIES: ("cookies", (dict, list), None),
    _CB_KWARGS: ("cb_kwargs", (dict,), None),
    _FLAGS: ("flags", (list,), None),
    _ENCODING: ("encoding", (str,), "utf-8"),
    _PRIORITY: ("priority", (int,), 0),
    _DONT_FILTER: ("dont_filter", (bool,), False),
}
_KNOWN_FIELDS = frozenset(map(int, Field))
