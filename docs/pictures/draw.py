"""Draws the README's pictures: ``PYTHONPATH=. python docs/pictures/draw.py``, from the project's root. The demo is a real run.

``demo.svg``: what `make demo ARGS=--kill` shows, a moment of its live panel and its end. ``architecture.svg``: the boxes
and arrows below.
"""

# ruff: noqa: E501, INP001 (a script in a folder of documents, no package; drawings have long lines)
from __future__ import annotations

import importlib
import io
import re
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
INK, SOFT, PAPER = "#24292f", "#6e7781", "#ffffff"


def demo(file: Path) -> None:
    """A run with a kill; the panel is the first one after it."""
    from rich.console import Console

    from crawler.demo import display

    run: Any = importlib.import_module("crawler.demo.run")  # the package has a function of that name
    shown: list[Any] = []
    panel = display._panel

    def remember(moment: display.Moment, *rest: Any) -> Any:
        group = panel(moment, *rest)
        if "killed" in moment.workers.values() and moment.status["fetched"] > 0.8 * moment.status["pages"]:
            shown.append(group)
        return group

    class Lines(display.Display):
        said: list[str] = []  # noqa: RUF012 (one display in one process)

        def say(self, line: str) -> None:
            self.said.append(line)

    display._panel, run.Display = remember, Lines  # type: ignore[misc] # to look at what it draws
    picture = Console(record=True, width=84, file=io.StringIO(), force_terminal=True)
    end: list[Any] = []

    class Quiet(Console):
        def print(self, *things: Any, **_: Any) -> None:
            end.extend(things)

    run.run(run.Plan(pages=1000, workers=3, kill=True), Quiet(file=io.StringIO(), force_terminal=True))
    picture.print("[bold]$ make demo ARGS=--kill[/bold]")
    for line in Lines.said:
        picture.print(line, highlight=False)
    for thing in [shown[0], *end]:
        picture.print(thing, highlight=False)
    svg = picture.export_svg(title="crawler", clear=False)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # nothing is fetched from elsewhere
    file.write_text("\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n", encoding="utf-8")


class Box(NamedTuple):
    """A box with a title, lines of text, and its place."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    fill: str = PAPER


BOXES = (
    Box(10, 40, 470, 300, "worker: a scrapy crawl process", fill="#f6f8fa"),
    Box(30, 80, 130, 60, "spider", ("callbacks, yours",), "#ddf4ff"),
    Box(190, 80, 130, 60, "fingerprint", ("canonical URL",)),
    Box(350, 80, 110, 60, "outbox", ("new requests",)),
    Box(30, 180, 130, 60, "pipelines, feeds", ("items, flushed",), "#ddf4ff"),
    Box(190, 180, 130, 60, "engine", ("Scrapy's",)),
    Box(350, 180, 110, 60, "inbox", ("leased requests",)),
    Box(190, 270, 130, 50, "downloader", ("robots.txt, guard",)),
    Box(620, 40, 250, 300, "Redis or Valkey", fill="#f6f8fa"),
    Box(640, 80, 210, 44, "seen?", ("Bloom layers, grow when full",), "#fff8c5"),
    Box(640, 134, 210, 44, "queues", ("one per host, each paced",)),
    Box(640, 188, 210, 44, "leases", ("request, worker, deadline",)),
    Box(640, 242, 210, 44, "dead letters", ("what failed, and why",)),
    Box(640, 296, 210, 30, "run, hosts, robots.txt"),
    Box(190, 370, 130, 34, "websites"),
    Box(620, 370, 250, 34, "Prometheus, Grafana, alerts"),
)
ARROWS = (  # from x, y to x, y, and a text beside it
    (160, 110, 190, 110, ""), (320, 110, 350, 110, ""), (350, 210, 320, 210, ""), (95, 140, 95, 180, ""),
    (200, 180, 160, 138, ""), (255, 240, 255, 270, ""), (255, 320, 255, 370, ""),
    (460, 110, 640, 110, "one call: acks, new"), (640, 210, 460, 210, "leased requests"),
    (400, 340, 618, 380, ""), (500, 352, 500, 352, "/metrics"),
)  # fmt: skip


def architecture(file: Path) -> None:
    """The boxes and arrows."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 420" font-family="sans-serif" font-size="12">'
    arrow = f'<marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto"><path d="M0,0L7,3L0,6z" fill="{SOFT}"/></marker>'
    parts = [head, f"<defs>{arrow}</defs>", f'<rect width="880" height="420" fill="{PAPER}"/>']
    parts.append(
        f'<text x="10" y="24" font-size="15" font-weight="bold" fill="{INK}">any number of workers, one frontier</text>'
    )
    for box in BOXES:
        parts.append(
            f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6" fill="{box.fill}" stroke="{SOFT}"/>'
            f'<text x="{box.x + 10}" y="{box.y + 20}" font-weight="bold" fill="{INK}">{escape(box.title)}</text>'
        )
        for number, line in enumerate(box.lines):
            parts.append(f'<text x="{box.x + 10}" y="{box.y + 37 + 15 * number}" fill="{SOFT}">{escape(line)}</text>')
    for x, y, to_x, to_y, text in ARROWS:
        parts.append(
            f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{SOFT}" stroke-width="1.5" marker-end="url(#a)"/>'
        )
        if text:
            parts.append(
                f'<text x="{(x + to_x) / 2}" y="{y - 7}" text-anchor="middle" fill="{INK}">{escape(text)}</text>'
            )
    file.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    architecture(FOLDER / "architecture.svg")
    demo(FOLDER / "demo.svg")
