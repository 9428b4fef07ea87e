"""Seeds as requests: a plain URL, a JSON object, or whatever the spider's own ``make_request_from_data`` reads.

A seed is a wish of a person, so it is fetched even when its page was seen earlier (``dont_filter``, as scrapy-redis
does), and twice when it is pushed twice. ``"dont_filter": false`` in a JSON seed (``scrapy seed --dedup``) asks for the
other: drop it when the page was seen. JSON seeds take Scrapy's names; form fields go into ``formdata``:

    {"url": "https://example.com/search", "method": "POST", "formdata": {"q": "books"}, "callback": "parse_results"}
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy.http import FormRequest, Request

from crawler.errors import CrawlerError
from crawler.frontier.message import MOST_PRIORITY

if TYPE_CHECKING:
    from scrapy import Spider

SCHEMES = ("http", "https", "ftp", "s3")  # not file: or data:, which would read what lies on a worker's disk
_EXAMPLE = 'a seed is a URL (https://example.com/) or a JSON object ({"url": "https://example.com/"})'
_STRING, _OBJECT = "a string", "an object"
_METHODS = ("callback", "errback")
_USUAL = re.compile(r"https?://[A-Za-z0-9.-]*[A-Za-z0-9](:[0-9]{1,4})?(?:[/?#]|$)")  # needs no closer look
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {  # key → (JSON types, their name in messages)
    "url": ((str,), _STRING),
    "method": ((str,), _STRING),
    "body": ((str,), _STRING),
    "formdata": ((dict,), 'an object, e.g. {"q": "books"}'),
    "headers": ((dict,), _OBJECT),
    "cookies": ((dict, list), "an object or a list of objects"),
    "meta": ((dict,), _OBJECT),
    "cb_kwargs": ((dict,), _OBJECT),
    "callback": ((str,), "the name of a method of the spider"),
    "errback": ((str,), "the name of a method of the spider"),
    "encoding": ((str,), _STRING),
    "priority": ((int,), "a whole number"),
    "dont_filter": ((bool,), "true or false"),
    "flags": ((list,), "a list of strings"),
}


class SeedError(CrawlerError):
    """A seed that is no request: the text says in one line what is wrong with it and how it should look."""


def requests_from_seed(data: bytes, spider: Spider) -> list[Request]:
    """The requests of one seed; a spider's own ``make_request_from_data`` may make none or many.

    Raises :class:`SeedError` and nothing else, whatever `data` holds and whatever the spider's method does.
    """
    if makes_own_requests(type(spider)):
        return _requests_of_spider(data, spider)
    encoding = getattr(spider, "redis_encoding", None) or "utf-8"
    return [_request(parse_seed(data, type(spider), encoding), spider)]


def makes_own_requests(spider_class: type[Spider]) -> bool:
    """True if the class replaces scrapy-redis's ``make_request_from_data``: only it knows how its seeds look."""
    method = getattr(spider_class, "make_request_from_data", None)
    if method is None:
        return False
    from scrapy_redis.spiders import RedisMixin

    return method is not RedisMixin.make_request_from_data


def parse_seed(data: bytes, spider_class: type[Spider], encoding: str = "utf-8") -> dict[str, Any]:
    """What a seed says, checked but for the spider's state: ``url`` and the other keys of the JSON object, if any."""
    try:
        text = data.decode(encoding).strip()
    except (UnicodeDecodeError, LookupError):
        raise SeedError(f"not {encoding} text: {_short(data)}; {_EXAMPLE}") from None
    if not text:
        raise SeedError(f"empty; {_EXAMPLE}")
    if text[0] in '{["':
        return _parse_object(text, spider_class)
    _check_url(text)
    return {"url": text}


