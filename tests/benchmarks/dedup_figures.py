"""Makes the tables and the picture of ``docs/dedup.md`` from ``docs/dedup.json``.

Run it as ``python -m tests.benchmarks.dedup_figures``.

The measurements come from ``make bench-dedup``, which runs this at its end; sizes from the arithmetic.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from crawler.commands.figures import few, size
from crawler.dedup.report import EXACT, SCRAPY_REDIS, bitmap_bytes, compact_bytes, expected_losses
from crawler.dedup.sizing import CompactSizing, Sizing

DOCS = Path(__file__).parents[2] / "docs"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table; all columns but the first are set right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def sizing_table(results: dict[str, Any]) -> str:
    """Bytes and expected losses by arithmetic."""
    rows = []
    for pages in (10**7, 10**8, 10**9):
        for error in (1e-4, 1e-6, 1e-8):
            fixed = Sizing(pages, error)
            grown = Sizing(1_000_000, error)
            rows.append([
                f"{pages:,}", f"{error:g}", size(bitmap_bytes(fixed, pages)), few(expected_losses(fixed, pages)),
                size(bitmap_bytes(grown, pages)), few(expected_losses(grown, pages)),
                size(compact_bytes(CompactSizing(pages, error), pages)), size(EXACT * pages),
                size(SCRAPY_REDIS * pages),
            ])  # fmt: skip
    head = ["pages", "error rate", "Bloom, sized for it", "lost pages", "Bloom grown from 1M", "lost pages", "compact",
            "exact", "scrapy-redis"]  # fmt: skip
    return table(head, rows)


def bytes_table(results: dict[str, Any]) -> str:
    """Measured bytes per page."""
    rows = [
        [row["kind"], f"{row['error']:g}" if row["error"] else "-", row["server"], f"{row['bytes']:.2f}"]
        for name, section in results.items() if name.startswith("bytes ") for row in section
    ]  # fmt: skip
    return table(["kind", "error rate", "server", "bytes per page"], rows)


def error_table(results: dict[str, Any]) -> str:
    """Measured error of the first layer at its capacity."""
    rows = [
        [f"{row['capacity']:,}", f"{row['configured']:g}", f"{row['planned']:.2g}", f"{row['real']:.2g}",
         f"{row['ratio']:.2f}"]
        for name, row in results.items() if name.startswith("error ")
    ]  # fmt: skip
    return table(["capacity", "configured", "planned for the first layer", "measured", "measured / configured"], rows)


def native_table(results: dict[str, Any]) -> str:
    """Measured error of the server's own filter."""
    rows = [
        [row["server"], f"{row['capacity']:,}", f"{row['configured']:g}", f"{row['real']:.2g}", f"{row['grown']:.2g}"]
        for name, row in results.items() if name.startswith("native error ")
    ]  # fmt: skip
    return table(["server", "capacity", "configured", "measured at capacity", "grown to four times that"], rows)


def growth_table(results: dict[str, Any]) -> str:
    """Measured error through growth."""
    found = {name: section for name, section in results.items() if name.startswith("growth ")}
    sizes = [row["elements"] for row in next(iter(found.values()))]
    rows = [[name.split()[1], *(f"{row['real']:.2g}" for row in section)] for name, section in found.items()]
    return table(["configured", *(f"{size:,}" for size in sizes)], rows)


def processes_table(results: dict[str, Any]) -> str:
    """Of how many elements exactly one process was told that they are new."""
    servers: dict[str, list[str]] = {}
    for name, row in results.items():
        if name.startswith("processes "):
            assert (row["told"], row["most"]) == (row["pages"], 1)
            servers.setdefault(row["kind"], []).append(name.split()[2])
    return table(["kind", "servers"], ([kind, ", ".join(names)] for kind, names in servers.items()))


def exchange_table(results: dict[str, Any]) -> str:
    """Measured server time that the memory adds to an exchange."""
    rows = [
        [row["way"], row["server"], f"{row['least_us']:.2f}", f"{row['median_us']:.2f}"]
        for name, section in results.items() if name.startswith("exchange time ") for row in section
    ]  # fmt: skip
    return table(["memory", "server", "least, µs", "median, µs"], rows)


def server_table(results: dict[str, Any]) -> str:
    """Measured server time of each way."""
    ways: dict[str, dict[str, str]] = {}
    for name, section in results.items():
        for row in section if name.startswith("server time ") else ():
            cell = f"{row['least_us']:.2f} / {row['median_us']:.2f}"
            ways.setdefault(f"{row['way']}, {row['server']}", {})[row["elements"]] = cell
    return table(
        ["way, server", "new, µs", "seen, µs"], ([way, cells["new"], cells["seen"]] for way, cells in ways.items())
    )


