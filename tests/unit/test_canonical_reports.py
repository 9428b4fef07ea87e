"""Bug reports of other projects, each with the value that is right here: what their users lost pages or time to."""

from __future__ import annotations

import pytest
from scrapy import Request

from crawler.canonical import canonical_url
from tests.unit.canonical_corpus import with_rule


def same(a: str, b: str) -> bool:
    return canonical_url(a) == canonical_url(b)


def test_w3lib_131_percent_25_stays_escaped() -> None:
    assert canonical_url("http://foo.example/cmp/Supermercados-Dia%25") == "http://foo.example/cmp/Supermercados-Dia%25"
    assert not same("http://foo.example/cmp/Dia%2541", "http://foo.example/cmp/DiaA")


def test_w3lib_91_percent_23_is_no_fragment() -> None:
    once = canonical_url("https://example.com/path/to/foo%20bar%3a%20biz%20%2376%2c%20bang%202017#bash")
    assert once == "https://example.com/path/to/foo%20bar%3A%20biz%20%2376%2C%20bang%202017"
    assert canonical_url(once) == once


def test_w3lib_323_percent_3b_is_data() -> None:
    assert not same("http://example.com/a%3Bb", "http://example.com/a;b")
    assert not same("http://example.com/?q=a%3Bb", "http://example.com/?q=a;b")


def test_w3lib_290_semicolon_in_an_inner_segment() -> None:
    assert canonical_url("http://example.com/public;/../admin/secret") == "http://example.com/admin/secret"
    assert same("http://example.com/dir;x/a%7Eb", "http://example.com/dir;x/a~b")
    assert not same("http://example.com/a;/c", "http://example.com/a")


def test_w3lib_229_userinfo_keeps_its_case() -> None:
    assert canonical_url("sftp://UsEr:PaSsWoRd@www.EXAMPLE.com/") == "sftp://UsEr:PaSsWoRd@www.example.com/"
    assert not same("http://UsEr@example.com/", "http://user@example.com/")


def test_w3lib_178_apostrophe() -> None:
    # In a query browsers themselves write %27. In a path it is a reserved character: RFC 3986 lets nobody assume.
    assert same("http://example.com/?q=sample's", "http://example.com/?q=sample%27s")
    assert not same("http://example.com/sample's.xlsx", "http://example.com/sample%27s.xlsx")
    folded = with_rule(fold=["subdelims"])
    assert folded.canonical("http://example.com/it's") == folded.canonical("http://example.com/it%27s")


def test_scrapy_137_repeated_empty_pair() -> None:
    # A server may count them, so they stay apart; a site with such a trap folds them.
    assert not same("http://example.com/?q=&q=", "http://example.com/?q=")
    folded = with_rule(fold=["duppairs"])
    assert folded.canonical("http://example.com/?q=&q=&q=") == "http://example.com/?q="


def test_scrapy_1113_redirect_that_adds_the_same_pair_again() -> None:
    folded = with_rule(fold=["duppairs"])
    assert folded.canonical("http://example.com/v?usp=embed&a=1&usp=embed") == "http://example.com/v?a=1&usp=embed"
    assert folded.canonical("http://example.com/v?a=1&a=2&a=1") == "http://example.com/v?a=1&a=2"


def test_scrapy_1560_jsessionid_and_oscsid() -> None:
    page = "http://example.com/product"
    assert same(f"{page};jsessionid=5e2c8e1c9f0b4b7f8f3d1a2b3c4d5e6f?id=3", f"{page}?id=3")
    assert same(f"{page}?id=3&osCsid=0a1b2c3d4e5f60718293a4b5c6d7e8f9", f"{page}?id=3")
    assert not same(f"{page};jsessionid=7?id=3", f"{page}?id=3")


def test_scrapy_1225_redirect_to_itself() -> None:
    # The redirect itself is followed: tests/integration/test_canonical_redirects.py. Slashes stay apart:
    assert not same("http://example.com/foo", "http://example.com/foo/")
    assert same("http://example.com/?foo=bar&qux=quux", "http://example.com/?qux=quux&foo=bar")


def test_scrapy_6895_trailing_slash() -> None:
    assert not same("http://localhost/sbn", "http://localhost/sbn/")
    folded = with_rule(fold=["slash"])
    assert folded.canonical("http://localhost/sbn/") == folded.canonical("http://localhost/sbn")


def test_scrapy_2017_www() -> None:
    assert not same("http://www.example.com/123", "http://example.com/123")
    folded = with_rule(fold=["www"])
    assert folded.canonical("http://www.example.com/123") == "http://example.com/123"


def test_url_normalize_13_order() -> None:
    # The request keeps its order; only the key is sorted, and one key's values keep theirs.
    url = "http://example.com/?2=A&1=b&C=D&2=0"
    assert Request(url).url == url
    assert canonical_url(url) == "http://example.com/?1=b&2=A&2=0&C=D"
    assert not same(url, "http://example.com/?2=0&1=b&C=D&2=A")


