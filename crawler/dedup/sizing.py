"""How big a Bloom filter must be: blocks, lanes and layers from a capacity and an error rate. Pure arithmetic.

A *layer* is an array of blocks; an element lives in one block, so that one read answers for it. A block has `lanes`
lanes of one or two 48-bit words, and an element sets one bit in each lane. Blocks fill unevenly, which costs bits
compared with the classic filter (Bloom 1970); the error below is therefore the exact Poisson mixture over block loads
(Putze, Sanders, Singler 2007), not the classic formula, and sizing by it makes the real rate the computed one.

A full layer is followed by one of twice the capacity (Almeida et al. 2007). Layer i may err with
``2 * error / ((2i + 1)(2i + 3))``; these add up to ``error * (1 - 1 / (2n + 1))`` for n layers: below `error` for ever.
That tightens more slowly than halving, which keeps later layers small and lets all of them share one block size, and it
leaves two thirds to the first layer, the only one that most crawls fill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

WORD_BITS = 48
"""What a Lua number holds exactly, in whole bytes."""

MAX_LANES = 32
MAX_LAYERS = 24
SEGMENT_BYTES = 8 * 1024 - 64
"""A layer is cut into keys of at most this size (part of the stored layout). Allocating one costs two page faults, so a
call that touches 256 new ones stays within milliseconds; and it fits its allocator class, where 2^n bytes plus a header
would take 25 % more."""

_OVERHEAD = 1.195
"""Fewer words are faster; the fewest whose layer 0 stays within this factor of the theoretical minimum are taken."""

_MOST = WORD_BITS * 80.0
"""No block is loaded more."""

_SPREAD = 0.6
"""A layer of few blocks errs now more, now less than computed: how unevenly its blocks fill is a draw of so few. It is
loaded by this share of one over their root less (3 % at 400 blocks): some 1.5 standard deviations of its rate."""


class Shape(NamedTuple):
    """Of a block: so many lanes, each of one or two words."""

    lanes: int
    lane_words: int

    @property
    def words(self) -> int:
        """Words of a block."""
        return self.lanes * self.lane_words


def minimum_bits(error: float) -> float:
    """Bits per element of an ideal classic Bloom filter: ``log2(1/error) / ln 2``."""
    return math.log2(1 / error) / math.log(2)


def block_error(load: float, shape: Shape) -> float:
    """False-positive rate of a layer whose blocks hold `load` elements on average (Poisson distributed)."""
    if load <= 0:
        return 0.0
    reach = 14 * math.sqrt(load) + 30  # beyond it the Poisson weight falls faster than the error can rise
    first = max(1, int(load - reach))
    weight = math.exp(first * math.log(load) - load - math.lgamma(first + 1))
    missed = 1 - 1 / (shape.lane_words * WORD_BITS)
    unset = missed**first
    total = 0.0
    for held in range(first, int(load + reach)):
        part = weight * (1 - unset) ** shape.lanes
        total += part
        if held > load and part < total * 1e-15:
            break
        weight *= load / (held + 1)
        unset *= missed
    return total


@lru_cache(maxsize=1024)
def block_load(error: float, shape: Shape) -> float:
    """Largest mean load of a block, to four digits, that keeps the false-positive rate within `error`.

    Stored layers were sized by halving an interval. Every worker asks for 24 layers when it starts, and halving would
    hold it up; so the load is found faster, and cut to where halving ends.
    """
    load = _load_of_error(error, shape)
    low, step = 0.0, _MOST
    while step > low * 1e-5 + 1e-18:
        step /= 2
        low = math.floor(load / step) * step
    return float(f"{low * (1 - 5e-4):.4g}")


def _load_of_error(error: float, shape: Shape) -> float:
    """The load that errs with `error`: by secants in logarithms, where the rate is almost a line."""
    low, high = math.log(1e-18), math.log(_MOST)

    def excess(at: float) -> float:
        return math.log(block_error(math.exp(at), shape) or 5e-324) - math.log(error)

    here, slope = math.log(shape.words * WORD_BITS / minimum_bits(error)), 0.6 * shape.lanes
    height = excess(here)
    while True:
        low, high = (low, here) if height > 0 else (here, high)
        there = here - height / slope
        if not low < there < high:
            there = (low + high) / 2
        if abs(there - here) < 1e-10:
            return math.exp(there)
        rise = excess(there) - height
        slope = rise / (there - here) or 1.0
        here, height = there, height + rise


def layer_error(error: float, index: int) -> float:
    """Share of `error` that layer `index` (0 is the first) may use."""
    return 2 * error / ((2 * index + 1) * (2 * index + 3))


@lru_cache(maxsize=64)
def choose_shape(error: float) -> Shape:
    """The fewest words whose first layer stays within ``_OVERHEAD``; the thriftiest if none does."""

    share, limit = layer_error(error, 0), _OVERHEAD * minimum_bits(error)
    shapes = sorted(
        (Shape(lanes, words) for lanes in range(1, MAX_LANES + 1) for words in (1, 2)), key=lambda shape: shape.words
    )
    for shape in shapes:
        if block_error(shape.words * WORD_BITS / limit, shape) <= share:
            return shape
    return min(shapes, key=lambda shape: shape.words / block_load(share, shape))


@dataclass(frozen=True)
class Sizing:
    """Layout of a filter whose first layer holds `capacity` elements, with compound error at most `error`."""

    capacity: int
    error: float

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"capacity={self.capacity}: must be at least 1")
        if not 0 < self.error < 1:
            raise ValueError(f"error={self.error}: must be between 0 and 1")

    @cached_property
    def shape(self) -> Shape:
        """Of the blocks of all layers."""
        return choose_shape(self.error)

    @property
    def lanes(self) -> int:
        """Bits an element sets (k)."""
        return self.shape.lanes

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.shape.words * WORD_BITS // 8

    @property
    def slots(self) -> int:
        """Blocks in one key."""
        return SEGMENT_BYTES // self.block_bytes

    def layer_capacity(self, index: int) -> int:
        """Elements that layer `index` takes before the next one is begun."""
        return self.capacity << index

    def total_capacity(self, layers: int) -> int:
        """Elements that `layers` layers take together."""
        return self.capacity * ((1 << layers) - 1)

    def layers_for(self, elements: int) -> int:
        """Layers in use when `elements` elements are held; at least one."""
        return max(1, (max(elements - 1, 0) // self.capacity + 1).bit_length())

    def load(self, index: int) -> float:
        """Elements per block of layer `index` when it is full, to four digits."""
        load = block_load(layer_error(self.error, index), self.shape)
        blocks = max(1.0, self.layer_capacity(index) / load)
        return float(f"{load * (1 - _SPREAD / math.sqrt(blocks)):.4g}")

    def blocks(self, index: int) -> int:
        """Blocks of layer `index`."""
        return math.ceil(self.layer_capacity(index) / self.load(index))

    def layer_bytes(self, index: int) -> int:
        """Bytes of layer `index` once all its keys exist, without the server's overhead per key."""
        return self.blocks(index) * self.block_bytes

    def estimated_error(self, elements: int) -> float:
        """False-positive rate of a filter that holds `elements` elements, whatever its growth so far."""
        log_right = 0.0
        for index in range(self.layers_for(elements)):
            held = min(self.layer_capacity(index), elements - self.total_capacity(index))
            log_right += math.log1p(-block_error(held / self.blocks(index), self.shape))
        return abs(math.expm1(log_right))


COMPACT_LOAD = 400
"""Members of a set at which it is still sure (5 sigma) to stay within the 512 that servers keep as a sorted array."""


@dataclass(frozen=True)
class CompactSizing:
    """Layout of a compact memory: sets of 32-bit integers, in layers that grow like a Bloom filter's."""

    capacity: int
    error: float

    def __post_init__(self) -> None:
        Sizing.__post_init__(self)  # type: ignore[arg-type]  # the same two fields

    def load(self, index: int) -> int:
        """Members per set of layer `index`: an element meets a stranger's integer in its set with load / 2^32."""
        return max(1, min(COMPACT_LOAD, int(layer_error(self.error, index) * 2**32)))

    def estimated_error(self, elements: int) -> float:
        """Share of new elements taken for seen by a memory that holds `elements`."""
        left, index, total = elements, 0, 0.0
        while left > 0:
            held = min(left, self.capacity << index)
            total += held / self.sets(index) / 2**32
            left, index = left - held, index + 1
        return total

    def sets(self, index: int) -> int:
        """Sets of layer `index`."""
        return math.ceil((self.capacity << index) / self.load(index))
