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
    """A memory that may err. `room` is elements that fit before it grows, `size` is bytes (0: not known)."""

    elements: int
    room: int
    size: int
    error: float
    configured: float

    @property
    def fill(self) -> float:
        """Share of the room that is taken."""
        return self.elements / self.room if self.room else 0.0


def bloom_of(parts: Iterable[Stored]) -> Bloom | None:
    """All the parts that may err as one (generations of a window); None when none does, as with an exact memory."""
    blooms = [bloom for part in parts if (bloom := _bloom(part)) is not None]
    if not blooms:
        return None
    return Bloom(
        elements=sum(bloom.elements for bloom in blooms),
        room=sum(bloom.room for bloom in blooms),
        size=sum(bloom.size for bloom in blooms),
        error=-math.expm1(sum(math.log1p(-bloom.error) for bloom in blooms)),
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
    return Bloom(elements, sizing.total_capacity(layers), size, error, configured)


def _compact_error(capacity: int, error: float, elements: int) -> float:
    """In each layer an element meets as many strangers as its set has, each equal with 2^-32."""
    sizing, left, index, total = CompactSizing(capacity, error), elements, 0, 0.0
    while left > 0:
        held = min(left, capacity << index)
        total += held / sizing.sets(index) / 2**32
        left, index = left - held, index + 1
    return total
