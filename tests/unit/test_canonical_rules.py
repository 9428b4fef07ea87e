"""Site rules: what each key does, which rules hold where, and the exact line for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.canonical import rules
from crawler.canonical.trackers import Trackers
from crawler.canonical.url import Canonicaliser
from crawler.errors import ConfigError
from tests.unit.canonical_corpus import with_rule

DIFFERENT = [["http://a.example/1", "http://a.example/2"]]

KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"keep": ["id"]}, "http://a.example/?ID=1&x=2&utm_source=3", "http://a.example/?ID=1"),
    ({"keep": []}, "http://a.example/?id=1&x=2", "http://a.example/"),
    ({"keep": ["utm_source"]}, "http://a.example/?id=1&utm_source=3", "http://a.example/?utm_source=3"),
    ({"keep": ["f_*"]}, "http://a.example/?f_a=1&f_b=2&g=3", "http://a.example/?f_a=1&f_b=2"),
    ({"strip": ["x", "y_*"]}, "http://a.example/?X=1&y_1=2&y=3&id=4", "http://a.example/?id=4&y=3"),
    ({"strip": ["größe", "a b"]}, "http://a.example/?gr%C3%B6%C3%9Fe=1&a+b=2&c=3", "http://a.example/?c=3"),
    (
        {
            "path": "/caf\u00e9",
            "strip": ["x"],
            "different": [["http://a.example/caf%c3%a9/1", "http://a.example/caf%c3%a9/2"]],
        },
        "http://a.example/caf%c3%a9?x=1",
        "http://a.example/caf%C3%A9",
    ),
    ({"strip": ["a[]"]}, "http://a.example/?a[]=1&b=2", "http://a.example/?b=2"),
    ({"restore": ["utm_*"]}, "http://a.example/?utm_source=1&fbclid=2", "http://a.example/?utm_source=1"),
    (
        {"restore": ["jsessionid"]},
        "http://a.example/x;jsessionid=0123456789abcdef",
        "http://a.example/x;jsessionid=0123456789abcdef",
    ),
    ({"groups": ["cachebuster"]}, "http://a.example/?_=1700000000000&t=5", "http://a.example/?t=5"),
    ({"groups": ["cachebuster"]}, "http://a.example/?rand=0.8214512&ts=1700000000", "http://a.example/"),
    ({"groups": ["session"]}, "http://a.example/p;sid=9682993c8daa2c5497996114facdc805/q", "http://a.example/p/q"),
    ({"groups": ["session"]}, "http://a.example/?sid=9682993c8daa2c5497996114fa&sid=4", "http://a.example/?sid=4"),
    ({"groups": ["affiliate"]}, "http://a.example/?partner=7&id=1", "http://a.example/?id=1"),
    ({"order": "keep"}, "http://a.example/?b=1&&a=2&utm_source=3", "http://a.example/?b=1&a=2"),
    ({"order": "sort"}, "http://a.example/?b=1&a=2", "http://a.example/?a=2&b=1"),
    ({"fragment": "keep"}, "http://a.example/#Top", "http://a.example/#Top"),
    ({"fragment": "route"}, "http://a.example/#/a%7Eb", "http://a.example/#/a~b"),
    ({"fragment": "route"}, "http://a.example/#!a", "http://a.example/#!a"),
    ({"fragment": "route"}, "http://a.example/#top", "http://a.example/"),
    ({"fragment": "drop"}, "http://a.example/#/a", "http://a.example/"),
    ({"path_sub": [{"re": "/ref=[^/]+", "to": ""}]}, "http://a.example/d/ref=x_1?a=1", "http://a.example/d?a=1"),
    ({"path_sub": [{"re": r"^/(\w+)-\d+$", "to": r"/\1"}]}, "http://a.example/lamp-7", "http://a.example/lamp"),
    ({"path_sub": [{"re": "^/.*", "to": ""}]}, "http://a.example/x", "http://a.example/"),
    ({"host": "b.example"}, "http://u@a.example:81/x", "http://u@b.example:81/x"),
    ({"fold": ["https"]}, "http://a.example/", "https://a.example/"),
    ({"fold": ["https"]}, "http://a.example:8080/", "http://a.example:8080/"),
    ({"fold": ["www"]}, "http://www.a.example/", "http://a.example/"),
    ({"fold": ["www"]}, "http://www.com/", "http://www.com/"),
    ({"fold": ["www"]}, "http://www2.a.example/", "http://www2.a.example/"),
    ({"fold": ["mobile"]}, "http://m.a.example/", "http://a.example/"),
    ({"fold": ["mobile"]}, "http://en.m.a.example/", "http://en.a.example/"),
    ({"fold": ["mobile"]}, "http://m.m.a.example/", "http://a.example/"),
    ({"fold": ["mobile"]}, "http://mobile.m.a.example/", "http://a.example/"),
    ({"fold": ["mobile"]}, "http://m.example/", "http://m.example/"),
    ({"fold": ["hostdot"]}, "http://a.example./", "http://a.example/"),
    ({"fold": ["slash"]}, "http://a.example/a/", "http://a.example/a"),
    ({"fold": ["slash"]}, "http://a.example/", "http://a.example/"),
    ({"fold": ["slashes"]}, "http://a.example//a///b", "http://a.example/a/b"),
    ({"fold": ["index"]}, "http://a.example/a/Index.PHP?x=1", "http://a.example/a/?x=1"),
    ({"fold": ["index", "slash"]}, "http://a.example/a/index.html", "http://a.example/a"),
    ({"fold": ["index", "slash"]}, "http://a.example/a/index.html/", "http://a.example/a"),
    ({"fold": ["www"]}, "http://www.www.a.example/", "http://www.www.a.example/"),
    ({"fold": ["hostdot"]}, "http://a.example../", "http://a.example../"),
    ({"fold": ["slash"]}, "http://a.example/a//", "http://a.example/a//"),
    ({"fold": ["slash"]}, "http://a.example//", "http://a.example//"),
    ({"fold": ["amp"]}, "http://a.example/a/...amp", "http://a.example/a/...amp"),
    ({"fold": ["pctu"]}, "http://a.example/%ud83d%u0061%uDE00", "http://a.example/%25ud83da%25uDE00"),
    ({"fold": ["unmangle"]}, "http://a.example/x&a=1?utm_source=1", "http://a.example/x?a=1"),
    ({"fold": ["unmangle", "index", "slash"]}, "http://a.example/x&a=1/index.html", "http://a.example/x?a=1"),
    ({"fold": ["index"]}, "http://a.example/indexes.html", "http://a.example/indexes.html"),
    ({"fold": ["case"]}, "http://a.example/A%c3%89?Q=A", "http://a.example/a%C3%89?Q=A"),
    ({"fold": ["amp"]}, "http://amp.a.example/x/amp/?amp=1&b=2", "http://a.example/x?b=2"),
    ({"fold": ["amp"]}, "http://a.example/x.amp.html?outputType=amp", "http://a.example/x.html"),
    ({"fold": ["amp"]}, "http://a.example/amp", "http://a.example/amp"),
    ({"fold": ["pctu"]}, "http://a.example/%u00e9?q=%uD83D%uDE00", "http://a.example/%C3%A9?q=%F0%9F%98%80"),
    ({"fold": ["unmangle"]}, "http://a.example/x&b=2&a=1", "http://a.example/x?a=1&b=2"),
    ({"fold": ["unmangle"]}, "http://a.example/x&y", "http://a.example/x&y"),
    ({"fold": ["semicolon"]}, "http://a.example/?b=1;a=2", "http://a.example/?a=2&b=1"),
    ({"fold": ["aspsession"]}, "http://a.example/(S(4hqa0555fwsecu455xqckv45))/x.aspx", "http://a.example/x.aspx"),
]


@pytest.mark.parametrize(("keys", "url", "expected"), KEYS)
def test_what_a_key_does(keys: dict[str, Any], url: str, expected: str) -> None:
    canonicaliser = with_rule(**keys)
    assert canonicaliser.canonical(url) == expected
    assert canonicaliser.canonical(expected) == expected


def canonicaliser(*tables: dict[str, Any]) -> Canonicaliser:
    return Canonicaliser(sites=rules.sites({"site": [{"different": DIFFERENT, **table} for table in tables]}, "test"))


WHERE = [
    (["a.example"], "http://a.example/?x=1", True),
    (["a.example"], "http://b.a.example/?x=1", True),
    (["a.example"], "http://ba.example/?x=1", False),
    (["a.example"], "http://a.example.com/?x=1", False),
    (["a.example"], "http://a.example:81/?x=1", True),
    (["=a.example"], "http://a.example/?x=1", True),
    (["=a.example"], "http://b.a.example/?x=1", False),
    (["*"], "http://any.example/?x=1", True),
    (["A.Example "], "http://a.example/?x=1", True),
    (["b.example", "a.example"], "http://a.example/?x=1", True),
    (["münchen.example"], "http://xn--mnchen-3ya.example/?x=1", True),
    (["a.*"], "http://www.a.co.uk/?x=1", True),
    (["a.*"], "http://a.example/?x=1", False),
    (["[::1]"], "http://[::1]:81/?x=1", True),
    (["127.0.0.1"], "http://127.0.0.1/?x=1", True),
]


@pytest.mark.parametrize(("hosts", "url", "holds"), WHERE)
def test_where_a_rule_holds(hosts: list[str], url: str, holds: bool) -> None:
    different = [[f"http://{hosts[0].strip().strip('=*.') or 'a.example'}/{n}" for n in (1, 2)]]
    if hosts[0] == "a.*":
        different = [["http://a.com/1", "http://a.com/2"]]
    made = canonicaliser({"hosts": hosts, "strip": ["x"], "different": different})
    assert ("x=1" not in made.canonical(url)) == holds


def test_a_path_narrows_a_rule() -> None:
    made = canonicaliser(
        {"hosts": ["a.example"], "path": "/p", "strip": ["x"], "different": [["http://a.example/p/1", "http://a.example/p"]]},
        {"hosts": ["a.example"], "path_re": r"\.php$", "strip": ["y"],
         "different": [["http://a.example/1.php", "http://a.example/2.php"]]},
    )  # fmt: skip
    assert made.canonical("http://a.example/%70/1?x=1&y=2") == "http://a.example/p/1?y=2"
    assert made.canonical("http://a.example/1.php?x=1&y=2") == "http://a.example/1.php?x=1"
    assert made.canonical("http://a.example/p.php?x=1&y=2") == "http://a.example/p.php"
    assert made.canonical("http://a.example/q?x=1&y=2") == "http://a.example/q?x=1&y=2"


def test_rules_are_layers_and_the_particular_wins() -> None:
    made = canonicaliser(
        {"hosts": ["=www.a.example"], "keep": ["id", "x"], "order": "sort",
         "different": [["http://www.a.example/1", "http://www.a.example/2"]]},
        {"hosts": ["*"], "strip": ["x"], "fold": ["slash"], "order": "keep"},
        {"hosts": ["a.example"], "keep": ["id"], "fold": ["index"]},
    )  # fmt: skip
    assert made.canonical("http://b.example/a/?x=1&c=2&b=3") == "http://b.example/a?c=2&b=3"
    assert made.canonical("http://a.example/a/index.html?x=1&id=2") == "http://a.example/a?id=2"
    assert made.canonical("http://www.a.example/?x=1&id=2&y=3") == "http://www.a.example/?id=2&x=1"


def test_host_follows_the_rules() -> None:
    made = canonicaliser({"hosts": ["a.example"], "fold": ["www", "hostdot"]})
    assert made.host("http://www.a.example.:81/x") == "a.example"
    different = [["http://a.example/1", "http://a.example/1/2"]]
    made = canonicaliser({"hosts": ["*", "a.example"], "path": "/1", "host": "b.example", "different": different})
    assert made.host("http://a.example/1?x#y") == "b.example"
    assert made.host("http://a.example/2") == "a.example"


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"host": ["a"], "folds": ["www"]}, "folds=['www']: unknown key; use one of hosts, path,"),
    ({"fold": ["slahs"]}, "fold=slahs: must be one of amp, aspsession, case,"),
    ({"fold": "slash"}, 'fold=\'slash\': must be a list of words, like fold = ["a", "b"]'),
    ({"groups": ["sessions"]}, "groups=sessions: must be one of affiliate, cachebuster, campaign,"),
    ({"order": "desc"}, "order=desc: must be one of sort, keep"),
    ({"fragment": "all"}, "fragment=all: must be one of drop, keep, route"),
    ({"path_re": "("}, "path_re=(: is no regular expression: missing ), unterminated subpattern"),
    ({"path_re": "/[[a]"}, "path_re=/[[a]: a later Python may read it otherwise (Possible nested set at pos"),
    ({"path_sub": [{"re": "[a--z]", "to": ""}]}, "path_sub=[a--z]: a later Python may read it otherwise ("),
    ({"path": "/a", "path_re": "a"}, "path_re=a: give path or path_re, not both"),
    ({"path": "a"}, "path=a: must begin with /"),
    ({"path_sub": [{"re": "a"}]}, "path_sub={'re': 'a'}: must be { re = \"…\", to = \"…\" }"),
    ({"path_sub": [{"re": "a", "to": "?x"}]}, "path_sub='?x': must stay a path: no ?, # or space"),
    ({"path_sub": [{"re": "[", "to": ""}]}, "path_sub=[: is no regular expression: "),
    ({"path_sub": [{"re": "a", "to": r"\1"}]}, r"path_sub=\1: is no replacement for a: invalid group reference 1"),
    ({"keep": ["a"], "strip": ["b"]}, "strip=['b']: keep already drops all others"),
    ({"hosts": []}, "hosts=[]: name the hosts"),
    ({"hosts": ["http://a.example"]}, "hosts='http://a.example': must be a host name like"),
    ({"hosts": ["a.example/x"]}, "hosts='a.example/x': must be a host name like"),
    ({"hosts": ["a*.example"]}, "hosts='a*.example': must be a host name like"),
    ({"hosts": [7]}, "hosts=[7]: must be a list of words"),
    ({"host": "*"}, "host=*: must be one host name"),
    ({"different": []}, "different=[]: give at least one pair of URLs that must stay apart"),
    ({"different": [["http://a.example/"]]}, "different=['http://a.example/']: must be a pair of URLs"),
    ({"different": [["http://b.example/1", "http://b.example/2"]]}, "the rule holds for both URLs of no pair"),
    (
        {"different": [["http://a.example/1", "http://b.example/1"]]},
        "different=http://a.example/1 http://b.example/1: "
        "the rule holds for both URLs of no pair (see hosts and path): no proof",
    ),
    ({"path": "/p", "different": [["http://a.example/p", "http://a.example/q"]]}, "both URLs of no pair"),
    ({"order": ""}, "order='': must be one of sort, keep"),
    ({"path_sub": [{"re": "a", "to": "\n"}]}, r"path_sub='\n': must stay a path: no control characters"),
    ({"path_sub": [{"re": "a", "to": "\x85"}]}, r"path_sub='\x85': must stay a path: no control characters"),
    ({"fold": ["a\nb"]}, r"fold=a\nb: must be one of "),
    ({"path_re": "(\n"}, r"path_re=(\n: is no regular expression"),
    ({"bad\nkey": 1}, r"bad\nkey=1: unknown key"),
    ({"different": [["http://b.example/\n1", "http://b.example/2"]]}, r"different=http://b.example/\n1 http"),
    ({"same": [["http://b.example/1", "http://b.example/1"]]}, "the rule holds for neither URL (see hosts and path)"),
]


@pytest.mark.parametrize(("keys", "line"), MISTAKES)
def test_a_mistake_is_one_clear_line(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules.sites({"site": [{"hosts": ["ok.example"], "different": [["http://ok.example/1", "http://ok.example/2"]]},
                              {"hosts": ["a.example"], "different": DIFFERENT, **keys}]}, "my.toml")  # fmt: skip
    text = str(caught.value)
    assert text.startswith("my.toml: site 2")
    assert line in text
    assert len(text.splitlines()) == 1


def test_off_switches_a_category_off() -> None:
    made = Canonicaliser(Trackers(off=["campaign", "sites"]))
    assert made.canonical("http://a.example/?utm_source=1&fbclid=2") == "http://a.example/?utm_source=1"
    assert made.canonical("https://youtu.be/x?si=1") == "https://youtu.be/x?si=1"
