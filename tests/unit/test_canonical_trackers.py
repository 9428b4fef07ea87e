"""The data file against the evidence it was made from, and its guards."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from crawler.canonical import canonical_url
from crawler.canonical.hosts import HostIndex
from crawler.canonical.trackers import Trackers, builtin
from tests.unit.canonical_corpus import with_rule

EVIDENCE = Path(__file__).parents[1] / "data" / "tracking_params.tsv"


def evidence(safe: str) -> list[dict[str, str]]:
    with EVIDENCE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if row["global_safe"] == safe]


def test_every_safe_name_is_dropped_on_any_host() -> None:
    names = Trackers().for_host("a.example")
    missing = [row["name"] for row in evidence("yes") if not names.get(row["name"].replace("[a-z]{8}", "abcdefgh"))]
    assert not missing


def test_no_unsafe_name_is_dropped_on_any_host() -> None:
    names = Trackers().for_host("a.example")
    assert not [row["name"] for row in evidence("no") if names.get(row["name"])]


def test_every_entry_says_why_and_names_something() -> None:
    for item in builtin():
        assert len(item.tracker.why) > 3
        assert item.names or item.prefixes or item.pattern
        assert item.tracker.category in {"campaign", "click", "email", "social", "affiliate", "session", "cachebuster"}
        assert all(name == name.lower() for name in item.names)


def test_no_name_is_listed_twice_for_one_place() -> None:
    seen: set[tuple[str, str, str]] = set()
    for item in builtin():
        for name in item.names:
            for host in item.hosts or ("*",):
                assert (name, host, item.group) not in seen, (name, host)
                seen.add((name, host, item.group))


GUARDS = [
    ("http://a.example/?jsessionid=0123456789ABCDEF.node-1!x", "http://a.example/"),
    ("http://a.example/?jsessionid=012345678", "http://a.example/?jsessionid=012345678"),
    ("http://a.example/p;jsessionid=0000AbCdEfGhIjKlMnOpQrS:15abc?x=1", "http://a.example/p?x=1"),
    ("http://a.example/p;jsessionid=0123456789ABCDEF~node1/q", "http://a.example/p/q"),
    ("http://a.example/?_hsenc=1", "http://a.example/"),
    ("http://a.example/unsubscribe?_hsenc=1", "http://a.example/unsubscribe?_hsenc=1"),
    ("http://a.example/email-preferences?_hsenc=1", "http://a.example/email-preferences?_hsenc=1"),
    ("http://a.example/?PHPSESSID=q2w3e4r5t6y7u8i9o0p1a2", "http://a.example/"),
    ("http://a.example/?PHPSESSID=short", "http://a.example/?PHPSESSID=short"),
    ("http://a.example/?cfid=1&cftoken=2&CFID=3", "http://a.example/"),
    ("http://a.example/?cfid=1", "http://a.example/?cfid=1"),
    ("http://a.example/?ASPSESSIONIDAQBSDSRT=EOHBLBDDPFCLHKPGGKLILNAM", "http://a.example/"),
    ("http://a.example/?__s=abc", "http://a.example/?__s=abc"),
    ("http://a.example/?__s=abc123", "http://a.example/"),
    ("http://a.example/unsubscribe?mc_eid=1", "http://a.example/unsubscribe?mc_eid=1"),
    ("http://a.example/Preferences?elqTrackId=1", "http://a.example/Preferences?elqTrackId=1"),
    ("https://www.greenbuildingadvisor.com/?oly_enc_id=1", "https://www.greenbuildingadvisor.com/?oly_enc_id=1"),
    ("https://tix.axs.com/?irclickid=1", "https://tix.axs.com/?irclickid=1"),
    ("https://www.amazon.co.uk/dp/B0?tag=x-21&th=1&pf_rd_r=2&qid=3", "https://www.amazon.co.uk/dp/B0?th=1"),
    ("https://amazon.de/dp/B0?qid=3", "https://amazon.de/dp/B0"),
    ("https://music.amazon.com/x?tag=3", "https://music.amazon.com/x?tag=3"),
    ("https://www.ebay.com/itm/1?hash=item2&_trkparms=3&mkevt=1", "https://www.ebay.com/itm/1?hash=item2"),
    ("https://m.facebook.com/p?__cft__[0]=A&__tn__=B&id=1", "https://m.facebook.com/p?id=1"),
    ("https://www.google.com/search?q=a&ved=1&ei=2&start=10", "https://www.google.com/search?q=a&start=10"),
    ("https://x.com/u/status/1?s=20&t=abcdefghij0123456789AB", "https://x.com/u/status/1"),
    ("https://item.taobao.com/item.htm?id=1&spm=a.b", "https://item.taobao.com/item.htm?id=1"),
    ("http://a.example/?UTM_SOURCE=1&Fbclid=2&SCCID=3&wt.mc_id=4", "http://a.example/"),
    ("http://a.example/?utm%5fsource=1", "http://a.example/"),
]


@pytest.mark.parametrize(("url", "expected"), GUARDS)
def test_guards(url: str, expected: str) -> None:
    assert canonical_url(url) == expected


GROUP_GUARDS = [
    ("session", "http://a.example/?sid=12345", False),
    ("session", "http://a.example/?sid=abcdefghijklmnopqrstuvwxyzabcd", False),
    ("session", "http://a.example/?session_id=keynote", False),
    ("session", "http://a.example/?session_id=9682993c8daa2c54979961140", False),
    ("session", "http://a.example/?session_id=9682993c8daa2c549799611400", True),
    ("session", "http://a.example/?session_id=550e8400-e29b-41d4-a716-446655440000", True),
    ("session", "http://a.example/?session_id=keynote-2024-the-future-of-lamps", False),
    ("session", "http://a.example/?sid=winter-2024-collection-of-lamps", False),
    ("session", "http://a.example/?sid=winter_2024_collection_of_lamps", False),
    ("session", "http://a.example/?sid=12345678901234567890123456", False),
    ("session", "http://a.example/?session=0123456789abcdef0123456789abcdef", False),
    ("session", "http://a.example/?s=lamps", False),
    ("session", "http://a.example/?s=9682993c8daa2c5497996114facdc805", True),
    ("session", "http://a.example/?sessionid=9682993c8daa2c54", True),
    ("cachebuster", "http://a.example/?t=1234567890123456", False),
    ("cachebuster", "http://a.example/?t=42", False),
    ("cachebuster", "http://a.example/?v=1700000000", False),
    ("cachebuster", "http://a.example/?random=1", False),
    ("cachebuster", "http://a.example/?rnd=.123456789", True),
    ("cachebuster", "http://a.example/?timestamp=1700000000000", True),
    ("hashvalue", "http://a.example/?x=12854b827878df26423d933a5baf86d", False),
    ("hashvalue", "http://a.example/?x=12854b827878df26423d933a5baf86d5", True),
]


@pytest.mark.parametrize(("group", "url", "dropped"), GROUP_GUARDS)
def test_group_guards(group: str, url: str, dropped: bool) -> None:
    assert canonical_url(url) == url
    assert with_rule(groups=[group]).canonical(url) == ("http://a.example/" if dropped else url)


def test_look_up_is_by_suffix_from_the_general_to_the_particular() -> None:
    index = HostIndex((pattern, pattern) for pattern in ["a.b", "*", "=x.a.b", "x.a.b", "b", "c", "x.*", "=a.b"])
    assert index.find("x.a.b") == ["*", "b", "a.b", "x.a.b", "=x.a.b"]
    assert index.find("a.b") == ["*", "b", "a.b", "=a.b"]
    assert index.find("x.co.uk") == ["*", "x.*"]
    assert index.find("y.x.de.") == ["*", "x.*"]


def test_names_that_only_look_new_do_not_fill_the_memory() -> None:
    names = Trackers().for_host("a.example")
    for number in range(25_000):
        names.get(f"q{number}")
    assert len(names._memo) <= 10_000
