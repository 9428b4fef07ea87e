"""What the audit tries, how it judges, and what it suggests."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest

from crawler.canonical import findings, rules
from crawler.canonical.findings import Finding
from crawler.canonical.trials import chosen, learning_trial, merge_trial, page_digest, verdict
from crawler.canonical.url import Canonicaliser, canonicaliser
from tests.unit.canonical_corpus import with_rule


def test_the_share_is_kept_and_always_the_same_urls() -> None:
    urls = [f"http://a.example/{number}" for number in range(10_000)]
    picked = [url for url in urls if chosen(url, 0.05)]
    assert 400 < len(picked) < 600
    assert picked == [url for url in urls if chosen(url, 0.05)]
    assert not any(chosen(url, 0.0) for url in urls)
    assert all(chosen(url, 1.0) for url in urls)


def test_one_dropped_parameter_is_put_back_alone() -> None:
    url = "http://a.example/x?utm_source=1&b=2&a=3&fbclid=4"
    trial = merge_trial(canonicaliser(), url)
    assert trial
    assert trial.reference == "http://a.example/x?a=3&b=2"
    assert (trial.variant, trial.subjects) in [
        ("http://a.example/x?a=3&b=2&utm_source=1", ("utm_source",)),
        ("http://a.example/x?a=3&b=2&fbclid=4", ("fbclid",)),
    ]
    assert {merge_trial(canonicaliser(), f"{url}{n}").subjects for n in range(50)} == {("utm_source",), ("fbclid",)}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("url", "subjects"),
    [
        ("http://a.example/?b=1&a=2", ("order",)),
        ("http://a.example/a%7E?q=a%20b", ("path escapes", "query escapes")),
        ("http://a.example/x;jsessionid=0123456789abcdef", (";jsessionid",)),
    ],
)
def test_other_steps_are_tried_as_found(url: str, subjects: tuple[str, ...]) -> None:
    trial = merge_trial(canonicaliser(), url)
    assert trial
    assert (trial.variant, trial.subjects) == (url, subjects)


def test_folds_are_tried_and_named() -> None:
    trial = merge_trial(with_rule(fold=["www", "slash"]), "http://www.a.example/x/")
    assert trial
    assert trial.subjects == ("origin", "fold slash")


@pytest.mark.parametrize(
    "url", ["http://a.example/", "HTTP://A.example:80/./x#top", "data:,x", "http://a.example/?a=1"]
)
def test_what_no_server_could_notice_is_not_tried(url: str) -> None:
    assert merge_trial(canonicaliser(), url) is None


def test_learning_leaves_out_one_unlisted_parameter() -> None:
    trial = learning_trial(canonicaliser(), "http://a.example/x?view=grid&utm_source=1")
    assert trial == ("http://a.example/x?view=grid", "http://a.example/x", ("learn view",))
    for number in range(20):
        tried = learning_trial(canonicaliser(), f"http://a.example/?a=1&a=2&b={number}")
        assert tried
        assert (tried.reference, tried.subjects) in [
            ("http://a.example/?a=1&a=2", ("learn b",)),
            (f"http://a.example/?b={number}", ("learn a",)),
        ]
    assert learning_trial(canonicaliser(), "http://a.example/x?utm_source=1") is None


def test_pages_are_compared_by_what_can_be_read() -> None:
    page = page_digest(200, ["Hello", "  World\n"], b"<p>1")
    assert page == page_digest(200, ["Hello World"], b"<p>2")
    assert page != page_digest(404, ["Hello World"], b"<p>1")
    assert page_digest(200, [], b"1") != page_digest(200, [], b"2")


def test_verdicts() -> None:
    assert verdict(b"a", b"a", b"a") == "same"
    assert verdict(b"a", b"b", b"a") == "changed"
    assert verdict(b"a", b"b", b"c") == "volatile"


def found() -> list[Finding]:
    shop = "https://shop.example"
    return [
        Finding("shop.example", "utm_campaign", Counter(changed=3, same=1),
                {"changed": [(f"{shop}/sale?utm_campaign=a", f"{shop}/sale")]}),
        Finding("shop.example", "utm_source", Counter(same=9), {"same": [(f"{shop}/?utm_source=a", f"{shop}/")]}),
        Finding("shop.example", "order", Counter(changed=1), {"changed": [(f"{shop}/?b=1&a=2", f"{shop}/?a=2&b=1")]}),
        Finding("shop.example", "learn view", Counter(same=6), {"same": [(f"{shop}/p?view=1", f"{shop}/p")]}),
        Finding("shop.example", "learn id", Counter(changed=8), {"changed": [(f"{shop}/p?id=1", f"{shop}/p")]}),
        Finding("shop.example", "learn few", Counter(same=2), {}),
        Finding("calm.example", "utm_source", Counter(same=2), {}),
    ]  # fmt: skip


def test_suggestions_are_rules_that_hold() -> None:
    text = findings.suggest(found())
    made = rules.sites(tomllib.loads(text), "suggested")
    assert [site.hosts for site in made] == [("=shop.example",), ("=shop.example",)]
    assert made[0].restore == ("utm_campaign",)
    assert made[0].order == "keep"
    assert made[1].strip == ("view",)
    assert not rules.failures(Canonicaliser(sites=made), made)
    assert "utm_campaign 3 of 4" in text


def test_a_suggestion_without_proof_is_left_to_a_person() -> None:
    text = findings.suggest(found()[3:4])
    assert "different = []  # give a pair that must stay apart" in text


def test_nothing_to_suggest() -> None:
    assert findings.suggest(found()[-1:]) == "# Nothing to suggest."


def test_the_report_is_a_table() -> None:
    lines = findings.report(found()).splitlines()
    assert lines[0].split() == ["host", "what", "tried", "changed", "volatile", "failed", "example"]
    assert lines[1].split()[:4] == ["shop.example", "utm_campaign", "4", "3"]
    assert lines[1].endswith("https://shop.example/sale?utm_campaign=a https://shop.example/sale")
