"""What ``scrapy dedup plan`` and ``status`` tell: sizes and errors before the crawl, and as they are now."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawler.dedup.sizing import CompactSizing, Sizing, minimum_bits
from crawler.dedup.stored import Stored, read_stored

if TYPE_CHECKING:
    import redis

# Bytes per page beside the bits, as tests/benchmarks/bench_dedup.py measures them.
KEY_OVERHEAD = 112  # a string key of its own
SET_OVERHEAD = 130  # a small set of its own, with what its sorted array leaves unused
EXACT = 73
SCRAPY_REDIS = 88


def expected_losses(sizing: Sizing, pages: int, steps: int = 200) -> float:
    """Pages taken for seen, and so never crawled, while `pages` different ones are crawled."""
    return sum(sizing.estimated_error(int((step + 0.5) * pages / steps)) for step in range(steps)) * pages / steps


def bitmap_bytes(sizing: Sizing, pages: int) -> int:
    """Bytes of a bitmap that holds `pages` pages: full layers, and of the newest the keys that were touched by then."""
    total = 0.0
    for index in range(sizing.layers_for(pages)):
        held = min(sizing.layer_capacity(index), pages - sizing.total_capacity(index))
        keys = -(-sizing.blocks(index) // sizing.slots)
        total += -math.expm1(-held / keys) * (sizing.layer_bytes(index) + KEY_OVERHEAD * keys)
    return round(total)


def compact_bytes(sizing: CompactSizing, pages: int) -> int:
    """Bytes of a compact memory that holds `pages` pages."""
    layers, left, total = 0, pages, 0.0
    while left > 0:
        held = min(left, sizing.capacity << layers)
        total += 4.3 * held + SET_OVERHEAD * held / sizing.load(layers)
        layers, left = layers + 1, left - held
    return int(total)


def plan(capacity: int, error: float) -> dict[str, float | int]:
    """The numbers of a bitmap whose first layer is `capacity`."""
    sizing = Sizing(capacity, error)
    return {
        "capacity": capacity,
        "error_rate": error,
        "k": sizing.lanes,
        "bits_per_page": sizing.layer_bytes(0) * 8 / capacity,
        "theory_bits_per_page": minimum_bits(error),
        "bytes": bitmap_bytes(sizing, capacity),
        "keys": -(-sizing.blocks(0) // sizing.slots),
        "expected_lost_pages": expected_losses(sizing, capacity),
    }


@dataclass(frozen=True)
class Part:
    """A memory, or a part of one, as it is now; None where a number has no meaning."""

    kind: str
    role: str
    elements: int
    capacity: int | None = None
    layers: int | None = None
    fill: float | None = None
    error_now: float | None = None
    error_rate: float | None = None
    bytes: int | None = None


def status(client: redis.Redis, base: str) -> list[Part]:
    """The memories under `base`; empty if nothing was seen yet."""
    return [part for stored in read_stored(client, base) for part in _parts(client, stored)]


def _parts(client: redis.Redis, stored: Stored) -> Iterator[Part]:
    kind = stored.kind.partition("/")[0]
    if kind in ("exact", "layered"):
        names = list(stored.keys())
        size = sum(int(client.memory_usage(name, samples=50) or 0) for name in names)
        yield Part(stored.kind, stored.role, sum(int(client.scard(name)) for name in names), bytes=size)
    elif kind in ("bitmap", "native", "compact"):
        yield _erring(client, stored, kind)


def _erring(client: redis.Redis, stored: Stored, kind: str) -> Part:
    elements, capacity = stored.count or 0, int(stored.fields["capacity"])
    error = float(stored.fields["error_rate"])
    bloom = Sizing(capacity, error)
    layers = len(stored.layers) or bloom.layers_for(elements)
    if kind == "bitmap":
        now, size = bloom.estimated_error(elements), bitmap_bytes(bloom, elements)
    elif kind == "native":
        now, size = bloom.estimated_error(elements), int(client.memory_usage(f"{stored.prefix}filter") or 0)
    else:
        compact = CompactSizing(capacity, error)
        now, size = compact.estimated_error(elements), compact_bytes(compact, elements)
    room = bloom.total_capacity(layers)
    fill = elements / room if room else 0.0
    return Part(stored.kind, stored.role, elements, capacity, layers, fill, now, error, size)
