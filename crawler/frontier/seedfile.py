"""Files of seeds: one line, one seed; read as a stream, judged line by line, so that one bad line costs only itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

from crawler.frontier.seeds import SeedError, check_seed, makes_own_requests

if TYPE_CHECKING:
    from scrapy import Spider

MAX_LINE = 1 << 20  # bytes
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line of a file that is not blank and no comment: a seed to push, or what is wrong with it."""

    number: int
    seed: bytes
    priority: int
    fault: str = ""
    refused: str = ""  # its URL when a worker will refuse that


@dataclass(frozen=True)
class Reader:
    """Reads seeds for a spider. `priority` and `dedup` are added to the seeds that say nothing about them."""

    spider_class: type[Spider]
    priority: int | None = None
    dedup: bool = False
    refuses: Callable[[str], bool] | None = None  # whether a worker will refuse a URL

    def __call__(self, file: IO[bytes], first: int = 1) -> Iterator[Line]:
        """The lines of `file` from number `first` on."""
        opaque = makes_own_requests(self.spider_class)
        for number, raw in enumerate(_lines(file), start=1):
            text = raw.strip()
            if number < first or not text or text.startswith(b"#"):
                continue
            if len(raw) > MAX_LINE:
                yield Line(number, b"", 0, f"longer than {MAX_LINE} bytes")
                continue
            try:
                yield Line(number, text, self.priority or 0) if opaque else self._checked(number, text)
            except SeedError as error:
                yield Line(number, b"", 0, str(error))

    def _checked(self, number: int, text: bytes) -> Line:
        encoding = getattr(self.spider_class, "redis_encoding", None) or "utf-8"
        seed = check_seed(text, self.spider_class, encoding)
        more: dict[str, object] = {}
        if self.priority is not None and "priority" not in seed:
            more["priority"] = self.priority
        if self.dedup and "dont_filter" not in seed:
            more["dont_filter"] = False
        if more:
            text = json.dumps({**seed, **more}, ensure_ascii=False, separators=(",", ":")).encode(
                encoding, "surrogatepass"
            )
        refused = seed["url"] if self.refuses is not None and self.refuses(seed["url"]) else ""
        return Line(number, text, seed.get("priority", self.priority or 0), refused=refused)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines without a leading byte order mark; of one that is too long only the beginning."""
    line = file.readline(MAX_LINE + 1).removeprefix(_BOM)
    while line:
        yield line
        while len(line) > MAX_LINE and not line.endswith(b"\n"):  # skip the rest of it
            line = file.readline(MAX_LINE + 1)
        line = file.readline(MAX_LINE + 1)
