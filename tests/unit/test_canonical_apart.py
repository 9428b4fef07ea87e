"""Pages that must never share a key: pairs made to tempt, and thousands of small differences."""

from __future__ import annotations

import itertools
import random
from urllib.parse import unquote_to_bytes, urlsplit

import pytest

from crawler.canonical import canonical_url
from crawler.canonical.parse import whatwg
from crawler.canonical.trackers import builtin

TEMPTING = [
    # octets that look alike
    ("http://a.example/%C3%A9", "http://a.example/e%CC%81"),
    ("http://a.example/%EF%BC%8F", "http://a.example/%2F"),
    ("http://a.example/%C2%A0", "http://a.example/%20"),
    ("http://a.example/?q=%EF%BC%86", "http://a.example/?q=%26"),
    ("http://a.example/%FF", "http://a.example/%C3%BF"),
    ("http://a.example/?wd=%B0%A1", "http://a.example/?wd=%E5%95%8A"),
    # escapes of escapes, and broken ones
    ("http://a.example/%25%32%46", "http://a.example/%2F"),
    ("http://a.example/%%32F", "http://a.example/%2F"),
    ("http://a.example/100%", "http://a.example/100"),
    ("http://a.example/%2", "http://a.example/%02"),
    ("http://a.example/%u0041", "http://a.example/A"),
    # reserved characters
    *((f"http://a.example/x%{ord(c):02X}y", f"http://a.example/x{c}y") for c in "/;=&+,:@$!*'()"),
    *((f"http://a.example/?x=1%{ord(c):02X}y", f"http://a.example/?x=1{c}y") for c in "&;+=#"),
    ("http://a.example/?a%3Db=1", "http://a.example/?a=b=1"),
    ("http://a.example/a+b", "http://a.example/a%20b"),
    ("http://a.example/a%2Fb", "http://a.example/a%5Cb"),
    # queries
    ("http://a.example/?a", "http://a.example/?a="),
    ("http://a.example/?a=", "http://a.example/"),
    ("http://a.example/?=", "http://a.example/"),
    ("http://a.example/?=a", "http://a.example/?a="),
    ("http://a.example/?a=1&a=1", "http://a.example/?a=1"),
    ("http://a.example/?a=1&a=2", "http://a.example/?a=2&a=1"),
    ("http://a.example/?a=&a=1", "http://a.example/?a&a=1"),
    ("http://a.example/?a&a=1", "http://a.example/?a=1&a"),
    ("http://a.example/?a=1;b=2", "http://a.example/?b=2;a=1"),
    ("http://a.example/?a=b&c", "http://a.example/?a=b%26c"),
    ("http://a.example/?id=1", "http://a.example/?id=01"),
    ("http://a.example/?id=1", "http://a.example/?ID=1"),
    ("http://a.example/?id=1", "http://a.example/?id=1."),
    ("http://a.example/?id=+1", "http://a.example/?id=1"),
    ("http://a.example/?q=a++b", "http://a.example/?q=a+b"),
    ("http://a.example/??a", "http://a.example/?a"),
    ("http://a.example/?/a/b", "http://a.example/?/a//b"),
    ("http://a.example/?a[]=1&a[]=2", "http://a.example/?a[]=2&a[]=1"),
    ("http://a.example/?a[0]=x", "http://a.example/?a[1]=x"),
    # paths
    ("http://a.example/a", "http://a.example/a/"),
    ("http://a.example//a", "http://a.example/a"),
    ("http://a.example/a.", "http://a.example/a"),
    ("http://a.example/...", "http://a.example/"),
    ("http://a.example/a/...", "http://a.example/a/.."),
    ("http://a.example/a;x", "http://a.example/a"),
    ("http://a.example/a;", "http://a.example/a"),
    ("http://a.example/a;v=1;w=2", "http://a.example/a;w=2;v=1"),
    ("http://a.example/A", "http://a.example/a"),
    ("http://a.example/index.html", "http://a.example/"),
    ("http://a.example/a%20", "http://a.example/a"),
    ("http://a.example/a%00", "http://a.example/a"),
    ("http://a.example/..;jsessionid=0123456789abcdef/x", "http://a.example/x"),
    # origins
    ("http://a.example/", "https://a.example/"),
    ("http://a.example/", "http://a.example:8080/"),
    ("http://a.example/", "http://www.a.example/"),
    ("http://a.example/", "http://a.example./"),
    ("http://a.example/", "ftp://a.example/"),
    ("http://a.example/", "ws://a.example/"),
    ("http://a:b@c.example/", "http://a%3Ab@c.example/"),
    ("http://a@b.example/", "http://b.example/"),
    ("http://fa\u00df.example/", "http://fass.example/"),
    ("http://a.example/", "http://\u0430.example/"),
    ("http://1.2.3.4/", "http://1.2.3.04.example/"),
    ("http://a..example/x", "http://a.example/x"),
    ("http://a.example:99999/x", "http://a.example:99998/x"),
    ("s3://bucket/A", "s3://bucket/a"),
    ("data:,A", "data:,a"),
    # names that resemble trackers
    *((f"http://a.example/?{name}=1", f"http://a.example/?{name}=2") for name in (
        "utm", "utmost", "utmx", "xutm_source", "fbclids", "xfbclid", "gclid2", "my_ga", "hsa", "mtm", "pk_", "pk_id",
        "pk", "_g", "clid", "mc", "mc_id", "vero", "sr", "tag", "ref", "ref_", "source", "src", "from", "s", "t", "v",
        "p", "id", "sid", "cid", "eid", "uid", "lid", "kw", "keyword", "campaign", "channel", "medium", "feature", "si",
        "pp", "spm", "trk", "share_id", "_", "ts", "rand", "session", "session_id", "sessionid", "cfid", "cftoken",
        "partner", "aff", "click_id", "icid", "erid", "_kx", "elq", "amp", "output", "qid", "hash", "oq", "ei",
    )),
    # guards: the value or the company decides
    ("http://a.example/?jsessionid=12", "http://a.example/?jsessionid=13"),
    ("http://a.example/?PHPSESSID=speakers", "http://a.example/?PHPSESSID=talks"),
    ("http://a.example/?osCsid=1", "http://a.example/?osCsid=2"),
    ("http://a.example/?ASPSESSIONIDABCDEFGH=1", "http://a.example/?ASPSESSIONIDABCDEFGH=2"),
    ("http://a.example/?CFID=14475712", "http://a.example/?CFID=14475713"),
    ("http://a.example/?__s=ab1", "http://a.example/?__s=ab2"),
    ("http://a.example/email/x?h_sid=1", "http://a.example/email/x?h_sid=2"),
    ("http://adj.st/x?adjust_campaign=1", "http://adj.st/x?adjust_campaign=2"),
    ("http://www.amazon.example/?tag=1", "http://www.amazon.example/?tag=2"),
    ("http://notyoutube.com/?si=1", "http://notyoutube.com/?si=2"),
    ("http://youtube.com.evil.example/?si=1", "http://youtube.com.evil.example/?si=2"),
    ("http://docs.google.com/?ei=1", "http://docs.google.com/?ei=2"),
    ("https://www.google.com/url?url=x&ved=1", "https://www.google.com/url?url=x&ved=2"),
    ("https://x.com/search?q=a&s=news", "https://x.com/search?q=a&s=people"),
    ("https://www.youtube.com/watch?v=a&t=10", "https://www.youtube.com/watch?v=b&t=10"),
    # another URL inside
    ("http://w.example/web/http://x.example/?utm_source=1", "http://w.example/web/http://x.example/?utm_source=2"),
    ("http://w.example/?http://x.example/?a=1&utm_source=1", "http://w.example/?http://x.example/?a=1&utm_source=2"),
    ("https://urldefense.com/v3/__https://a?utm_id=1__;!!", "https://urldefense.com/v3/__https://a?utm_id=2__;!!"),
    # bare words
    ("http://a.example/?utm_source", "http://a.example/"),
    ("http://a.example/?78132,199", "http://a.example/?78160,199"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), TEMPTING)
