"""The Bloom filter on plain Redis or Valkey: the Lua chunk's constants, what travels per element, the dupefilter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import redis

from crawler import config
from crawler.dedup import positions
from crawler.dedup.admission import Admission, lua_source
from crawler.dedup.dupefilter import RedisDupeFilter
from crawler.dedup.sizing import LANE_BITS, MAX_LAYERS, SEGMENT_BYTES, Sizing
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


@dataclass(frozen=True)
class BloomAdmission:
    """Admission by a Bloom filter of growing layers; with `growth` off it takes `sizing.capacity` elements in all."""

    sizing: Sizing
    growth: bool = True

    @cached_property
    def lua(self) -> str:
        """Constants and ``bloom.lua``."""
        return _constants(self.sizing, 0 if self.growth else self.sizing.capacity) + lua_source("bloom")

    def config(self) -> dict[str, int | float | str]:
        """Nothing: everything is constant."""
        return {}

    def encode(self, fingerprint: bytes) -> bytes:
        """Hash words and lane positions."""
        return positions.encode(fingerprint, self.sizing.lanes)


def _constants(sizing: Sizing, limit: int) -> str:
    size, slots = sizing.block_bytes, sizing.slots
    loads = (sizing.load(index) for index in range(MAX_LAYERS))
    texts = (range(256), range(0, slots * size, size), range(size - 1, slots * size, size))
    masks = "{[0]=" + ",".join(str(1 << bit % 48) for bit in range(LANE_BITS)) + "}"
    return (
        f'local LAYOUT, ERROR, CAPACITY, LIMIT = "{positions.LAYOUT}", "{sizing.error!r}", {sizing.capacity}, {limit}\n'
        f"local LANES, SLOTS, LOADS = {sizing.lanes}, {slots}, {{{','.join(f'{load:g}' for load in loads)}}}\n"
        f"local function tables() return {','.join(map(_texts, texts))},{masks} end\n"
    )


def _texts(numbers: range) -> str:
    return "{" + ",".join(f'"{number}"' for number in numbers) + "}"


def clear(client: redis.Redis, base: str) -> None:
    """Delete the Bloom filter under `base`: first its metadata, so that whoever adds next begins a new one."""
    meta = f"{base}:bloom:meta"
    with client.pipeline(transaction=True) as pipeline:
        pipeline.hmget(meta, "epoch", "blocks", "lanes")
        pipeline.delete(meta)
        stored, _ = pipeline.execute()
    if stored[0] is None:
        return
    epoch, blocks, lanes = (value.decode() for value in stored)
    slots = SEGMENT_BYTES // (int(lanes) * LANE_BITS // 8)
    names = (
        f"{base}:bloom:{epoch}:{layer}:{segment // 256}:{segment % 256}"
        for layer, count in enumerate(filter(None, blocks.split(",")), start=1)
        for segment in range(-(-int(count) // slots))
    )
    while batch := tuple(islice(names, 200)):
        client.unlink(*batch)


class BloomDupeFilter(RedisDupeFilter):
    """The default: a Bloom filter in Redis that grows. Settings: BLOOM_CAPACITY, BLOOM_ERROR_RATE, BLOOM_GROWTH."""

    @classmethod
    def make_admission(cls, settings: BaseSettings) -> Admission:
        """The filter that `settings` ask for."""
        capacity = config.integer(settings, "BLOOM_CAPACITY", 1_000_000, low=1, high=10**12)
        error = config.number(settings, "BLOOM_ERROR_RATE", 1e-6)
        if not 1e-12 <= error < 1:
            remedy = "must be between 0 and 1" if not 0 < error < 1 else "must be at least 1e-12"
            raise ConfigError("BLOOM_ERROR_RATE", settings.get("BLOOM_ERROR_RATE"), remedy)
        return BloomAdmission(Sizing(capacity, error), growth=config.flag(settings, "BLOOM_GROWTH", True))

    def clear(self, client: redis.Redis | None = None, base: str | None = None) -> None:
        """Forget everything under `base` (scrapy-redis: under our own key). Blocks."""
        clear(client or self._seen_memory().client, base or self.base)
