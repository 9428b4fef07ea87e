"""The kinds of memory there are: each function gives the admission of one, from plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Literal

from crawler.dedup import positions
from crawler.dedup.admission import LuaAdmission, Module
from crawler.dedup.sizing import MAX_LAYERS, WORD_BITS, CompactSizing, Shape, Sizing, minimum_bits

Backend = Literal["bitmap", "native"]


def bitmap(sizing: Sizing, *, growth: bool = True) -> LuaAdmission:
    """A Bloom filter on plain strings; without `growth` it takes `sizing.capacity` elements in all."""
    size, slots = sizing.block_bytes, sizing.slots
    firsts, lasts = range(0, slots * size, size), range(size - 1, slots * size, size)
    masks = "{[0]=" + ",".join(str(1 << bit % WORD_BITS) for bit in range(2 * WORD_BITS)) + "}"
    constants = (
        f'local LAYOUT, SLOTS = "{positions.LAYOUT}", {slots}\n'
        f"local LANES, LANE_WORDS = {sizing.shape.lanes}, {sizing.shape.lane_words}\n"
        f"{_limits(sizing, growth)}"
        f"local LOADS = {_numbers(sizing.load(index) for index in range(MAX_LAYERS))}\n"
        f"local MASK = {masks}\n"
        f"local function offsets() return {_texts(firsts)},{_texts(lasts)} end\n"
        f"{_merged(sizing.shape)}"
    )
    encode, pack = partial(positions.encode_many, shape=sizing.shape), partial(positions.pack_many, shape=sizing.shape)
    return LuaAdmission("bitmap", Module("bitmap", constants), encode, pack)


def native(sizing: Sizing, *, growth: bool = True) -> LuaAdmission:
    """A Bloom filter of the server's own.

    It places bits by double hashing. An array of m bits has m²/2 such patterns, and n elements meet a stranger's whole
    pattern with 2n/m², which in small filters is far more than their error rate; so the first layer is made so large
    that this is a twentieth of it.
    """
    reserve = max(sizing.capacity, math.ceil(40 / (sizing.error * minimum_bits(sizing.error) ** 2)))
    constants = f'{_limits(sizing, growth)}local RESERVE = "{reserve}"\n'
    return LuaAdmission("native", Module("native", constants), list)


def bloom(backend: Backend, sizing: Sizing, *, growth: bool = True) -> LuaAdmission:
    """Either of them."""
    return (native if backend == "native" else bitmap)(sizing, growth=growth)


def exact() -> LuaAdmission:
    """A Redis set."""
    return LuaAdmission("exact", Module("exact"), list)


def compact(sizing: CompactSizing, *, growth: bool = True) -> LuaAdmission:
    """Many small sets of 32-bit integers; without `growth` they take `sizing.capacity` elements in all."""
    loads = _numbers(sizing.load(index) for index in range(MAX_LAYERS))
    constants = f"{_limits(sizing, growth)}local LOADS = {loads}\n"
    return LuaAdmission("compact", Module("compact", constants), positions.encode_compact, positions.pack_compact)


def layered(history: LuaAdmission, recent: int) -> LuaAdmission:
    """An exact set of the last `recent` elements in front of a Bloom filter."""
    constants = f'local HISTORY_KIND, RECENT = "{history.kind}", {recent}\n'
    module = Module("layered", constants, {"HISTORY": history.module})
    return LuaAdmission(f"layered/{history.kind}", module, history.encoder, history.packer)


def window(inner: LuaAdmission, text: str, milliseconds: int, generations: int) -> LuaAdmission:
    """`inner`, forgetting what is older than the window; `text` names the window in error messages."""
    length = -(-milliseconds // generations)
    kind = f"window/{inner.kind}"
    constants = f'local KIND, WINDOW, LENGTH, GENERATIONS = "{kind}", "{text}", {length}, {generations}\n'
    return LuaAdmission(kind, Module("window", constants, {"INNER": inner.module}), inner.encoder, inner.packer)


def _merged(shape: Shape) -> str:
    """The Lua function that sets an element's bits in a block: one statement per lane, words and bits in locals."""
    bits = ", ".join(f"b{lane}" for lane in range(shape.lanes))
    words = ", ".join(f"w{word}" for word in range(shape.words))

    def put(word: str) -> str:
        return f"if {word} % (m + m) < m then {word} = {word} + m new = true end"

    def lane_code(lane: int) -> str:
        first, *second = (f"w{word}" for word in range(lane * shape.lane_words, (lane + 1) * shape.lane_words))
        choice = f"if b{lane} < {WORD_BITS} then {put(first)} else {put(second[0])} end" if second else put(first)
        return f"m = MASK[b{lane}] {choice}\n"

    return (
        f'local WORDS = ">{"I6" * shape.words}"\n'
        "local pack_words, unpack_words, bytes = struct.pack, struct.unpack, string.byte\n"
        "local function merged(block, item)\n"
        f"local new, m, {bits} = false, 0, bytes(item, 7, -1)\n"
        f"local {words} = unpack_words(WORDS, block)\n"
        f"{''.join(map(lane_code, range(shape.lanes)))}"
        f"if new then return pack_words(WORDS, {words}) end\nend\n"
    )


def _limits(sizing: Sizing | CompactSizing, growth: bool) -> str:
    limit = 0 if growth else sizing.capacity
    return f'local ERROR, CAPACITY, LIMIT = "{sizing.error!r}", {sizing.capacity}, {limit}\n'


def _numbers(values: Iterable[float]) -> str:
    return "{" + ",".join(f"{value:g}" for value in values) + "}"


def _texts(values: Iterable[int]) -> str:
    return "{" + ",".join(f'"{value}"' for value in values) + "}"
