"""The canonical URL against a corpus of pairs that people judged: the same page, or two pages."""

from __future__ import annotations

import pytest

from crawler.canonical import canonical_host, canonical_url
from tests.unit.canonical_corpus import Pair, pairs, switched_off, switched_on


def test_the_corpus_is_whole() -> None:
    assert len(pairs()) > 260
    assert {pair.mode.partition(":")[0] for pair in pairs()} == {"default", "optin", "rule", "render"}


@pytest.mark.parametrize("pair", [pair for pair in pairs("default") if not pair.same])
def test_different_pages_stay_apart(pair: Pair) -> None:
    assert canonical_url(pair.a) != canonical_url(pair.b), pair.why


@pytest.mark.parametrize("pair", [pair for pair in pairs("default") if pair.same])
def test_spellings_of_one_page_merge(pair: Pair) -> None:
    assert canonical_url(pair.a) == canonical_url(pair.b), pair.why


@pytest.mark.parametrize("pair", [pair for pair in pairs() if pair.mode != "default"])
def test_with_the_option_on(pair: Pair) -> None:
    canonicaliser = switched_on(pair.mode)
    one, two = canonicaliser.canonical(pair.a), canonicaliser.canonical(pair.b)
    assert (one == two) == pair.same, pair.why
    assert canonicaliser.canonical(one) == one


@pytest.mark.parametrize("pair", [pair for pair in pairs() if pair.mode != "default" and pair.same])
def test_apart_with_the_option_off(pair: Pair) -> None:
    canonicaliser = switched_off(pair.mode)
    assert canonicaliser.canonical(pair.a) != canonicaliser.canonical(pair.b), pair.why


CONCERNED = {
    "optin:slashes": {"http://example.com////../.."},
    "optin:index": {"http://example.org/index.html"},
    "optin:www": {"http://www.example.com/123"},
    "optin:userinfo": {"http://UsEr:Pass@www.example.com/"},
}


@pytest.mark.parametrize("mode", sorted({pair.mode for pair in pairs("optin")}))
def test_an_option_merges_nothing_that_is_no_concern_of_it(mode: str) -> None:
    canonicaliser = switched_on(mode)
    different = [pair for pair in pairs("default") if not pair.same]
    merged = {pair.a for pair in different if canonicaliser.canonical(pair.a) == canonicaliser.canonical(pair.b)}
    assert merged == CONCERNED.get(mode, set())


CASES = [
    ("HTTP://Example.com:80/%7Ejo/./?b=2&a=1#top", "http://example.com/~jo/?a=1&b=2"),
    ("http://example.com/?a=2&b&a=1&b=", "http://example.com/?a=2&a=1&b&b="),
    ("http://example.com/?q=a%20b", "http://example.com/?q=a+b"),
    ("http://example.com/a+b", "http://example.com/a+b"),
    ("http://example.com/p;jsessionid=0123456789abcdef?x=1", "http://example.com/p?x=1"),
    ("http://example.com/p;JSESSIONID=0123456789ABCDEF.node1/q;v=1", "http://example.com/p/q;v=1"),
    ("http://us%65r:%70w@example.com/", "http://user:pw@example.com/"),
    ("http://example.com/p;jsessionid=7", "http://example.com/p;jsessionid=7"),
    ("http://example.com/?utm_source", "http://example.com/?utm_source"),
    ("eXAMPLE://a/./b/../b/%63/%7bfoo%7d", "example://a/b/c/%7Bfoo%7D"),  # RFC 3986 6.2.2
    ("file://localhost/C|/a/../b", "file:///C:/b"),
    ("sftp://UsEr@HOST.example/%7ea%2fB?b=1&a=2#f", "sftp://UsEr@host.example/~a%2FB?b=1&a=2"),
    ("data:text/plain,a%20b#c", "data:text/plain,a%20b#c"),
    ("http://a..b:99999/%7e?", "http://a..b:99999/~"),
    ("h\tt\nt\rp://h\to\ns\rt:9\t0\n0\r0/p\ta\nt\rh?q\tu\ne\rry#f", "http://host:9000/path?query"),
    ("ht\ntp://a..b:99999/\t%7e", "http://a..b:99999/~"),
    ("f\too://h/a\n/b", "foo://h/a/b"),
    ("foo://h/a?", None),
    ("foo://h/a", None),
    ("http://web.example/save/http://x.example/?utm_source=a&b=1", None),
    ("http://proxy.example/?https://x.example/?utm_source=a&b=1", None),
]


@pytest.mark.parametrize(("url", "expected"), CASES)
def test_canonical_form(url: str, expected: str | None) -> None:
    assert canonical_url(url) == (expected or url)


def test_fragments_are_kept_on_request() -> None:
    assert canonical_url("http://example.com/#/a", keep_fragments=True) == "http://example.com/#/a"
    assert canonical_url("http://example.com/#/a") == "http://example.com/"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://u:p@WWW.Example.com:8080/x", "www.example.com"),
        ("http://münchen.example/", "xn--mnchen-3ya.example"),
        ("http://[2001:DB8::1]:81/", "[2001:db8::1]"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("sftp://u@HOST.example:22/x", "host.example"),
        ("data:,x", ""),
        ("f\too://h\n/a", "h"),
        ("http://a..b:99999/", "a..b"),
    ],
)
def test_host(url: str, host: str) -> None:
    assert canonical_host(url) == host
