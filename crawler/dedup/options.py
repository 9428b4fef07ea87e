"""The dedup settings, read and checked in one place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crawler import config
from crawler.dedup import kinds
from crawler.dedup.admission import LuaAdmission
from crawler.dedup.sizing import CompactSizing, Sizing
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

DEFAULT_CAPACITY = 1_000_000
"""Of the first layer. Small, because layers are added as needed: 4 MiB hold the first million pages, and a hundred
million take seven layers, each of which costs a new page one more read."""

DEFAULT_ERROR = 1e-6
_LEAST_ERROR = 1e-12
_LEAST_COMPACT_ERROR = 1e-8  # below it sets would hold so few integers that a plain set is smaller
_LEAST_NATIVE_ERROR = 1e-8  # below it double hashing would need a first layer of gigabytes
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def capacity(settings: BaseSettings) -> int:
    """``BLOOM_CAPACITY``."""
    return config.integer(settings, "BLOOM_CAPACITY", DEFAULT_CAPACITY, low=1, high=10**12)


def error_rate(settings: BaseSettings, least: float = _LEAST_ERROR) -> float:
    """``BLOOM_ERROR_RATE``, at least `least`."""
    error = config.number(settings, "BLOOM_ERROR_RATE", DEFAULT_ERROR, low=-float("inf"))
    if not 0 < error < 1:
        raise ConfigError("BLOOM_ERROR_RATE", settings.get("BLOOM_ERROR_RATE"), "must be between 0 and 1")
    if error < least:
        raise ConfigError(
            "BLOOM_ERROR_RATE", settings.get("BLOOM_ERROR_RATE"), f"must be at least {least:g} for this kind of memory"
        )
    return error


def backend(settings: BaseSettings) -> str:
    """``BLOOM_BACKEND``: auto, bitmap or native."""
    return config.choice(settings, "BLOOM_BACKEND", "auto", ("auto", "bitmap", "native"))


def native_fits(settings: BaseSettings) -> bool:
    """Whether the server's own filter can err as little as ``BLOOM_ERROR_RATE`` says."""
    return error_rate(settings) >= _LEAST_NATIVE_ERROR


def bloom(settings: BaseSettings, which: kinds.Backend) -> LuaAdmission:
    """The Bloom filter that the settings ask for, on a backend; with windows if they are asked for."""
    return windowed(settings, _bloom(settings, which))


def exact(settings: BaseSettings) -> LuaAdmission:
    """The exact set."""
    return windowed(settings, kinds.exact())


def compact(settings: BaseSettings) -> LuaAdmission:
    """The compact memory."""
    error = error_rate(settings, _LEAST_COMPACT_ERROR) / _generations(settings)
    return windowed(settings, kinds.compact(CompactSizing(capacity(settings), error), growth=growth(settings)))


def layered(settings: BaseSettings, which: kinds.Backend) -> LuaAdmission:
    """Recent set and history."""
    recent = config.integer(settings, "DEDUP_RECENT_SIZE", 1_000_000, low=2)
    return windowed(settings, kinds.layered(_bloom(settings, which), recent))


def memory_size(settings: BaseSettings) -> int:
    """``DEDUP_MEMORY_SIZE``: fingerprints that each process remembers as seen."""
    return config.integer(settings, "DEDUP_MEMORY_SIZE", 10_000)


def windowed(settings: BaseSettings, inner: LuaAdmission) -> LuaAdmission:
    """`inner`, with windows if ``DEDUP_WINDOW`` is set."""
    text = "".join(config.text(settings, "DEDUP_WINDOW").split())
    if not text:
        return inner
    generations = _window_generations(settings)
    return kinds.window(inner, text, int(seconds(text, "DEDUP_WINDOW") * 1000), generations)


def seconds(text: str, name: str) -> float:
    """A duration such as ``90``, ``12h``, ``30d`` in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip())
    if not match or not float(match[1]):
        raise ConfigError(name, text, "must be a duration such as 45s, 90m, 12h, 30d or 4w")
    return float(match[1]) * _UNITS[match[2]]


def _bloom(settings: BaseSettings, which: kinds.Backend) -> LuaAdmission:
    error = error_rate(settings)
    if which == "native" and not native_fits(settings):
        remedy = (
            f"the server's own filter errs on {_LEAST_NATIVE_ERROR:g} at best: raise it, or set BLOOM_BACKEND=bitmap"
        )
        raise ConfigError("BLOOM_ERROR_RATE", settings.get("BLOOM_ERROR_RATE"), remedy)
    sizing = Sizing(capacity(settings), error / _generations(settings))
    return kinds.bloom(which, sizing, growth=growth(settings))


def growth(settings: BaseSettings) -> bool:
    """``BLOOM_GROWTH``: whether a memory that is full grows."""
    return config.flag(settings, "BLOOM_GROWTH", True)


def _generations(settings: BaseSettings) -> int:
    """Memories asked for one look-up: their errors add up."""
    return _window_generations(settings) + 1 if config.text(settings, "DEDUP_WINDOW") else 1


def _window_generations(settings: BaseSettings) -> int:
    return config.integer(settings, "DEDUP_WINDOW_GENERATIONS", 4, low=1, high=100)
