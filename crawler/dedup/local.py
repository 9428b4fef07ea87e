"""A Bloom filter in this process's memory, for a crawl by one process: no server, and it survives with ``JOBDIR``.

The layout is that of the Redis bitmap (``positions.py``, ``sizing.py``), one memory-mapped array per layer: anonymous,
or a sparse file in the job directory, which the operating system writes back even if the process is killed.
"""

from __future__ import annotations

import json
import logging
import mmap
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NoReturn, Self

from scrapy.utils.job import job_dir

from crawler import config
from crawler.dedup import options, positions
from crawler.dedup.ending import FULL, Ending
from crawler.dedup.log import DuplicateLog
from crawler.dedup.sizing import Sizing
from crawler.errors import ConfigError, StoredDataError

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.utils.request import RequestFingerprinterProtocol

logger = logging.getLogger(__name__)

_COUNT = Struct("<Q")


class MemoryBloom:
    """A growing Bloom filter; with `folder`, kept in files there. Raises StoredDataError if they differ in size.

    `limit`: elements that it should hold at most, 0 for any number; such a filter may be given a higher one later.
    """

    def __init__(self, sizing: Sizing, folder: Path | None = None, *, limit: int = 0) -> None:
        self.sizing, self.folder, self._limit = sizing, folder, limit
        self._layers: list[mmap.mmap] = []
        self._blocks: list[int] = []
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._check(folder)
        self._counter = self._map("count", _COUNT.size)
        while folder is not None and (folder / f"layer{len(self._layers) + 1}").exists():
            self._grow()

    @property
    def count(self) -> int:
        """Elements recorded. Kept in a mapped file too, so that a killed process leaves the true number."""
        return int(_COUNT.unpack_from(self._counter)[0])

    @property
    def full(self) -> bool:
        """Whether it should take nothing more."""
        return 0 < self._limit <= self.count

    def add(self, fingerprint: bytes) -> bool:
        """True if it is new; it is recorded, even where the filter is full."""
        item = positions.encode(fingerprint, self.sizing.shape)
        mask = self._mask(item)
        if self._find(item, mask):
            return False
        count = self.count
        if count >= self.sizing.total_capacity(len(self._layers)):
            self._grow()
        newest = len(self._layers) - 1
        layer, place = self._layers[newest], self._place(item, newest)
        layer[place] = (int.from_bytes(layer[place]) | mask).to_bytes(self.sizing.block_bytes)
        _COUNT.pack_into(self._counter, 0, count + 1)
        return True

    def has(self, fingerprint: bytes) -> bool:
        """Whether it was added; records nothing."""
        item = positions.encode(fingerprint, self.sizing.shape)
        return self._find(item, self._mask(item))

    def close(self) -> None:
        """Release the memory; files stay."""
        for mapped in (self._counter, *self._layers):
            mapped.close()
        self._layers.clear()

    def _find(self, item: bytes, mask: int) -> bool:
        return any(
            int.from_bytes(layer[self._place(item, index)]) & mask == mask for index, layer in enumerate(self._layers)
        )

    def _place(self, item: bytes, index: int) -> slice:
        start = positions.block(item, self._blocks[index]) * self.sizing.block_bytes
        return slice(start, start + self.sizing.block_bytes)

    def _mask(self, item: bytes) -> int:
        top = self.sizing.block_bytes * 8 - 1
        mask = 0
        for bit in positions.bits(item, self.sizing.shape.lane_words):
            mask |= 1 << top - bit
        return mask

    def _grow(self) -> None:
        index = len(self._layers)
        self._blocks.append(self.sizing.blocks(index))
        self._layers.append(self._map(f"layer{index + 1}", self.sizing.layer_bytes(index)))

    def _map(self, name: str, size: int) -> mmap.mmap:
        if self.folder is None:
            return mmap.mmap(-1, size)
        with (self.folder / name).open("a+b") as file:
            file.truncate(size)
            return mmap.mmap(file.fileno(), size)

    def _check(self, folder: Path) -> None:
        parameters = {
            "layout": positions.LAYOUT,
            "BLOOM_CAPACITY": self.sizing.capacity,
            "BLOOM_ERROR_RATE": self.sizing.error,
        }
        header = folder / "meta.json"
        if not header.exists():
            part = folder / "meta.json.part"
            part.write_text(json.dumps(parameters))
            part.replace(header)  # whole or not there, whenever the process dies
        try:
            stored = dict(json.loads(header.read_text()))
        except (ValueError, TypeError):
            raise StoredDataError(f"JOBDIR: {header} is damaged; remove {folder} to begin anew") from None
        capacity = stored.get("BLOOM_CAPACITY")
        if isinstance(capacity, int) and 0 < capacity < self._limit:  # it was full, and more is allowed now
            self.sizing = Sizing(capacity, self.sizing.error)
            parameters["BLOOM_CAPACITY"] = capacity
        for name, value in parameters.items():
            if stored.get(name) != value:
                remedy = f"{folder} was made with {stored.get(name)}; set it back, or remove the folder"
                raise StoredDataError(f"{name}={value}: {remedy}")


