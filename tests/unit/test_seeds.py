"""Seeds: every documented form gives the request it says, everything else one line that names the fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy_redis.spiders import RedisSpider

from crawler.frontier.seeds import SeedError, check_seed, makes_own_requests, requests_from_seed

URL = "https://site.example/page?a=1"


class Plain(Spider):
    name = "plain"

    def parse_item(self, response: Any) -> None:
        pass

    def failed(self, failure: Any) -> None:
        pass


class Fed(RedisSpider):  # type: ignore[misc]  # scrapy-redis has no types
    name = "fed"


class Own(RedisSpider):  # type: ignore[misc]  # scrapy-redis has no types
    name = "own"

    def make_request_from_data(self, data: bytes) -> Any:
        word = data.decode()
        if word == "raise":
            raise RuntimeError("no such\nword")
        if word == "lazy":
            return self.lazy()
        answers = {
            "one": Request(URL),
            "many": [Request(URL), Request(URL + "0")],
            "generator": (Request(f"{URL}{n}") for n in range(3)),
            "none": None,
            "empty": [],
            "text": URL,
            "number": 5,
            "coroutine": self.later() if word == "coroutine" else None,
        }
        return answers[word]

    def lazy(self) -> Any:
        yield Request(URL)
        raise KeyError("half-way")

    async def later(self) -> Request:
        return Request(URL)


def only(data: bytes | str, spider: Spider | None = None) -> Request:
    (request,) = requests_from_seed(data if isinstance(data, bytes) else data.encode(), spider or Plain())
    return request


@pytest.mark.parametrize("spider_class", [Plain, Fed])
@pytest.mark.parametrize("text", [URL, f"  {URL}\r\n", f"\t{URL}"])
def test_plain_url(spider_class: type[Spider], text: str) -> None:
    request = only(text, spider_class())
    assert (type(request), request.url, request.method, request.callback) == (Request, URL, "GET", None)
    assert request.dont_filter  # a seed is a wish: fetched even if seen


def test_a_plain_url_with_other_letters_is_quoted() -> None:
    assert only("https://site.example/ü b").url == "https://site.example/%C3%BC%20b"


def test_the_spiders_own_encoding_counts() -> None:
    spider = Fed()
    spider.redis_encoding = "latin-1"
    assert only("https://site.example/ü".encode("latin-1"), spider).url == "https://site.example/%C3%BC"


def test_every_key_of_a_json_seed() -> None:
    spider = Plain()
    seed = {
        "url": f" {URL} ",
        "method": "put",
        "body": "ü",
        "headers": {"X-A": ["1", "2"]},
        "cookies": [{"name": "n", "value": "v"}],
        "meta": {"a": {"b": [1]}},
        "cb_kwargs": {"k": 1},
        "callback": "parse_item",
        "errback": "failed",
        "encoding": "latin-1",
        "priority": -3,
        "dont_filter": False,
        "flags": ["f"],
    }
    request = only(json.dumps(seed), spider)
    assert (request.url, request.method, request.body) == (URL, "PUT", b"\xfc")
    assert request.headers.getlist("X-A") == [b"1", b"2"]
    assert request.cookies == [{"name": "n", "value": "v"}]
    assert (request.meta, request.cb_kwargs, request.flags) == ({"a": {"b": [1]}}, {"k": 1}, ["f"])
    assert (request.callback, request.errback) == (spider.parse_item, spider.failed)
    assert (request.encoding, request.priority, request.dont_filter) == ("latin-1", -3, False)


def test_form_fields() -> None:
    request = only(json.dumps({"url": URL, "formdata": {"q": "a b"}}))
    assert (type(request), request.method, request.body) == (FormRequest, "POST", b"q=a+b")


SEED_FAULTS = [
    (b"\xff\xfe\x00", ["not utf-8 text", "a seed is a URL"]),
    (b"   ", ["empty", "a seed is a URL"]),
    (b"site.example/page", ["without a scheme", "https://"]),
    (b"see https://site.example/", ["without a scheme"]),
    (b"http:/site.example/", ["without a host: 'http:/site.example/'; two slashes follow the colon"]),
    (b"https:site.example/?u=https://a.example", ["without a host", "two slashes follow the colon"]),
    (b"htps://site.example/", ["scheme 'htps'", "http, https"]),
    (b"file:///etc/passwd", ["scheme 'file'"]),
    (b"https:///path", ["without a valid host"]),
    (b"https://exa mple.com/", ["without a valid host"]),
    (b"https://[::1/", ["malformed URL"]),
    (b"https://site.example:port/", ["malformed URL", "port"]),
    (b'{"url": "https://site.example/"', ["malformed JSON", "a seed is a URL"]),
    (b'["https://site.example/"]', ["not an object"]),
    (b'"https://site.example/"', ["not an object"]),
    (b"{}", ['no "url"']),
    (b'{"url": 5}', ["url must be a string, not 5"]),
    (b'{"url": null}', ["url must be a string, not null"]),
    (b'{"url": ""}', ["without a scheme"]),
    (b'{"uri": "https://site.example/"}', ["unknown key 'uri'", "known are url, method"]),
    (b'{"url": "https://a.example/", "priority": "high"}', ['priority must be a whole number, not "high"']),
    (b'{"url": "https://a.example/", "priority": true}', ["priority must be a whole number, not true"]),
    (b'{"url": "https://a.example/", "dont_filter": 1}', ["dont_filter must be true or false"]),
    (b'{"url": "https://a.example/", "meta": []}', ["meta must be an object, not []"]),
    (b'{"url": "https://a.example/", "headers": {"A": 1.5}}', ["no request can be made of it", "float"]),
    (b'{"url": "https://a.example/", "callback": "parse_old"}', ["callback 'parse_old'", "'plain' has no such method"]),
    (b'{"url": "https://a.example/", "errback": "__init__"}', ["errback '__init__'", "no such method"]),
    (b'{"url": "https://a.example/", "body": "", "formdata": {}}', ["exclude each other"]),
    (b"[" * 100_000, ["malformed JSON"]),
]


@pytest.mark.parametrize(("data", "words"), SEED_FAULTS, ids=lambda v: str(v)[:40])
def test_malformed_seeds_say_what_is_wrong(data: bytes, words: list[str]) -> None:
    for judge in (lambda: requests_from_seed(data, Plain()), lambda: check_seed(data, Plain)):
        with pytest.raises(SeedError) as caught:
            judge()
        assert all(word in str(caught.value) for word in words), caught.value
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


@given(
    st.binary(max_size=60)
    | st.text(max_size=40).map(str.encode)
    | st.text(max_size=40).map(lambda t: b"https://" + t.encode())
)
def test_any_bytes_are_requests_or_a_seed_error(data: bytes) -> None:
    try:
        assert all(isinstance(r, Request) for r in requests_from_seed(data, Plain()))
        check_seed(data, Plain)
    except SeedError as error:
        assert "\n" not in str(error)  # noqa: PT017


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["method", "body", "formdata", "headers", "cookies", "meta", "cb_kwargs", "encoding", "priority", "flags"]
)


@given(st.dictionaries(keys, json_values, max_size=4))
def test_any_json_object_is_a_request_or_a_seed_error(rest: dict[str, Any]) -> None:
    data = json.dumps({"url": URL, **rest}).encode()
    try:
        requests_from_seed(data, Plain())
    except SeedError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_only_overriding_spiders_make_their_own_requests() -> None:
    assert [makes_own_requests(c) for c in (Plain, Fed, Own)] == [False, False, True]


@pytest.mark.parametrize(("word", "count"), [("one", 1), ("many", 2), ("generator", 3), ("none", 0), ("empty", 0)])
def test_a_spiders_own_method_is_called(word: str, count: int) -> None:
    assert len(requests_from_seed(word.encode(), Own())) == count


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("raise", "make_request_from_data raised RuntimeError: no such word"),
        ("lazy", "make_request_from_data raised KeyError: 'half-way'"),
        ("text", "gave a str; it must give requests"),
        ("number", "gave a int; it must give requests"),
        ("coroutine", "gave a coroutine; it must give requests"),
        ("unknown", "make_request_from_data raised KeyError"),
    ],
)
def test_what_a_spiders_own_method_does_wrong_is_a_seed_error(word: str, words: str) -> None:
    with pytest.raises(SeedError) as caught:
        requests_from_seed(word.encode(), Own())
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