def test_url_normalize_25_percent_3f_in_the_path() -> None:
    assert not same(
        "https://example.com/More+Tea+Vicar%3F/discussion", "https://example.com/More+Tea+Vicar?/discussion"
    )
    assert not same("https://example.com/?where=code%3D123%26x", "https://example.com/?where=code=123&x")


def test_url_normalize_26_and_normalize_url_26_percent_23_in_a_value() -> None:
    tint = canonical_url("https://example.com?tint=%23505050,%23505050")
    assert tint == "https://example.com/?tint=%23505050,%23505050"
    assert not same(tint, "https://example.com?tint=%23505050,#505050")


def test_normalize_url_192_percent_5c_is_no_slash() -> None:
    url = "https://tiles.example.com/CjNjm@%7CQtU%5CjN"
    assert canonical_url(url) == url


def test_normalize_url_85_semicolons_in_a_query() -> None:
    url = "https://my.otrs.example/index.pl?Action=AgentTicketZoom;TicketID=707128"
    assert canonical_url(url) == url
    assert not same(url, "https://my.otrs.example/index.pl?Action=AgentTicketZoom%3BTicketID%3D707128")


def test_browsertrix_983_no_level_of_escapes_is_lost() -> None:
    levels = ["/x", "%2Fx", "%252Fx", "%25252Fx"]
    urls = [canonical_url(f"https://agency.example/whatever?key={level}") for level in levels]
    assert urls == [f"https://agency.example/whatever?key={level}" for level in levels]


def test_crawler_commons_559_escapes_that_shorten_the_path() -> None:
    assert canonical_url("https://example.org/p%2d1/p%2d2/?q=f") == "https://example.org/p-1/p-2/?q=f"


def test_crawler_commons_587_ipv6_host() -> None:
    assert canonical_url("http://[2001:DB8:0::1]:80/") == "http://[2001:db8::1]/"


def test_stormcrawler_1059_ampersand_in_a_parent_path() -> None:
    for url in ("http://example.com/s&utax/NEWSfy18.pdf", "http://example.com/s&u=tax/NEWSfy18.pdf"):
        assert canonical_url(url) == url
        assert with_rule(fold=["unmangle"]).canonical(url) == url


@pytest.mark.parametrize(
    ("report", "url", "other"),
    [
        (
            "ClearURLs 179",
            "https://help.example/kb_article.php?ref=4045-USHJ-3810",
            "https://help.example/kb_article.php?ref=8285-YOAZ-6049",
        ),
        (
            "ClearURLs 135",
            "https://gitlab.example/p/-/refs/switch?ref=main",
            "https://gitlab.example/p/-/refs/switch?ref=dev",
        ),
        (
            "ClearURLs 486",
            "https://erp.example/dolibarr/public/payment/newpayment.php?source=invoice&ref=FA2104-0001&securekey=k",
            "https://erp.example/dolibarr/public/payment/newpayment.php?source=invoice&ref=FA2104-0002&securekey=k",
        ),
    ],
    ids=["ClearURLs-179", "ClearURLs-135", "ClearURLs-486"],
)
def test_clearurls_ref_is_data(report: str, url: str, other: str) -> None:
    assert not same(url, other)
    assert "ref=" in canonical_url(url)


@pytest.mark.parametrize(
    "page",
    [
        "https://info.example/index.php/email/emailWebview?mkt_tok={}&md_id=88687",
        "https://example.com/unsubscribe.html?mkt_tok={}",
        "https://example.com/?mkt_tok={}&mkt_unsubscribe=1",
        "https://example.com/?param1=foo&mkt_tok={}&unsubscribe=yes",
    ],
)
def test_brave_27625_mkt_tok_is_the_page(page: str) -> None:
    assert not same(page.format("AAA"), page.format("BBB"))
    assert same("https://example.com/?mkt_tok=AAA", "https://example.com/")


def test_brave_53588_kx_is_the_page() -> None:
    page = "https://lactualite.example/infolettre/?retrait=dl&utm_source=x&_kx={}"
    assert not same(page.format("6_cavTF"), page.format("Tnb7wT"))
    asked = with_rule(groups=["email"])
    assert asked.canonical(page.format("6_cavTF")) != asked.canonical(page.format("Tnb7wT"))
    assert asked.canonical("https://a.example/?_kx=6_cavTF") == "https://a.example/"


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com:8080/a/?page=1#top",
        "https://example.com/a//b/?q=a:b",
        "https://[::1]:8080/a?q=[1]",
        "https://example.com/a:80/b",
        "https://example.com:443443/",
    ],
)
def test_courlan_134_one_parser_for_every_part(url: str) -> None:
    once = canonical_url(url)
    assert canonical_url(once) == once
    assert not same(url, url.replace("/a", "/b").replace("443443", "44344"))


def test_crawlee_python_2008_path_and_query_keep_their_case() -> None:
    assert not same("https://example.com/Product/ABC", "https://example.com/product/abc")
    assert not same("https://example.com/?token=SeCrEt", "https://example.com/?token=secret")
    folded = with_rule(fold=["case"])
    assert folded.canonical("https://example.com/Product/%c3%89") == "https://example.com/product/%C3%89"
