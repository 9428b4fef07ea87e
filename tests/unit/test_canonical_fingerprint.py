"""Fingerprints: a stored format, what counts in a request, and what each opt-out does."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from scrapy import FormRequest, Request
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler

from crawler.canonical import FINGERPRINT_VERSION, CanonicalFingerprinter
from crawler.canonical.fingerprinter import CLASSES
from crawler.canonical.url import canonicaliser


@pytest.fixture
def fingerprinter() -> CanonicalFingerprinter:
    return CanonicalFingerprinter(canonicaliser())


def test_the_version_is_the_first_byte(fingerprinter: CanonicalFingerprinter) -> None:
    key = fingerprinter.fingerprint(Request("http://example.com/"))
    assert len(key) == 20
    assert key[0] == int(FINGERPRINT_VERSION)


def test_spellings_share_a_key(fingerprinter: CanonicalFingerprinter) -> None:
    a = Request("http://example.com/?b=1&a=2&utm_source=x#top")
    b = Request("HTTP://EXAMPLE.com:80/?a=2&b=1")
    assert fingerprinter.fingerprint(a) == fingerprinter.fingerprint(b)


URL = "http://example.com/a?x=1"
DIFFERENT: list[Request] = [
    Request(URL),
    Request(URL, method="HEAD"),
    Request(URL, body=b"1"),
    Request(URL, method="POST"),
    Request(URL, method="POST", body=b"1"),
    Request(URL, method="POST", body=b"2"),
    FormRequest(URL, formdata={"a": "1"}),
    Request(URL, meta={"canonical": False}),
    Request("http://example.com/a?x=2"),
    Request("http://example.com/a?x=%31", meta={"verbatim_url": True}),
    Request("http://example.com/a?x=%31", meta={"canonical": False}),
]


def test_what_counts(fingerprinter: CanonicalFingerprinter) -> None:
    assert len({fingerprinter.fingerprint(request) for request in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("meta", [{"canonical": True}, {"canonical": None}, {"verbatim_url": False}, {"x": 1}])
def test_other_meta_does_not_count(fingerprinter: CanonicalFingerprinter, meta: dict[str, Any]) -> None:
    assert fingerprinter.fingerprint(Request(URL, meta=meta)) == fingerprinter.fingerprint(Request(URL))


def test_verbatim_url_is_taken_as_written(fingerprinter: CanonicalFingerprinter) -> None:
    spelled = Request("http://example.com/?b=1&a=2", meta={"verbatim_url": True})
    canonical = Request("http://example.com/?a=2&b=1", meta={"verbatim_url": True})
    assert fingerprinter.fingerprint(spelled) != fingerprinter.fingerprint(canonical)
    assert fingerprinter.fingerprint(canonical) == fingerprinter.fingerprint(Request("http://example.com/?a=2&b=1"))
    fingerprinter.fingerprint(Request("http://example.com/\ud800\n", meta={"verbatim_url": True}))


def test_a_change_of_meta_is_not_hidden_by_the_cache(fingerprinter: CanonicalFingerprinter) -> None:
    request = Request(URL)
    before = fingerprinter.fingerprint(request)
    request.meta["canonical"] = False
    assert fingerprinter.fingerprint(request) != before
    del request.meta["canonical"]
    assert fingerprinter.fingerprint(request) == before


def test_headers_count_only_when_named() -> None:
    plain, named = (
        CanonicalFingerprinter(canonicaliser()),
        CanonicalFingerprinter(canonicaliser(), include_headers=["Accept-Language", "X-A"]),
    )
    german, french = (Request(URL, headers={"Accept-Language": value}) for value in ("de", "fr"))
    assert plain.fingerprint(german) == plain.fingerprint(french) == named.fingerprint(Request(URL))
    assert len({named.fingerprint(request) for request in (german, french, Request(URL))}) == 3


def test_settings_reach_the_fingerprinter() -> None:
    crawler = get_crawler(settings_dict={"CANONICAL_KEEP_FRAGMENTS": True, "CANONICAL_INCLUDE_HEADERS": ["X-A"]})
    fingerprinter = build_from_crawler(CanonicalFingerprinter, crawler)
    a, b, c = Request(URL + "#1"), Request(URL + "#2"), Request(URL + "#1", headers={"X-A": "1"})
    assert len({fingerprinter.fingerprint(request) for request in (a, b, c)}) == 3


def test_stats_are_exact_after_a_report() -> None:
    crawler = get_crawler()
    fingerprinter = build_from_crawler(CanonicalFingerprinter, crawler)
    for number in range(120):
        request = Request(f"http://example.com/{number}?utm_source=x&fbclid=y")
        fingerprinter.fingerprint(request)
        fingerprinter.fingerprint(request)
    fingerprinter.fingerprint(Request("http://example.com/plain"))
    fingerprinter.report()
    found = {name: value for name, value in crawler.stats.get_stats().items() if name.startswith("canonical/")}
    assert found == {
        "canonical/urls": 121,
        "canonical/changed": 120,
        "canonical/stripped/campaign": 120,
        "canonical/stripped/click": 120,
    }


def test_the_version_covers_everything_that_can_change_a_key() -> None:
    def version(**settings: Any) -> str:
        return build_from_crawler(CanonicalFingerprinter, get_crawler(settings_dict=settings)).version

    versions = [
        version(),
        version(CANONICAL_GROUPS="session"),
        version(CANONICAL_OFF="email"),
        version(CANONICAL_KEEP_FRAGMENTS=True),
        version(CANONICAL_INCLUDE_HEADERS=["X-A"]),
    ]
    assert len(set(versions)) == 5
    assert all(text.startswith(f"{FINGERPRINT_VERSION}-") for text in versions)
    assert version() == versions[0]


def test_a_return_within_a_chain_has_its_own_key(fingerprinter: CanonicalFingerprinter) -> None:
    request = Request(URL)
    own = fingerprinter.class_key(request).hex()
    keys = []
    for chain in ([own], [own, own], [own, "00", own, own]):
        request.meta[CLASSES] = chain
        keys.append(fingerprinter.fingerprint(request))
    assert len(set(keys)) == 3
    assert keys[0] == fingerprinter.class_key(request)


@pytest.mark.parametrize("chain", [["00", "00"], [], "text", 7, [None]])
def test_a_chain_copied_from_another_request_is_ignored(fingerprinter: CanonicalFingerprinter, chain: Any) -> None:
    plain = fingerprinter.fingerprint(Request(URL))
    assert fingerprinter.fingerprint(Request(URL, meta={CLASSES: chain})) == plain


def test_pure_modules_import_neither_scrapy_nor_redis() -> None:
    script = (
        "import sys, crawler.canonical as c; c.canonical_url('http://a.example/'); c.FINGERPRINT_VERSION; "
        "from crawler.canonical import explain, findings, keys, rules, sources, trials; "
        "print([m for m in ('scrapy', 'redis', 'twisted') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


def test_the_package_itself_costs_nothing() -> None:
    script = "import sys, crawler.canonical; print([m for m in ('ada_url', 'tomllib') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
