"""What holds for every URL, not only for those someone thought of."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.provisional import urls
from scrapy import Request

from crawler.canonical import canonical_host, canonical_url
from crawler.canonical.explain import Explanation
from crawler.canonical.folds import FOLDS
from crawler.canonical.trackers import Trackers, group_names
from crawler.canonical.url import Canonicaliser, canonicaliser
from tests.unit.canonical_corpus import with_rule

HOSTS = st.sampled_from(["example.com", "shop.example", "www.youtube.com", "xn--mnchen-3ya.example", "127.0.0.1"])
UNLISTED = st.text(alphabet="abcdefxyz0123456789", min_size=1, max_size=8).map("q".__add__)
VALUES = st.text(alphabet="abcXYZ0189-_.~%25", max_size=8).map(lambda text: text.replace("%", "%25"))
QUERIES = st.lists(st.tuples(UNLISTED, VALUES), min_size=1, max_size=8)
COMMON = Trackers()
URL_CHARACTERS = "aAmpindex.html/;?&=%+25u0_é~()[]'#|:"
SCHEMES = st.sampled_from(["http://", "https://", "HTTP://", "ftp://", "sftp://", "s3://", "ws://", "file://", ""])


@given(SCHEMES, st.text(st.characters()))
@example("http://", "\ud800")
@example("http://", "a.example/\ud800?b=1&a=2")
@example("http://", "[::1")
@example("http://", "a.example/;jsessionid=0123456789abcdef/..;jsessionid=0123456789abcdef/x")
@example("http://", "u@h@a.example:/%%34%31?%%%&=&&a")
@example("", "//")
def test_never_raises_and_is_idempotent(scheme: str, rest: str) -> None:
    canonical = canonical_url(scheme + rest)
    assert canonical_url(canonical) == canonical
    canonical_host(scheme + rest)


@given(st.one_of(urls(), st.text().map("http://example.com/".__add__)))
def test_whatever_a_request_accepts_has_one_canonical_form(url: str) -> None:
    accepted = Request(url).url
    canonical = canonical_url(accepted)
    assert canonical_url(canonical) == canonical
    assert canonical.isascii()


@given(HOSTS, QUERIES)
def test_unlisted_parameters_survive(host: str, query: list[tuple[str, str]]) -> None:
    text = "&".join(f"{key}={value}" for key, value in query)
    canonical = canonical_url(f"https://{host}/p?{text}")
    assert sorted(canonical.partition("?")[2].split("&")) == sorted(f"{key}={value}" for key, value in query)


@given(HOSTS, st.dictionaries(UNLISTED, VALUES, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_of_keys_is_irrelevant(host: str, query: dict[str, str], random: object) -> None:
    pairs = [f"{key}={value}" for key, value in query.items()]
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert canonical_url(f"https://{host}/?{'&'.join(pairs)}") == canonical_url(f"https://{host}/?{'&'.join(shuffled)}")


@given(st.lists(VALUES, min_size=2, max_size=6))
def test_order_of_one_keys_values_is_kept(values: list[str]) -> None:
    query = "&".join(f"a={value}" for value in values)
    assert canonical_url(f"http://example.com/?{query}").partition("?")[2] == query
    assert canonical_url(f"http://example.com/?z=1&{query}").partition("?")[2] == f"{query}&z=1"


FOLDED_HOSTS = st.lists(st.sampled_from(["www", "m", "mobile", "amp", "a", "en", ""]), max_size=5).map(".".join)
FOLDED_PARTS = [
    "/", "x", "&a=1", "&utm_source=1", "?", "amp", "/amp", ".amp", ".html", ".", "index.html", "%ud83d", "%ude00",
    "%u0026", "%u002e", ";sid=9682993c8daa2c5497996114facdc805", "/(S(4hqa0555fwsecu455xqckv45))",
]  # fmt: skip
FOLDED_PATHS = st.lists(st.sampled_from(FOLDED_PARTS), max_size=10).map("".join)


@settings(max_examples=400)
@given(
    st.sets(st.sampled_from(FOLDS)),
    st.sets(st.sampled_from(group_names())),
    FOLDED_HOSTS,
    st.sampled_from(["", ".", ".."]),
    st.one_of(st.text(URL_CHARACTERS), FOLDED_PATHS),
)
@example({"amp", "index", "slash", "slashes"}, set(), "", "", "//amp/index.html//amp/?amp=1")
@example({"case", "pctu"}, set(), "", "", "/%U00E9%u00e9%")
@example({"unmangle"}, set(), "", "", "x&a=1?utm_source=1")
@example({"unmangle", "index", "slash"}, set(), "", "", "x&a=1/index.html")
@example({"amp"}, set(), "", "", "...amp")
@example({"unmangle"}, set(), "", "", "..&a=1")
@example({"pctu"}, set(), "", "", "x/%u002e%u002e/y")
@example({"hostdot", "www", "mobile", "amp"}, set(), "www.m.www.amp", ".", "")
@example({"amp"}, {"session"}, "", "", ";sid=9682993c8daa2c5497996114facdc805.amp")
def test_options_are_idempotent_and_never_raise(
    fold: set[str], groups: set[str], labels: str, dots: str, rest: str
) -> None:
    canonicaliser = with_rule(fold=sorted(fold), groups=sorted(groups))
    canonical = canonicaliser.canonical(f"http://{labels}.example{dots}/{rest}")
    assert canonicaliser.canonical(canonical) == canonical


@given(st.text(URL_CHARACTERS), st.sampled_from(["", ":80", ":81", ".", "@b"]))
@example("/a/%2e%2E/b/..", "")
@example("?a#b?c", "")
@example("/a/.b/..c/.", "")
def test_what_is_remembered_changes_nothing(rest: str, end: str) -> None:
    url = f"http://www.a.example{end}{rest}"
    fresh = Canonicaliser(COMMON)
    first = fresh.canonical(url)
    fresh.canonical(f"http://www.a.example{end}/")
    assert fresh.canonical(url) == first


@given(st.text(URL_CHARACTERS))
def test_an_explanation_comes_to_the_same(rest: str) -> None:
    for url in ("http://www.a.example/" + rest, "x://" + rest, rest):
        made = Explanation(canonicaliser(), url)
        assert made.canonical == canonical_url(url)
        assert url in made.text()
        assert "canonical" in made.json()


@settings(max_examples=50)
@given(HOSTS, QUERIES)
def test_trackers_change_nothing(host: str, query: list[tuple[str, str]]) -> None:
    text = "&".join(f"{key}={value}" for key, value in query)
    plain = canonical_url(f"https://{host}/p?{text}")
    assert canonical_url(f"https://{host}/p?utm_source=x&{text}&fbclid=IwAR0#f") == plain


@pytest.mark.parametrize(
    "monstrous",
    [
        lambda size: "http://a.example/" + ";jsessionid=0123456789abcdef" * (size // 5),
        lambda size: "http://a.example/?" + "&mkt_tok=1" * (size // 2) + "&x=unsubscribed",
        lambda size: "http://a.example/?" + "&".join(f"{n}=1" for n in range(size, 0, -1)),
        lambda size: "http://a.example" + "/a/.." * size,
        lambda size: "sftp://a.example" + "/a/.." * size,
        lambda size: "http://" + "a." * (size // 2) + "example/",
        lambda size: "http://a.example/?" + "%" * 3 * size,
        lambda size: "http://a.example/" + "(S(" * size,
    ],
    ids=["path-parameters", "guards", "pairs", "dots", "generic-dots", "labels", "percents", "brackets"],
)
def test_a_monstrous_url_costs_no_monstrous_time(monstrous: Callable[[int], str]) -> None:
    everything = with_rule(fold=FOLDS, groups=group_names())

    def cost(size: int) -> float:
        url, start = monstrous(size), time.process_time()
        everything.canonical(url)
        canonical_url(url)
        return time.process_time() - start

    small = min(cost(10_000) for _ in range(3))
    assert cost(100_000) < 40 * small + 0.02  # ten times the size: ten times the time, where squares would be a hundred
