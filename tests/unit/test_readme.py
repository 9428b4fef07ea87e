"""README's figures that need no measuring: they are computed again."""

from __future__ import annotations

from pathlib import Path

from scrapy import Request
from scrapy.settings import Settings
from scrapy.utils.request import fingerprint

from crawler.canonical import sources
from tests.unit.canonical_corpus import pairs

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_pairs_that_are_merged() -> None:
    canonical = sources.load(Settings()).canonicaliser().canonical
    judged = pairs("default")
    same = [pair for pair in judged if pair.same]
    other = [pair for pair in judged if not pair.same]

    def scrapy(url: str) -> object:
        try:
            return fingerprint(Request(url))
        except ValueError:  # no URL for Scrapy
            return object()

    ours = [sum(canonical(pair.a) == canonical(pair.b) for pair in some) for some in (same, other)]
    theirs = [sum(scrapy(pair.a) == scrapy(pair.b) for pair in some) for some in (same, other)]
    row = next(line for line in README.splitlines() if line.startswith("| spellings of one URL"))
    assert f"[{len(judged)} pairs]" in row
    assert f"| {ours[0]} of {len(same)} merged, {ours[1]} of {len(other)} wrongly |" in row
    assert f"| Scrapy's: {theirs[0]}, {theirs[1]} wrongly |" in row
