"""What a server's metadata says about the memories under a base, and the names of their data keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import redis

from crawler.dedup.sizing import SEGMENT_BYTES, WORD_BITS, Shape


@dataclass(frozen=True)
class Stored:
    """One memory as its metadata describes it; `role` tells a window's generations and a layered memory's parts."""

    base: str
    fields: dict[str, str]
    role: str = ""

    @property
    def kind(self) -> str:
        """bitmap, native, exact, compact, layered/BACKEND or window/KIND."""
        return self.fields["kind"]

    @property
    def meta_key(self) -> str:
        """Key of the metadata."""
        return meta_key(self.base)

    @property
    def prefix(self) -> str:
        """What the names of its data keys begin with."""
        return f"{self.base}:dedup:{self.fields['id']}:"

    @property
    def count(self) -> int | None:
        """Elements held, as counted when they were added; None where the server knows better."""
        return int(self.fields["count"]) if "count" in self.fields else None

    @cached_property
    def layers(self) -> list[int]:
        """Blocks (bitmap) or sets (compact) of each layer."""
        return [int(size) for size in self.fields.get("blocks", self.fields.get("sets", "")).split(",") if size]

    @property
    def block_bytes(self) -> int:
        """Bytes of a block (bitmap); 0 for other kinds."""
        if "lanes" not in self.fields:
            return 0
        return Shape(int(self.fields["lanes"]), int(self.fields["lane_words"])).words * WORD_BITS // 8

    def keys(self) -> Iterator[str]:
        """Names of its data keys; those of a layer that was not filled yet need not exist."""
        per_key = SEGMENT_BYTES // self.block_bytes if self.block_bytes else 1
        for layer, size in enumerate(self.layers, start=1):
            for number in range(-(-size // per_key)):
                yield f"{self.prefix}{layer}:{number // 256}:{number % 256}"
        plain = {"exact": ["seen"], "native": ["filter"], "layered": ["recent", "folding"]}
        for name in plain.get(self.kind.partition("/")[0], []):
            yield self.prefix + name


def meta_key(base: str) -> str:
    """Key of the metadata of the memory under `base`."""
    return f"{base}:dedup:meta"


def read_stored(client: redis.Redis, base: str, role: str = "") -> list[Stored]:
    """The memory under `base` and those it is made of; empty if there is none."""
    fields = {_text(name): _text(value) for name, value in client.hgetall(meta_key(base)).items()}
    if "kind" not in fields:
        return []
    stored = Stored(base, fields, role)
    found = [stored]
    if stored.kind.startswith("window/"):
        for number in _generations(client, stored):
            found += read_stored(client, f"{base}:w{number}", f"generation {number}")
    elif stored.kind.startswith("layered/"):
        found += read_stored(client, f"{base}:history", f"{role} history".strip())
    return found


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def rotate(client: redis.Redis, window: Stored) -> int:
    """Let the next generation of a window begin now: its clock is set ahead for good. Returns its number."""
    length, now = int(window.fields["length"]), _window_time(client, window)
    client.hincrby(window.meta_key, "offset", length - now % length)
    return now // length + 1


def _generations(client: redis.Redis, window: Stored) -> range:
    newest = _window_time(client, window) // int(window.fields["length"])
    return range(newest - int(window.fields["generations"]), newest + 1)


def _window_time(client: redis.Redis, window: Stored) -> int:
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000 + int(window.fields.get("offset", 0))