def test_tempting_pairs_stay_apart(one: str, two: str) -> None:
    assert canonical_url(one) != canonical_url(two)


def _mutations(rng: random.Random) -> list[tuple[str, ...]]:
    """URLs as tuples of parts that all count: host, path segments, pairs. Different tuples are different pages."""
    octets = ["a", "A", "b", "1", "-", ".x", "~", "%2F", "%26", "%3D", "%2B", "%25", "%20", "%C3%A9", "%E9", ";", ","]
    made: list[tuple[str, ...]] = []
    for _ in range(20_000):
        host = rng.choice(["a.example", "b.example", "www.a.example", "a.example:81"])
        segments = ["".join(rng.choices(octets, k=rng.randint(1, 3))) for _ in range(rng.randint(0, 3))]
        keys = sorted("q" + "".join(rng.choices(octets[:5], k=rng.randint(0, 2))) for _ in range(rng.randint(0, 3)))
        pairs = [key + rng.choice(["", "=", "=" + "".join(rng.choices(octets, k=rng.randint(1, 3)))]) for key in keys]
        made.append((host, "/".join(["", *segments]) or "/", "&".join(pairs)))
    return made


@pytest.mark.parametrize("seed", range(2))
def test_twenty_thousand_different_urls_have_as_many_keys(seed: int) -> None:
    different = set(_mutations(random.Random(seed)))
    owner: dict[str, tuple[str, ...]] = {}
    for parts in different:
        host, path, query = parts
        canonical = canonical_url(f"http://{host}{path}?{query}" if query else f"http://{host}{path}")
        assert owner.setdefault(canonical, parts) == parts
    assert len(owner) > 15_000