def rate_table(results: dict[str, Any]) -> str:
    """Measured rates of stand-alone use."""
    rows = [
        [row["kind"], row["server"], f"{row['per_second']:,}", f"{row['ratio']:.2f}"]
        for name, section in results.items() if name.startswith("rate ") and isinstance(section, list)
        for row in section
    ]  # fmt: skip
    if "rate known" in results:
        rows.append(["known to this process", "-", f"{results['rate known']['per_second']:,}", "-"])
    return table(["kind", "server", "pages per second", "× pipelined SADD"], rows)


def pause_table(results: dict[str, Any]) -> str:
    """Measured pauses."""
    rows = [
        [row["server"], f"{row['longest_us'] / 1000:.1f}", f"{row['99th_us'] / 1000:.1f}",
         f"{row['median_us'] / 1000:.2f}", f"{row['loop_longest_us'] / row['loop_least_us']:.1f}",
         f"{row['one_bitmap_us'] / 1000:.0f}"]
        for name, row in results.items() if name.startswith("pauses ")
    ]  # fmt: skip
    head = ["server", "longest call, ms", "99 %, ms", "median, ms", "longest / shortest of an idle loop",
            "one bitmap of 512 MiB, ms"]  # fmt: skip
    return table(head, rows)


def picture(results: dict[str, Any]) -> str:
    """An SVG of error against elements, both axes logarithmic: a full fixed filter and a growing one."""
    width, height, left, bottom = 640, 360, 70, 50
    low_x, high_x, low_y, high_y = math.log10(5e3), math.log10(2e6), -4.2, 0.0

    def x(elements: float) -> float:
        return left + (math.log10(elements) - low_x) / (high_x - low_x) * (width - left - 20)

    def y(error: float) -> float:
        return 20 + (high_y - max(math.log10(max(error, 1e-9)), low_y)) / (high_y - low_y) * (height - bottom - 20)

    def line(rows: list[dict[str, float]], colour: str) -> str:
        points = " ".join(f"{x(row['elements']):.1f},{y(row['real']):.1f}" for row in rows)
        dots = "".join(
            f'<circle cx="{x(row["elements"]):.1f}" cy="{y(row["real"]):.1f}" r="3" fill="{colour}"/>' for row in rows
        )
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'

    ticks_x = "".join(
        f'<text x="{x(n):.0f}" y="{height - bottom + 18}" text-anchor="middle">{n:,}</text>'
        for n in (10**4, 10**5, 10**6)
    )
    ticks_y = "".join(
        f'<text x="{left - 8}" y="{y(10.0**n) + 4:.0f}" text-anchor="end">{10.0**n:g}</text>'
        f'<line x1="{left}" x2="{width - 20}" y1="{y(10.0**n):.0f}" y2="{y(10.0**n):.0f}" stroke="#ddd"/>'
        for n in range(-4, 1)
    )
    at = f'x1="{left}" x2="{width - 20}" y1="{y(0.01):.0f}" y2="{y(0.01):.0f}"'
    configured = f'<line {at} stroke="#888" stroke-dasharray="6 4"/>'
    labels = [
        (x(1.6e4), y(0.25), "#c0392b", "fixed, made for 10,000"),
        (x(1.2e5), y(0.0035), "#2471a3", "growing from 10,000"),
        (x(4e5), y(0.01) - 6, "#666", "configured: 0.01"),
    ]
    texts = "".join(f'<text x="{a:.0f}" y="{b:.0f}" fill="{c}">{text}</text>' for a, b, c, text in labels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">'
        f'<rect width="{width}" height="{height}" fill="white"/>{ticks_y}{ticks_x}{configured}'
        f"{line(results['fixed 0.01'], '#c0392b')}{line(results['growth 0.01'], '#2471a3')}{texts}"
        f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">different pages added</text>'
        f'<text x="16" y="{height / 2}" transform="rotate(-90 16 {height / 2})" text-anchor="middle">'
        "share of new pages taken for seen</text></svg>\n"
    )


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "sizes": sizing_table, "bytes": bytes_table, "errors": error_table, "growth": growth_table,
    "native errors": native_table, "processes": processes_table, "server time": server_table,
    "exchange time": exchange_table,
    "rates": rate_table, "pauses": pause_table, "machine": lambda results: results["machine"],
}  # fmt: skip


def main() -> None:
    """Rewrites what stands between the markers of the page, and the picture."""
    results = json.loads((DOCS / "dedup.json").read_text())
    page = DOCS / "dedup.md"
    text = page.read_text()
    for name, make in TABLES.items():
        marker = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = marker.sub(partial(_between, make(results)), text)
    page.write_text(text)
    (DOCS / "dedup.svg").write_text(picture(results))


def _between(made: str, match: re.Match[str]) -> str:
    return f"{match[1]}{made}\n{match[2]}"


if __name__ == "__main__":
    main()
