"""Did it hold? The site's books against what a crawl must do: every page, once, with its item in a feed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from tests.site import Report

_ON_ITS_WAY = 2.0  # seconds: a busy site books a request that late; far less than the lease that others wait for


@dataclass(frozen=True)
class Verdict:
    """`titles` are those of the items in the feeds, `killed` the workers killed and when, `seconds` the crawl's length.

    A page may be fetched twice only if a killed worker had started it; that many a worker has in flight: `in_flight`.
    """

    report: Report
    titles: frozenset[str]
    killed: Mapping[str, float]
    in_flight: int
    seconds: float

    @property
    def no_item(self) -> list[str]:
        """URLs of pages without an item in any feed."""
        return [page["url"] for page in self.report.truth["pages"] if page["title"] not in self.titles]

    @property
    def unexplained(self) -> list[str]:
        """Pages fetched twice although no killed worker had started them: URL, by whom and when."""
        pages = {page["id"]: page for page in self.report.truth["pages"]}
        until = {name: at + _ON_ITS_WAY for name, at in self.killed.items()}
        found = []
        for number, hits in self.report.twice.items():
            # A redirected or retried request keeps the User-Agent of the worker that asked first: only time tells.
            passed_on = pages[number]["trait"] != "" and any(hits[0].time < at for at in until.values())
            if len(hits) > 2 or not (passed_on or hits[0].time < until.get(hits[0].agent, 0)):
                when = ", ".join(f"{hit.agent} at {hit.time - self.report.hits[0].time:.2f} s" for hit in hits)
                found.append(f"{pages[number]['url']} ({when})")
        return found

    @property
    def faults(self) -> list[str]:
        """What did not hold, one line each; empty when all did."""
        allowed = self.in_flight * len(self.killed)
        found = [
            _some("missed", self.report.missed),
            _some("without an item in the feeds", self.no_item),
            _some("fetched twice for no reason", self.unexplained),
        ]
        if len(self.report.twice) > allowed:
            found.append(f"{len(self.report.twice)} pages fetched twice, more than the {allowed} a kill may cost")
        if forbidden := self.report.count("private"):
            found.append(f"requests that robots.txt forbids: {forbidden}")
        return [fault for fault in found if fault]

    def table(self) -> Table:
        """The figures, for people."""
        report = self.report
        note = "A link seen is the first to a page, the first to an address that redirects, or a duplicate."
        table = Table(
            title="The site's own books", title_justify="left", show_header=False, caption=note, caption_justify="left"
        )
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        repeats = str(len(report.twice)) + (" (in flight at the kill)" if report.twice and not self.unexplained else "")
        for name, value in (
            ("pages on the site", report.pages),
            ("fetched", len(report.fetched)),
            ("fetched twice", repeats),
            ("missed", len(report.missed)),
            ("pages with an item in the feeds", report.pages - len(self.no_item)),
            ("links seen", report.links_seen),
            ("duplicates avoided", report.duplicates_avoided),
            ("pages/s, all workers", f"{len(report.fetches) / self.seconds:.0f}"),
        ):
            table.add_row(name, str(value))
        for name, count in sorted(report.agents.items()):
            note = " (killed)" if name in self.killed else ""
            table.add_row(f"pages/s, {name}{note}", f"{count / self._span(name):.0f} ({count} pages)")
        return table

    def _span(self, agent: str) -> float:
        end = self.killed.get(agent, float("inf"))  # its retries and redirects carry its name after its death
        times = [hit.time for hit in self.report.fetches if hit.agent == agent and hit.time < end] or [0.0]
        return max(0.1, times[-1] - times[0])


def _some(what: str, urls: list[str]) -> str:
    if not urls:
        return ""
    more = ", ..." if len(urls) > 3 else ""
    pages = "1 page" if len(urls) == 1 else f"{len(urls)} pages"
    return f"{pages} {what}: {', '.join(urls[:3])}{more}"


def titles_in_feeds(folder: Path) -> frozenset[str]:
    """Titles of all items in the JSON-lines files below `folder`; a line that a kill tore is no item."""
    titles = set()
    for path in folder.rglob("*.jsonl"):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                titles.add(str(json.loads(line)["title"]))
            except (ValueError, KeyError, TypeError):
                continue
    return frozenset(titles)
