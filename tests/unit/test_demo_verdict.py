"""The demo's judgement: it must fail for each thing that can go wrong, and for nothing else."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from crawler.demo.display import Display, Moment
from crawler.demo.verdict import Verdict, titles_in_feeds
from tests.site import Options, Report, plain
from tests.site.world import World

KILLED = {"w1": 50.0}


def books(*, options: Options | None = None, more: list[list[Any]] | None = None, lost: int = -1) -> Report:
    """A crawl of ten pages by w1 and w2 in turn, a page a second; `more` hits are added, page `lost` is not fetched."""
    world = World(options or plain(pages=10))
    log = [[float(n), 0, "page", n, f"w{n % 2 + 1}"] for n in range(10) if n != lost]
    return Report.of(world.truth(["127.0.0.1:1"]), {"log": log + (more or [])})


def verdict(
    report: Report, *, killed: dict[str, float] | None = None, lost_item: int = -1, in_flight: int = 4
) -> Verdict:
    titles = frozenset(f"Page {n}" for n in range(10) if n != lost_item)
    return Verdict(report, titles, killed or {}, in_flight, 10.0)


def test_a_clean_crawl_has_no_fault() -> None:
    assert verdict(books()).faults == []
    assert verdict(books(), killed=KILLED).faults == []


def test_a_page_in_flight_at_the_kill_may_come_again() -> None:
    again = [60.0, 0, "page", 4, "w2"]  # w1 had fetched page 4
    assert verdict(books(more=[again]), killed=KILLED).faults == []


@pytest.mark.parametrize(("after", "faults"), [(1.5, 0), (2.5, 1)])
def test_a_busy_site_may_book_a_dead_worker_s_request_a_moment_later(after: float, faults: int) -> None:
    late = [KILLED["w1"] + after, 0, "page", 4, "w1"]
    assert len(verdict(books(lost=4, more=[late, [60.0, 0, "page", 4, "w2"]]), killed=KILLED).faults) == faults


@pytest.mark.parametrize(
    ("report", "killed", "fault"),
    [
        (books(lost=7), {}, "1 page missed: http://127.0.0.1:1"),
        (books(more=[[60.0, 0, "page", 4, "w2"]]), {}, "fetched twice for no reason"),
        (books(more=[[60.0, 0, "page", 5, "w1"]]), KILLED, "fetched twice for no reason"),  # w2 had it, and lives
        (books(more=[[t, 0, "page", 4, "w2"] for t in (60.0, 61.0)]), KILLED, "fetched twice for no reason"),
        (
            books(more=[[60.0 + n, 0, "page", n, "w2"] for n in (0, 2, 4, 6, 8)]),
            KILLED,
            "5 pages fetched twice, more than",
        ),
        (books(more=[[9.0, 0, "private", -1, "w1"]]), {}, "requests that robots.txt forbids: 1"),
    ],
)
def test_each_fault_is_found(report: Report, killed: dict[str, float], fault: str) -> None:
    faults = verdict(report, killed=killed).faults
    assert any(fault in line for line in faults), faults


def test_a_missing_item_is_a_fault() -> None:
    (fault,) = verdict(books(), lost_item=3).faults
    assert fault.startswith("1 page without an item in the feeds: http://127.0.0.1:1/")


def test_the_table_has_every_figure() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(verdict(books(more=[[60.0, 0, "page", 4, "w2"]]), killed=KILLED).table())
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for row in (
        "pages on the site",
        "1 (in flight at the kill)",
        "missed",
        "duplicates avoided",
        "pages/s, w1 (killed)",
        "the first to an address that redirects, or a duplicate",
    ):
        assert row in " ".join(text.split())


def test_titles_survive_torn_lines(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    lines = [json.dumps({"title": "Page 1"}), '{"title": "Pa', "7", json.dumps({"title": "Page 2"})]
    (folder / "w1.jsonl").write_text("\n".join(lines))
    assert titles_in_feeds(tmp_path) == {"Page 1", "Page 2"}


@pytest.mark.parametrize("terminal", [True, False])
def test_the_display_shows_figures_with_and_without_a_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(float(n) for n in range(100))
    monkeypatch.setattr("crawler.demo.display.time.monotonic", lambda: next(clock))
    out = io.StringIO()
    with Display(Console(file=out, force_terminal=terminal, width=150)) as display:
        for count in (0, 30, 60):
            status = {"pages": 100, "fetched": count, "agents": {"w1": [count, 0.0]}}
            display.show(Moment(status, 5, 3, {"w1": "running", "w2": "killed"}))
    lines = Text.from_ansi(out.getvalue()).plain.split("\n")
    if terminal:
        rows = [line.split() for line in lines]
        assert any("60 of 100 pages · 5 queued · 3 leased" in line for line in lines)
        assert ["worker", "pages", "pages/s", "state"] in rows
        assert ["w1", "60", "30", "running"] in rows
        assert ["w2", "0", "0", "killed"] in rows
    else:
        assert lines[-2].endswith("60/100 pages  5 queued  3 leased  w1 30/s · w2 killed")
