"""Reading settings: each function returns a checked value or raises the one-line ``ConfigError``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_TRUE = {"1", "true", "yes", "on"}
_MOST = 2**40  # of anything without a limit of its own: numbers travel and are stored in 64 bits, often as ms
_LONGEST_NAME = 100
_FALSE = {"0", "false", "no", "off", "", "none"}


def integer(settings: BaseSettings, name: str, default: int, *, low: int = 0, high: int | None = None) -> int:
    """The setting as an int between `low` and `high` (inclusive)."""
    value = settings.get(name, default)
    try:
        number_ = int(str(value))
    except ValueError:
        raise ConfigError(name, value, "must be a whole number") from None
    _check_range(name, value, number_, low, high)
    return number_


def number(settings: BaseSettings, name: str, default: float, *, low: float = 0.0, high: float | None = None) -> float:
    """The setting as a float between `low` and `high` (inclusive)."""
    value = settings.get(name, default)
    try:
        number_ = float(str(value))
    except ValueError:
        raise ConfigError(name, value, "must be a number") from None
    if not math.isfinite(number_):
        raise ConfigError(name, value, "must be a finite number")
    _check_range(name, value, number_, low, high)
    return number_


def flag(settings: BaseSettings, name: str, default: bool) -> bool:
    """The setting as a bool: 1/0, true/false, yes/no, on/off."""
    value = settings.get(name, default)
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ConfigError(name, value, "must be 1 or 0")


def choice(settings: BaseSettings, name: str, default: str, choices: Sequence[str]) -> str:
    """The setting as one of `choices`."""
    value = settings.get(name) or default
    if value not in choices:
        raise ConfigError(name, value, f"must be one of {', '.join(choices)}")
    return str(value)


def text(settings: BaseSettings, name: str, default: str = "") -> str:
    """The setting as a string; unset and empty both give `default`."""
    return str(settings.get(name) or default)


def header(settings: BaseSettings, name: str, default: str = "") -> str:
    """A text that goes into a request's header: one line of printable ASCII."""
    value = text(settings, name, default)
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(name, value, "goes into a header of every request: write it in ASCII, on one line")
    return value


def worker_name(settings: BaseSettings, default: str) -> str:
    """``WORKER_NAME``, which becomes part of file names, log lines and fields in Redis: so it is one short line."""
    name = text(settings, "WORKER_NAME", default)
    if not name.isprintable() or len(name.encode()) > _LONGEST_NAME:
        raise ConfigError("WORKER_NAME", ascii(name)[1:-1], f"must be printable, and {_LONGEST_NAME} bytes at most")
    return name


def words(settings: BaseSettings, name: str, default: str = "") -> frozenset[str]:
    """The setting as a set of lower-case words: a list, or a string with commas or spaces between them."""
    value = settings.get(name, default)
    parts = value if isinstance(value, (list, tuple, set, frozenset)) else str(value or "").replace(",", " ").split()
    return frozenset(str(part).lower() for part in parts)


def _check_range(name: str, value: object, number_: float, low: float, high: float | None) -> None:
    if high is None and number_ < low:
        raise ConfigError(name, value, f"must be at least {low}")
    if high is None and number_ > _MOST:
        raise ConfigError(name, value, f"must be at most {_MOST}")
    if high is not None and not low <= number_ <= high:
        raise ConfigError(name, value, f"must be between {low} and {high}")
