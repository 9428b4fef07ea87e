"""All workers' item files of a spider as one stream, each item once. Pure: no Scrapy, no Redis.

Read line by line; what is kept in memory is 8 bytes of each item's fingerprint (in a table of at most 32 bytes per
item), so that 100 million items need 3 GB at most. Two different items with the same 8 bytes: one in 3,700 crawls of
that size loses one item.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

SUFFIXES = (".jsonl", ".jl", ".jsonlines")


class Seen:
    """A set of strings by 8 bytes of their hash: open addressing in one array, at most half full, doubled when it is.

    >>> seen = Seen()
    >>> seen.add("a"), seen.add("a")
    (True, False)
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * 1024))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def nbytes(self) -> int:
        """Memory of the table, in bytes."""
        return len(self._slots) * self._slots.itemsize

    def add(self, text: str) -> bool:
        """Whether `text` was not in the set; afterwards it is."""
        digest = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1
        place = self._find(digest)
        if self._slots[place]:
            return False
        self._slots[place] = digest
        self._used += 1
        if self._used * 2 > len(self._slots):
            self._grow()
        return True

    def _find(self, digest: int) -> int:
        slots, mask = self._slots, len(self._slots) - 1
        place = digest & mask
        while slots[place] and slots[place] != digest:
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        old, self._slots = self._slots, array("Q", bytes(self.nbytes * 2))
        for digest in filter(None, old):
            self._slots[self._find(digest)] = digest


class Merge:
    """Iterates over the items in `files`, each as a dict; repeats and torn lines are counted and left out.

    An item without ``fingerprint`` (``start()`` yields such) is always taken. With `everything`, repeats are too.
    """

    def __init__(self, files: list[Path], *, everything: bool = False) -> None:
        self.files, self.everything = files, everything
        self.items = self.repeats = 0
        self.torn: list[tuple[Path, int]] = []  # file and line

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.items = self.repeats = 0
        self.torn = []
        seen = Seen()
        for path in self.files:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    item = _item(line)
                    if item is None:
                        self.torn += [(path, number)] if line.strip() else []
                    elif self.everything or not (key := item.get("fingerprint")) or seen.add(str(key)):
                        self.items += 1
                        yield item
                    else:
                        self.repeats += 1


def feed_files(folder: Path) -> list[Path]:
    """The JSON-lines files in `folder`, by name."""
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())


def _item(line: bytes) -> dict[str, Any] | None:
    try:
        item = json.loads(line)
    except ValueError:
        return None
    return item if isinstance(item, dict) else None