def _parse_object(text: str, spider_class: type[Spider]) -> dict[str, Any]:
    try:
        seed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SeedError(f"malformed JSON ({error}); {_EXAMPLE}") from None
    if not isinstance(seed, dict):
        raise SeedError(f"JSON, but not an object: {_cut(text)}; {_EXAMPLE}")
    if unknown := sorted(seed.keys() - _KINDS.keys()):
        raise SeedError(f"unknown key {unknown[0]!r}; known are {', '.join(_KINDS)} (form fields go into formdata)")
    for key, value in seed.items():
        types, name = _KINDS[key]
        if type(value) not in types:
            raise SeedError(f"{key} must be {name}, not {_cut(json.dumps(value))}")
    if abs(seed.get("priority", 0)) > MOST_PRIORITY:
        raise SeedError(f"priority must be between -{MOST_PRIORITY} and {MOST_PRIORITY}")
    if "url" not in seed:
        raise SeedError(f'the JSON object has no "url"; {_EXAMPLE}')
    if "body" in seed and "formdata" in seed:
        raise SeedError("body and formdata exclude each other; keep one")
    seed["url"] = seed["url"].strip()
    _check_url(seed["url"])
    for role in _METHODS:
        if role in seed:
            _check_method(role, seed[role], spider_class)
    return seed


def _check_url(url: str) -> None:
    if _USUAL.match(url):
        return
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise SeedError(f"malformed URL {_short(url)} ({error})") from None
    if parts.scheme in SCHEMES and not url.partition(":")[2].startswith("//"):
        raise SeedError(f"URL without a host: {_short(url)}; two slashes follow the colon, as in https://example.com/")
    if not parts.scheme or "://" not in url:
        raise SeedError(f"URL without a scheme: {_short(url)}; write https://… in front")
    if parts.scheme not in SCHEMES:
        raise SeedError(f"URL with scheme {parts.scheme!r}: {_short(url)}; seeds may have {', '.join(SCHEMES)}")
    host = parts.hostname or ""
    if not host or not host.isprintable() or any(c in ' <>"{}|^`%' for c in host):
        raise SeedError(f"URL without a valid host: {_short(url)}; write e.g. https://example.com/")


def _check_method(role: str, name: str, spider_class: type[Spider]) -> None:
    if name.startswith("__") or not callable(getattr(spider_class, name, None)):
        raise SeedError(f"{role} {_short(name)}: spider {spider_class.name!r} has no such method")


def check_seed(data: bytes, spider_class: type[Spider], encoding: str = "utf-8") -> dict[str, Any]:
    """:func:`parse_seed`, and that a request can be made of it: what ``scrapy seed`` does before it pushes a line."""
    seed = parse_seed(data, spider_class, encoding)
    if len(seed) > 1:
        _build({key: value for key, value in seed.items() if key not in _METHODS})
    return seed


def _request(seed: dict[str, Any], spider: Spider) -> Request:
    return _build({key: getattr(spider, value) if key in _METHODS else value for key, value in seed.items()})


def _build(arguments: dict[str, Any]) -> Request:
    cls = FormRequest if "formdata" in arguments else Request
    try:
        return cls(**{"dont_filter": True, **arguments})
    except Exception as error:  # noqa: BLE001 (constructors raise many kinds: headers, cookies, encodings)
        raise SeedError(_one_line(f"no request can be made of it: {type(error).__name__}: {error}")) from None


def _requests_of_spider(data: bytes, spider: Spider) -> list[Request]:
    """What the spider's own method makes: a request, an iterable of them, or nothing."""
    try:
        result: Any = spider.make_request_from_data(data)  # type: ignore[attr-defined]
        if inspect.iscoroutine(result):
            result.close()
        if isinstance(result, Request):
            return [result]
        requests = list(result) if isinstance(result, Iterable) else [] if not result else [result]
    except Exception as error:  # noqa: BLE001 (the user's code)
        raise SeedError(_one_line(f"make_request_from_data raised {type(error).__name__}: {error}")) from None
    for request in requests:
        if not isinstance(request, Request):
            raise SeedError(f"make_request_from_data gave a {type(request).__name__}; it must give requests")
    return requests


def _short(value: str | bytes) -> str:
    """`value` quoted, at most about 100 characters."""
    return _cut(repr(value))


def _cut(text: str) -> str:
    return _one_line(text if len(text) <= 100 else text[:99] + "…")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]
