"""How full the memory of seen pages is, and how often it errs by now, from its stored metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawler.dedup.sizing import CompactSizing, Sizing

if TYPE_CHECKING:
    from crawler.dedup.stored import Stored


@dataclass(frozen=True, slots=True)
class Bloom:
    """A memory that may err. `room` is elements that fit before it grows, `size` is bytes (0: not known).

    `fill` is the share of the room that is taken, `error` the share of new pages taken for seen.
    """

    elements: int
    room: int
    fill: float
    size: int
    error: float
    configured: float


def bloom_of(parts: Iterable[Stored]) -> Bloom | None:
    """All the parts that may err as one (generations of a window); None when none does, as with an exact memory."""
    parts = list(parts)
    blooms = [bloom for part in parts if (bloom := _bloom(part)) is not None]
    if not blooms:
        return None
    # Each generation of a window has its share of the error rate, as they are all asked.
    shares = max([int(part.fields["generations"]) + 1 for part in parts if part.kind.startswith("window/")], default=1)
    elements, room = sum(bloom.elements for bloom in blooms), sum(bloom.room for bloom in blooms)
    return Bloom(
        elements=elements,
        room=room,
        fill=elements / room if room else 0.0,
        size=sum(bloom.size for bloom in blooms),
        error=-math.expm1(sum(math.log1p(-bloom.error) for bloom in blooms)),
        configured=shares * max(bloom.configured for bloom in blooms),
    )


def over_shards(memories: Iterable[Bloom | None]) -> Bloom | None:
    """The shards' memories as one: a page is in one of them, so errors do not add up; `fill` is the fullest one's."""
    blooms = [bloom for bloom in memories if bloom is not None]
    if not blooms:
        return None
    elements = sum(bloom.elements for bloom in blooms)
    return Bloom(
        elements=elements,
        room=sum(bloom.room for bloom in blooms),
        fill=max(bloom.fill for bloom in blooms),
        size=sum(bloom.size for bloom in blooms),
        error=sum(bloom.error * bloom.elements for bloom in blooms) / elements if elements else 0.0,
        configured=max(bloom.configured for bloom in blooms),
    )


def _bloom(part: Stored) -> Bloom | None:
    if part.kind not in ("bitmap", "native", "compact"):
        return None
    fields, elements = part.fields, part.count or 0
    capacity, configured = int(fields["capacity"]), float(fields["error_rate"])
    sizing = Sizing(capacity, configured)
    layers = len(part.layers) or sizing.layers_for(elements)  # a native filter keeps its layers to itself
    error = _compact_error(capacity, configured, elements) if part.kind == "compact" else 0.0
    if part.kind != "compact" and elements:
        error = sizing.estimated_error(elements)
    size = sum(part.layers) * part.block_bytes
    room = sizing.total_capacity(layers)
    return Bloom(elements, room, elements / room, size, error, configured)


def _compact_error(capacity: int, error: float, elements: int) -> float:
    """In each layer an element meets as many strangers as its set has, each equal with 2^-32."""
    sizing, left, index, total = CompactSizing(capacity, error), elements, 0, 0.0
    while left > 0:
        held = min(left, capacity << index)
        total += held / sizing.sets(index) / 2**32
        left, index = left - held, index + 1
    return total
