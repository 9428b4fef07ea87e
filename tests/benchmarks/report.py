"""Puts the figures of docs/benchmarks.json into docs/benchmarks.md: `python -m tests.benchmarks.report`.

What stands between ``<!-- NAME -->`` and ``<!-- end -->`` is made here; the text around it is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from crawler.dedup.sizing import Sizing
from tests.benchmarks import bench_capacity, bench_frontier, bench_scaling, bench_worker

DOCS = Path(__file__).parents[2] / "docs"
COUNTS = (10_000_000, 100_000_000, 1_000_000_000)
COMPACT_BYTES = 4.6  # per fingerprint, measured (docs/dedup.md)


def memory_table(rows: list[dict[str, Any]]) -> str:
    """Bytes for so many seen, and for so many queued at the same time."""
    queued = max(rows, key=lambda row: row["queued"])["bytes_per_request"]
    lines = ["| pages | seen, bitmap 1e-6 | seen, compact | queued at once |", "|---|---|---|---|"]
    for count in COUNTS:
        sizes = (Sizing(count, 1e-6).layer_bytes(0), COMPACT_BYTES * count, queued * count)
        lines.append(f"| {count:,} | " + " | ".join(f"{size / 1e9:.2f} GB" for size in sizes) + " |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[Any], str]] = {
    "worker": bench_worker.table, "start": bench_worker.start_table, "frontier": bench_frontier.table,
    "exchange": bench_frontier.exchange_table, "capacity": bench_capacity.table,
    "scaling": bench_scaling.scaling_table, "held": bench_scaling.held_table,
}  # fmt: skip
DERIVED: dict[str, tuple[str, Callable[[Any], str]]] = {
    "model": ("capacity", bench_capacity.model),
    "memory": ("frontier", memory_table),
}


def write() -> None:
    """Rewrites the page for the parts that have figures."""
    results = json.loads((DOCS / "benchmarks.json").read_text())
    page = DOCS / "benchmarks.md"
    text = page.read_text()
    made = {name: make(results[name]["rows"]) for name, make in TABLES.items() if name in results}
    made |= {name: make(results[part]["rows"]) for name, (part, make) in DERIVED.items() if part in results}
    made["taken"] = "\n".join(
        f"- {name}: {result['when']}, {result['seconds']} s, {result['machine']}" for name, result in results.items()
    )
    for name, table in made.items():
        marker = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = marker.sub(partial(_between, table), text)
    page.write_text(text)


def _between(made: str, match: re.Match[str]) -> str:
    return f"{match[1]}{made}\n{match[2]}"


if __name__ == "__main__":
    write()
