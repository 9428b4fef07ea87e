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

    `fill` is the share taken of the room that new elements go to, `error` the share of new pages taken for seen.
    """

    elements: int
    room: int
    fill: float
    size: int
    error: float
    configured: float


def bloom_of(parts: Iterable[Stored], limit: int = 0, recent: int = 0) -> Bloom | None:
    """All the parts that may err as one; None when none does, as with an exact memory.

    Of a window's generations only the newest takes what is new, so `fill` is that one's: the others, full or not, wait
    for their end. `limit`: elements that it may have in all when it must not grow (0: no limit); `recent`: those that a
    layered memory still keeps in front of it, which count there.
    """
    parts = list(parts)
    judged = [(part, bloom) for part in parts if (bloom := _bloom(part)) is not None]
    blooms = [bloom for _, bloom in judged]
    if not blooms:
        return None
    current = newest(parts)
    taken = sum(bloom.elements for part, bloom in judged if part in current) + recent
    room = limit or sum(bloom.room for part, bloom in judged if part in current)
    # Each generation of a window has its share of the error rate, as they are all asked.
    shares = max([int(part.fields["generations"]) + 1 for part in parts if part.kind.startswith("window/")], default=1)
    return Bloom(
        elements=sum(bloom.elements for bloom in blooms),
        room=sum(bloom.room for bloom in blooms),
        fill=taken / room if room else 0.0,
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
    law = CompactSizing(capacity, configured) if part.kind == "compact" else sizing
    error = law.estimated_error(elements) if elements else 0.0
    size = sum(part.layers) * part.block_bytes
    room = sizing.total_capacity(layers)
    return Bloom(elements, room, elements / room, size, error, configured)


def newest(parts: Iterable[Stored]) -> list[Stored]:
    """Those that new elements go to: the parts of a window's newest generation; without a window all."""
    parts = list(parts)
    last = max(map(_generation, parts), default=0)
    return [part for part in parts if _generation(part) == last]


def _generation(part: Stored) -> int:
    """Its number in a window (the role that :func:`crawler.dedup.stored.read_stored` gives it); 0 without one."""
    kind, _, number = part.role.partition(" ")
    return int(number.split()[0]) if kind == "generation" else 0
