"""What travels for a request when the user's own code about it fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from crawler.canonical import canonical_host
from crawler.frontier.admissions import Admissions


class Rules:
    """A fingerprinter that needs what the spider put into meta."""

    def fingerprint(self, request: Request) -> bytes:
        return bytes(20) if request.meta["kind"] else b""

    def canonical_host(self, url: str) -> str:
        if url.endswith("other"):
            raise KeyError("no rule")
        return canonical_host(url)


class Plain:
    def encode(self, fingerprint: bytes) -> bytes:
        return fingerprint


def admissions_of() -> Admissions:
    crawler: Any = SimpleNamespace(settings=Settings(), request_fingerprinter=Rules())
    crawler.stats = MemoryStatsCollector(SimpleNamespace(settings=Settings({"STATS_DUMP": False})))  # type: ignore[arg-type]
    return Admissions(crawler, Spider("spider"), Plain())


@pytest.mark.parametrize("urls", [["http://h/"], ["http://h/other"], ["no URL", None], "http://h/"])
def test_nothing_is_forgotten_of_a_redirect_that_the_fingerprinter_does_not_know(urls: Any) -> None:
    """An empty item would end the exchange: no memory knows one."""
    admissions = admissions_of()
    request = Request("http://h/", meta={"kind": 1, "redirect_urls": urls})
    assert admissions.item_of(request) == bytes(20)
    assert admissions.trail_of(request) == []


def dead_urls(admissions: Admissions) -> list[str]:
    return [entry[6]["dead"][1] for entry in admissions.outbox.batch(99) if len(entry) > 6]


def test_one_bad_link_of_many_pages_leaves_one_dead_letter() -> None:
    """A letter for each page would push all others out of the dead letters."""
    admissions = admissions_of()
    for _ in range(5):
        assert admissions.enqueue(Request("http://h/bad")), "nobody has seen it"
    admissions.enqueue(Request("http://h/worse"))
    admissions.enqueue(Request("http://h/bad", method="POST", body="form"))
    admissions.enqueue(Request("http://h/bad", method="POST", body="another"))
    assert dead_urls(admissions) == ["http://h/bad", "http://h/worse", "http://h/bad", "http://h/bad"]
    assert admissions._stats.get_value("frontier/enqueue_errors") == 8