class MemoryBloomDupeFilter:
    """Scrapy's dupefilter over a :class:`MemoryBloom`, for Scrapy's own scheduler."""

    def __init__(
        self,
        bloom: MemoryBloom,
        fingerprinter: RequestFingerprinterProtocol,
        log: DuplicateLog | None = None,
        end: Ending | None = None,
    ) -> None:
        self._bloom = bloom
        self._fingerprinter = fingerprinter
        self._log = log or DuplicateLog()
        self._end = end or Ending()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """From BLOOM_CAPACITY, BLOOM_ERROR_RATE, BLOOM_GROWTH and JOBDIR."""
        settings = crawler.settings
        folder = job_dir(settings)
        sizing = Sizing(options.capacity(settings), options.error_rate(settings))
        assert crawler.request_fingerprinter is not None, "Scrapy makes the fingerprinter before the dupefilter"
        log = DuplicateLog(crawler.stats, debug=config.flag(settings, "DUPEFILTER_DEBUG", False))
        limit = 0 if options.growth(settings) else sizing.capacity
        bloom = MemoryBloom(sizing, Path(folder, "bloom") if folder else None, limit=limit)
        if config.text(settings, "DEDUP_WINDOW"):
            logger.warning("DEDUP_WINDOW changes nothing with %s: one process's memory has no windows", cls.__name__)
        return cls(bloom, crawler.request_fingerprinter, log, Ending(crawler))

    def prepare(self, client: object, base: str) -> NoReturn:
        """The shared frontier asks this first. Raises ConfigError: one process's memory cannot serve it."""
        self.admission(base)

    def admission(self, base: str) -> NoReturn:
        """Raises ConfigError, as :meth:`prepare`."""
        raise ConfigError(
            "DUPEFILTER_CLASS",
            f"{type(self).__module__}.{type(self).__name__}",
            "remembers within one process only; with the shared frontier take crawler.dedup.BloomDupeFilter",
        )

    def open(self) -> None:
        """Nothing to do."""

    def close(self, reason: str = "") -> None:
        """Release the memory; files in the job directory stay."""
        self._bloom.close()

    def request_seen(self, request: Request) -> bool:
        """Whether the request was seen before; records it. A full memory ends the crawl."""
        fingerprint = self._fingerprinter.fingerprint(request)
        if not self._bloom.full:
            return not self._bloom.add(fingerprint)
        seen = self._bloom.has(fingerprint)
        if not seen:
            self._end(FULL)
        return seen

    def log(self, request: Request, spider: Spider) -> None:
        """Count a filtered request; log the first one, or all with ``DUPEFILTER_DEBUG``."""
        self._log(request, spider)
