"""The corpus of URL pairs that people judged, and how to switch on what a pair asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from crawler.canonical import rules
from crawler.canonical.folds import FOLDS
from crawler.canonical.trackers import Trackers, group_names
from crawler.canonical.url import Canonicaliser

DATA = Path(__file__).parents[1] / "data"


class Pair(NamedTuple):
    a: str
    b: str
    same: bool
    why: str
    source: str
    mode: str


def pairs(mode: str = "") -> list[Pair]:
    """Pairs whose mode begins with `mode`. The file is tab-separated, controls are backslash escapes."""
    lines = (DATA / "url_pairs.tsv").read_text("utf-8").split("\n")[1:]
    rows = [line.split("\t") for line in lines if line]
    found = [
        Pair(_unescape(a), _unescape(b), same == "yes", why, source, mode) for a, b, same, why, source, mode in rows
    ]
    return [pair for pair in found if pair.mode.startswith(mode)]


def _unescape(text: str) -> str:
    named = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    return re.sub(
        r"\\(x[0-9a-fA-F]{2}|[tnr\\])",
        lambda found: named[found[1]] if found[1] in named else chr(int(found[1][1:], 16)),
        text,
    )


def with_rule(**keys: Any) -> Canonicaliser:
    """A canonicaliser with one site rule, by default for every host."""
    table = {"hosts": ["*"], "different": [["http://a.example/1", "http://a.example/2"]], **keys}
    return Canonicaliser(sites=rules.sites({"site": [table]}, "test"))


def switched_on(mode: str) -> Canonicaliser:
    """What a pair of `mode` is to be judged by."""
    kind, _, name = mode.partition(":")
    if kind == "render":
        return with_rule(fragment="keep")
    if kind == "optin":
        assert name in {*FOLDS, *group_names()}, name
        return with_rule(**({"fold": [name]} if name in FOLDS else {"groups": [name]}))
    name, _, value = name.partition("=")
    if name == "dust":
        return with_rule(hosts=["=money.example.com"], host="example.com", path_sub=[{"re": "^/", "to": "/money/"}],
                         different=[["http://money.example.com/1", "http://money.example.com/2"]])  # fmt: skip
    if name in {"keep", "exempt"}:
        return with_rule(**{"keep" if name == "keep" else "restore": value.split(",")})
    return with_rule()  # youtube, bilibili: listed for their hosts in the data file


def switched_off(mode: str) -> Canonicaliser:
    """The same without what the mode asks for."""
    return Canonicaliser(Trackers(off=["sites"] if mode in {"rule:youtube", "rule:bilibili"} else []))
