"""All workers' item files of a spider as one stream, each item once, its newest copy. Pure: no Scrapy, no Redis.

Read twice, line by line: first backwards, the newest file first, where the first copy met is the newest; then forwards,
for the lines that were chosen. What is kept in memory is 8 bytes of each item's fingerprint (in a table of at most 32
bytes per item) and one bit per line, so that 100 million items need 3 GB at most. Two different items with the same
8 bytes: one in 3,700 crawls of that size loses one item.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

SUFFIXES = (".jsonl", ".jl", ".jsonlines")
BLOCK = 1 << 20  # bytes read at a time, backwards
_BATCH_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d(?:\.\d+)?)\+00-00")  # as Scrapy writes it into names


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

    Of items with one ``fingerprint`` the newest is taken: in the file that :func:`written` last (of two files of one
    time, the later name), and there the last line. An item without it (``start()`` yields such) is always taken; with
    `everything`, all are. What workers append after the first look is left for the next time.
    """

    def __init__(self, files: list[Path], *, everything: bool = False) -> None:
        self.files, self.everything = files, everything
        self.items = self.repeats = 0
        self.torn: list[tuple[Path, int]] = []  # file and line
        self._chosen: dict[Path, tuple[int, bytearray]] = {}  # lines, and a bit for each, the last line first

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self._chosen:
            self._choose()
        self.items = 0
        for path in self.files:
            count, bits = self._chosen[path]
            with path.open("rb") as file:
                for place, line in zip(range(count - 1, -1, -1), file, strict=False):
                    if bits[place >> 3] >> (place & 7) & 1 and (item := _item(line)) is not None:
                        self.items += 1
                        yield item

    def _choose(self) -> None:
        seen = Seen()
        for path in sorted(self.files, key=lambda path: (written(path), path), reverse=True):
            bits, torn, place = bytearray(), [], -1
            with path.open("rb") as file:
                for place, line in enumerate(_backwards(file)):
                    if not place & 7:
                        bits.append(0)
                    item = _item(line)
                    if item is None:
                        torn += [place] if line.strip() else []
                    elif self.everything or not (key := item.get("fingerprint")) or seen.add(str(key)):
                        bits[-1] |= 1 << (place & 7)
                    else:
                        self.repeats += 1
            self._chosen[path] = place + 1, bits
            self.torn += [(path, place + 1 - number) for number in torn]
        self.torn.sort()


def written(path: Path) -> float:
    """When the file was written, in seconds since 1970: the batch time in its name, else its last change."""
    if found := _BATCH_TIME.search(path.name):
        with suppress(ValueError):
            return datetime.fromisoformat("{}:{}:{}+00:00".format(*found.groups())).timestamp()
    return path.stat().st_mtime


def feed_files(folder: Path) -> list[Path]:
    """The JSON-lines files in `folder`, by name."""
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())


def _item(line: bytes) -> dict[str, Any] | None:
    try:
        item = json.loads(line)
    except ValueError:
        return None
    return item if isinstance(item, dict) else None


def _backwards(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of `file`, the last first; when a newline ends it, what is after it counts as a line."""
    left, rest = file.seek(0, os.SEEK_END), b""
    while left:
        size = min(BLOCK, left)
        left -= size
        file.seek(left)
        rest, *lines = (file.read(size) + rest).split(b"\n")
        yield from reversed(lines)
    yield rest
