"""Python values as msgpack bytes and back, each with the type it had.

msgpack knows nil, booleans, 64-bit integers, floats, str, bytes, lists and maps. The rest of what spiders keep in
``meta`` and ``cb_kwargs`` travels as extension types (:class:`Ext`), at any depth, also as keys of a dict. Packing is
strict: a subclass is not its base class (a named tuple would come back as a list), so what is not listed here is
refused with its place. Two exceptions, harmless ones: ``bytearray`` comes back as bytes, lxml's strings as str. Reading
builds nothing but these types.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import msgpack

from crawler.errors import CrawlerError

MAX_DEPTH = 32  # extension types inside extension types: each level copies its bytes
_TOO_DEEP = "nested too deeply, or a value that contains itself"


class Unserialisable(CrawlerError):  # noqa: N818 (what happened to the request, as callers say it)
    """A value or request can't leave this process: the text says which part and why."""


class PayloadError(CrawlerError):
    """Bytes that are no request this spider can run: the text says why, in one line."""


class Ext(IntEnum):
    """msgpack extension codes. A stored format: numbers are never given a new meaning."""

    TUPLE = 1
    SET = 2
    FROZENSET = 3
    DATETIME = 4
    DATE = 5
    TIME = 6
    TIMEDELTA = 7
    DECIMAL = 8
    INT = 9  # beyond 64 bits
    UUID = 10
    ORDERED_DICT = 11
    COMPLEX = 12


# ----------------------------------------------------------------------------------------------------------- packing


def pack(value: object) -> bytes:
    """`value` as bytes. Raises :class:`Unserialisable`."""
    try:
        return _pack(value, 0)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        deep = isinstance(error, RecursionError) or "recursion" in str(error)
        raise Unserialisable(_TOO_DEEP if deep else str(error)) from None


def locate(fields: Mapping[str, object]) -> str:
    """Where the first unserialisable value sits, e.g. ``meta['item']: a value of type mine.Item``; "" if nowhere."""
    return next((found for name, value in fields.items() if (found := _search(value, name, 0))), "")


