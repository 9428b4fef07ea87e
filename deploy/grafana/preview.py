"""Draws the dashboard without Grafana: each panel's queries, asked of a real Prometheus, as one SVG.

``python deploy/grafana/preview.py http://127.0.0.1:9090 docs/dashboard.svg [MINUTES]``
"""

# ruff: noqa: INP001, T201 (a script in a folder of configuration, no package)
from __future__ import annotations

import json
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

PANELS = json.loads((Path(__file__).parent / "dashboards" / "crawler.json").read_text())["panels"]
COLUMN, ROW, GAP = 50, 24, 6  # pixels of a grid unit, and between panels
COLOURS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0")
POINTS = 120
Line = tuple[str, list[tuple[float, float]]]


def ask(server: str, query: str, start: float, end: float) -> list[dict[str, Any]]:
    """The series of a range query."""
    step = max(1.0, (end - start) / POINTS)
    text = query.replace("$__rate_interval", f"{max(8, round(4 * step))}s").replace("$spider", ".*")
    words = urllib.parse.urlencode({"query": text, "start": start, "end": end, "step": step})
    with urllib.request.urlopen(f"{server}/api/v1/query_range?{words}", timeout=10) as answer:  # noqa: S310
        result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result


def lines(server: str, panel: dict[str, Any], start: float, end: float) -> Iterator[Line]:
    """Every series of a panel: legend and points."""
    for target in panel["targets"]:
        for series in ask(server, target["expr"], start, end):
            legend = target["legendFormat"]
            for name, value in series["metric"].items():
                legend = legend.replace("{{" + name + "}}", value)
            points = [(float(when), float(value)) for when, value in series["values"] if value != "NaN"]
            if points:
                yield legend, points


def number(value: float, unit: str) -> str:
    """A value as a person reads it."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s" and 0 < value < 1:
        return f"{1000 * value:.3g} ms"
    size, suffix = value, ""
    for suffix in ("", "k", "M", "G"):  # noqa: B007 (the last one is used below)
        if abs(size) < 1000:
            break
        size /= 1000
    ending = {"s": " s", "bytes": "B", "Bps": "B/s", "reqps": "/s", "ops": "/s"}.get(unit, "")
    return f"{size:.3g}{' ' if suffix else ''}{suffix}{ending}"


def draw(panel: dict[str, Any], found: list[Line], start: float, end: float) -> str:
    """One panel."""
    grid, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
    width, height = grid["w"] * COLUMN - GAP, grid["h"] * ROW - GAP
    parts = [
        f'<rect width="{width}" height="{height}" rx="3" fill="#fff" stroke="#ccc"/>',
        f'<text x="8" y="15" font-weight="bold">{escape(panel["title"])}</text>',
    ]
    if panel["type"] == "stat":
        text = number(found[0][1][-1][1], unit) if found else "no data"
        parts.append(f'<text x="{width / 2}" y="{height / 2 + 16}" text-anchor="middle" font-size="24">{text}</text>')
    else:
        parts += chart(found, unit, width, height, start, end)
    return f'<g transform="translate({grid["x"] * COLUMN},{grid["y"] * ROW})">{"".join(parts)}</g>'


def chart(found: list[Line], unit: str, width: int, height: int, start: float, end: float) -> Iterator[str]:
    """Axis, lines and legend."""
    top = max([value for _, points in found for _, value in points], default=0.0) or 1.0
    left, upper, lower = 58, 24, height - 24
    for value, y in ((top, upper), (top / 2, (upper + lower) / 2), (0.0, lower)):
        yield f'<line x1="{left}" x2="{width - 8}" y1="{y}" y2="{y}" stroke="#eee"/>'
        yield f'<text x="{left - 5}" y="{y + 4}" text-anchor="end" fill="#777">{number(value, unit)}</text>'
    if not found:
        yield f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle" fill="#777">no data</text>'
    place = float(left)
    for index, (legend, points) in enumerate(found):
        colour = COLOURS[index % len(COLOURS)]
        wide, tall = (width - 8 - left) / (end - start), (lower - upper) / top
        path = " ".join(f"{left + (when - start) * wide:.1f},{lower - value * tall:.1f}" for when, value in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
        if legend and place + 6.2 * len(legend) < width:
            yield f'<text x="{place:.0f}" y="{height - 7}" fill="{colour}">{escape(legend)}</text>'
            place += 6.2 * len(legend) + 14


def picture(server: str, minutes: float) -> str:
    """All panels."""
    end = time.time()
    start, parts = end - 60 * minutes, []
    for panel in PANELS:
        if panel["type"] == "row":
            y = panel["gridPos"]["y"] * ROW + 16
            parts.append(f'<text x="2" y="{y}" font-size="14" font-weight="bold">{panel["title"]}</text>')
        else:
            parts.append(draw(panel, list(lines(server, panel, start, end)), start, end))
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in PANELS) * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {24 * COLUMN + 16} {height + 16}" '
        f'font-family="sans-serif" font-size="11"><rect x="-8" y="-8" width="100%" height="100%" fill="#f4f5f5"/>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    address, file, *rest = sys.argv[1:]
    Path(file).write_text(picture(address, float(rest[0]) if rest else 60))
    print(f"wrote {file}")