PIECES = [
    *("a", "b", "A", "1", "/", "/", "//", ".", "..", "%2E", "%2F", "\\", "%5C", ";", ":", "@", "#", "%00"),
    *("?", "&", "&", "=", "+", "%2B", "%26", "%3D", "%3d", "%20", " ", "%25", "%", "%41", "%61", "utm_a=1"),
    *("[", "%5B", "(", "%28", "'", "%27", "|", "%E9", "é"),
]


def _served(url: str) -> object:
    """What an ordinary server makes of a web address: decoded segments, and for each name its values in order."""
    parts = urlsplit(whatwg(url) or "")
    path = [unquote_to_bytes(segment) for segment in parts.path.split("/")]
    values: dict[bytes, list[bytes | None]] = {}
    for pair in filter(None, parts.query.split("&")):
        name, mark, value = (unquote_to_bytes(part.replace("+", " ")) for part in pair.partition("="))
        if not (name.lower().startswith(b"utm_") and "=" in parts.query):
            values.setdefault(name, []).append(value if mark else None)
    return parts.scheme, parts.netloc, path, values


@pytest.mark.parametrize("seed", range(3))
def test_what_shares_a_key_is_served_alike(seed: int) -> None:
    rng = random.Random(seed)
    owner: dict[str, str] = {}
    shared = 0
    for _ in range(20_000):
        url = "http://a.example/" + "".join(rng.choices(PIECES, k=rng.randint(0, 7)))
        canonical = canonical_url(url)
        other = owner.setdefault(canonical, url)
        shared += other != url
        assert _served(other) == _served(url), (other, url, canonical)
        assert _served(canonical) == _served(url), (url, canonical)
    assert shared > 500, "the test compares too little"


def test_no_name_of_the_data_file_swallows_a_longer_one() -> None:
    names = {name for item in builtin() if not item.group and not item.hosts for name in item.names}
    prefixes = tuple(prefix for item in builtin() for prefix in item.prefixes)
    for name, (before, after) in itertools.product(names, [("x", ""), ("", "x"), ("", "_id")]):
        other = before + name + after
        if other not in names and not other.startswith(prefixes):
            assert canonical_url(f"http://a.example/?{other}=1") != canonical_url(f"http://a.example/?{other}=2")