def path_of(cls: type) -> str:
    """``module.QualifiedName`` of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _pack(value: object, depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise Unserialisable(_TOO_DEEP)

    def default(item: Any) -> Any:
        return _extension(item, depth + 1)

    packed: bytes = msgpack.packb(value, default=default, strict_types=True, unicode_errors="surrogatepass")
    return packed


def _extension(item: Any, depth: int) -> Any:
    convert = _CONVERTERS.get(type(item))
    if convert is None:
        if (
            isinstance(item, str) and type(item).__module__ == "lxml.etree"
        ):  # what lxml's text() gives: a str plus parent
            return str(item)
        raise Unserialisable(f"a value of type {path_of(type(item))}")
    code, plain = convert(item)
    return msgpack.ExtType(code, plain if isinstance(plain, bytes) else _pack(plain, depth))


def _zone(zone: dt.tzinfo | None) -> int | str | None:
    """A time zone as nil, microseconds east of UTC, or an IANA name."""
    if zone is None:
        return None
    if type(zone) is dt.timezone:
        return zone.utcoffset(None) // dt.timedelta(microseconds=1)
    if type(zone) is zoneinfo.ZoneInfo and zone.key:
        return zone.key
    raise Unserialisable(f"a time zone of type {path_of(type(zone))} (datetime.timezone and zoneinfo are known)")


def _clock(t: dt.datetime | dt.time) -> list[Any]:
    return [t.hour, t.minute, t.second, t.microsecond, t.fold, _zone(t.tzinfo)]


# type → (code, bytes or a list to pack)
_CONVERTERS: dict[type, Callable[[Any], tuple[int, Any]]] = {
    tuple: lambda v: (Ext.TUPLE, list(v)),
    set: lambda v: (Ext.SET, list(v)),
    frozenset: lambda v: (Ext.FROZENSET, list(v)),
    dt.datetime: lambda v: (Ext.DATETIME, [v.year, v.month, v.day, *_clock(v)]),
    dt.date: lambda v: (Ext.DATE, [v.year, v.month, v.day]),
    dt.time: lambda v: (Ext.TIME, _clock(v)),
    dt.timedelta: lambda v: (Ext.TIMEDELTA, [v.days, v.seconds, v.microseconds]),
    decimal.Decimal: lambda v: (Ext.DECIMAL, str(v).encode()),
    int: lambda v: (Ext.INT, v.to_bytes(v.bit_length() // 8 + 1, "big", signed=True)),
    uuid.UUID: lambda v: (Ext.UUID, v.bytes),
    OrderedDict: lambda v: (Ext.ORDERED_DICT, [[key, value] for key, value in v.items()]),
    complex: lambda v: (Ext.COMPLEX, [v.real, v.imag]),
}
_LEAVES = frozenset({str, bytes, int, float, bool, type(None)})
_CONTAINERS = frozenset({dict, OrderedDict, list, tuple, set, frozenset})


def _search(value: Any, place: str, depth: int) -> str:
    if type(value) in _LEAVES or depth > 2 * MAX_DEPTH:
        return ""
    if type(value) in _CONTAINERS:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            found = _search(item, f"{place}[{key!r}]", depth + 1) or _search(key, f"{place}: key {key!r}", depth + 1)
            if found:
                return found
        return ""
    try:
        pack(value)
    except Unserialisable as error:
        return f"{place}: {error}"
    return ""


# ---------------------------------------------------------------------------------------------------------- unpacking


def unpack(data: bytes) -> Any:
    """The value in `data`. Raises :class:`PayloadError` on any bytes that are not one."""
    try:
        return _unpack(data, 0)
    except PayloadError:
        raise
    except Exception as error:  # noqa: BLE001 (damaged bytes may break any constructor below, in any way)
        raise PayloadError(one_line(f"damaged payload: {str(error) or type(error).__name__}")) from None


def one_line(text: str) -> str:
    """At most 300 printable characters on one line."""
    return "".join(c if c.isprintable() else " " for c in text[:300])


def expect(name: str, value: Any, *types: type) -> Any:
    """`value`, if its type is one of `types`; else :class:`PayloadError`."""
    if type(value) not in types:
        raise PayloadError(f"{name} is {type(value).__name__}, expected {' or '.join(t.__name__ for t in types)}")
    return value


def _unpack(data: bytes, depth: int) -> Any:
    def hook(code: int, content: bytes) -> Any:
        return _value(code, content, depth + 1)

    return msgpack.unpackb(data, ext_hook=hook, strict_map_key=False, unicode_errors="surrogatepass")


def _value(code: int, content: bytes, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise PayloadError("damaged payload: nested too deeply")
    if code in _FROM_BYTES:
        return _FROM_BYTES[code](content)
    if code not in _FROM_LIST:
        raise PayloadError(f"damaged payload: unknown extension type {code}")
    return _FROM_LIST[code](expect("extension", _unpack(content, depth), list))


def _tzinfo(zone: object) -> dt.tzinfo | None:
    if zone is None:
        return None
    if type(zone) is int:
        return dt.timezone(dt.timedelta(microseconds=zone))
    return zoneinfo.ZoneInfo(expect("time zone", zone, str))


def _datetime(v: list[Any]) -> dt.datetime:
    year, month, day, hour, minute, second, microsecond, fold, zone = v
    return dt.datetime(year, month, day, hour, minute, second, microsecond, _tzinfo(zone), fold=fold)


def _time(v: list[Any]) -> dt.time:
    hour, minute, second, microsecond, fold, zone = v
    return dt.time(hour, minute, second, microsecond, _tzinfo(zone), fold=fold)


_FROM_BYTES: dict[int, Callable[[bytes], Any]] = {
    int(Ext.DECIMAL): lambda c: decimal.Decimal(c.decode("ascii")),
    int(Ext.INT): lambda c: int.from_bytes(c, "big", signed=True),
    int(Ext.UUID): lambda c: uuid.UUID(bytes=c),
}
_FROM_LIST: dict[int, Callable[[list[Any]], Any]] = {
    int(Ext.TUPLE): tuple,
    int(Ext.SET): set,
    int(Ext.FROZENSET): frozenset,
    int(Ext.DATETIME): _datetime,
    int(Ext.DATE): lambda v: dt.date(*v),
    int(Ext.TIME): _time,
    int(Ext.TIMEDELTA): lambda v: dt.timedelta(days=v[0], seconds=v[1], microseconds=v[2]),
    int(Ext.ORDERED_DICT): lambda v: OrderedDict((key, value) for key, value in v),
    int(Ext.COMPLEX): lambda v: complex(*v),
}
