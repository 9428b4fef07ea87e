"""What the dedup benchmarks measured: shown, and with ``BENCH_WRITE=1`` kept in ``docs/dedup.json`` for the figures."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import redis

RESULTS = Path(__file__).parents[2] / "docs" / "dedup.json"


def record(section: str, rows: Any) -> None:
    """Shows a section's rows; keeps them when asked to."""
    for row in rows if isinstance(rows, list) else [rows]:
        print(f"  {section}: {json.dumps(row)}")
    if not os.environ.get("BENCH_WRITE"):
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[section] = rows
    results["machine"] = f"{os.cpu_count()} cores, Python {platform.python_version()}, redis-py {redis.__version__}"
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
