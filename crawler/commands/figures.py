"""Numbers as people write and read them: counts with a unit, sizes, tables."""

from __future__ import annotations

import re

from crawler.errors import ConfigError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


def count(name: str, text: str) -> int:
    """``100M`` → 100000000. ConfigError names the flag `name`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgb]?)", text.strip().lower())
    if not match:
        raise ConfigError(name, text, "must be a number such as 5000000, 100M or 1G")
    return int(float(match[1]) * _UNITS[match[2]])


def share(name: str, text: str) -> float:
    """``1e-6`` → 0.000001, between 0 and 1. ConfigError names the flag `name`."""
    try:
        if 0 < (number := float(text)) < 1:
            return number
    except ValueError:
        pass
    raise ConfigError(name, text, "must be a number between 0 and 1, such as 1e-6")


def size(number: float) -> str:
    """Bytes in the unit that leaves one to three digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def few(number: float) -> str:
    """A count that may be a fraction."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def print_table(rows: list[list[str]]) -> None:
    """The first row is the head; the first column is set left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())
