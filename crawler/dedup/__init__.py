"""Seen before? Memories of fingerprints, and the dupefilters over them."""

from crawler.dedup.admission import Admission
from crawler.dedup.dupefilter import (
    BloomDupeFilter,
    CompactDupeFilter,
    ExactDupeFilter,
    LayeredDupeFilter,
)
from crawler.dedup.known import KnownSeen
from crawler.dedup.local import MemoryBloomDupeFilter

__all__ = [
    "Admission",
    "BloomDupeFilter",
    "CompactDupeFilter",
    "ExactDupeFilter",
    "KnownSeen",
    "LayeredDupeFilter",
    "MemoryBloomDupeFilter",
]
