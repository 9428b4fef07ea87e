"""The kinds of memory there are: each function gives the admission of one, from plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Literal

from crawler.dedup import positions
from crawler.dedup.admission import LuaAdmission, Module
from crawler.dedup.sizing import LANE_BITS, MAX_LAYERS, CompactSizing, Sizing, minimum_bits

Backend = Literal["bitmap", "native"]


def bitmap(sizing: Sizing, *, growth: bool = True) -> LuaAdmission:
    """A Bloom filter on plain strings; without `growth` it takes `sizing.capacity` elements in all."""
    size, slots = sizing.block_bytes, sizing.slots
    firsts, lasts = range(0, slots * size, size), range(size - 1, slots * size, size)
    masks = "{[0]=" + ",".join(str(1 << bit % (LANE_BITS // 2)) for bit in range(LANE_BITS)) + "}"
    constants = (
        f'local LAYOUT, LANES, SLOTS = "{positions.LAYOUT}", {sizing.lanes}, {slots}\n'
        f"{_limits(sizing, growth)}"
        f"local LOADS = {_numbers(sizing.load(index) for index in range(MAX_LAYERS))}\n"
        f"local function offsets() return {_texts(firsts)},{_texts(lasts)},{masks} end\n"
    )
    return LuaAdmission("bitmap", Module("bitmap", constants), partial(positions.encode, lanes=sizing.lanes))


def native(sizing: Sizing, *, growth: bool = True) -> LuaAdmission:
    """A Bloom filter of the server's own.

    It places bits by double hashing. An array of m bits has m²/2 such patterns, and n elements meet a stranger's whole
    pattern with 2n/m², which in small filters is far more than their error rate; so the first layer is made so large
    that this is a twentieth of it.
    """
    reserve = max(sizing.capacity, math.ceil(40 / (sizing.error * minimum_bits(sizing.error) ** 2)))
    constants = f'{_limits(sizing, growth)}local RESERVE = "{reserve}"\n'
    return LuaAdmission("native", Module("native", constants), bytes)


def bloom(backend: Backend, sizing: Sizing, *, growth: bool = True) -> LuaAdmission:
    """Either of them."""
    return (native if backend == "native" else bitmap)(sizing, growth=growth)


def exact() -> LuaAdmission:
    """A Redis set."""
    return LuaAdmission("exact", Module("exact"), bytes)


def compact(sizing: CompactSizing) -> LuaAdmission:
    """Many small sets of 32-bit integers."""
    loads = _numbers(sizing.load(index) for index in range(MAX_LAYERS))
    constants = f'local ERROR, CAPACITY, LOADS = "{sizing.error!r}", {sizing.capacity}, {loads}\n'
    return LuaAdmission("compact", Module("compact", constants), positions.encode_compact)


def layered(history: LuaAdmission, recent: int) -> LuaAdmission:
    """An exact set of the last `recent` elements in front of a Bloom filter."""
    constants = f'local HISTORY_KIND, RECENT = "{history.kind}", {recent}\n'
    module = Module("layered", constants, {"HISTORY": history.module})
    return LuaAdmission(f"layered/{history.kind}", module, history.encoder)


def window(inner: LuaAdmission, text: str, milliseconds: int, generations: int) -> LuaAdmission:
    """`inner`, forgetting what is older than the window; `text` names the window in error messages."""
    length = -(-milliseconds // generations)
    kind = f"window/{inner.kind}"
    constants = f'local KIND, WINDOW, LENGTH, GENERATIONS = "{kind}", "{text}", {length}, {generations}\n'
    return LuaAdmission(kind, Module("window", constants, {"INNER": inner.module}), inner.encoder)


def _limits(sizing: Sizing, growth: bool) -> str:
    limit = 0 if growth else sizing.capacity
    return f'local ERROR, CAPACITY, LIMIT = "{sizing.error!r}", {sizing.capacity}, {limit}\n'


def _numbers(values: Iterable[float]) -> str:
    return "{" + ",".join(f"{value:g}" for value in values) + "}"


def _texts(values: Iterable[int]) -> str:
    return "{" + ",".join(f'"{value}"' for value in values) + "}"
