"""Seen before? Memories of fingerprints, and the dupefilters over them."""

from crawler.dedup.admission import Admission
from crawler.dedup.bloom import BloomDupeFilter

__all__ = ["Admission", "BloomDupeFilter"]
