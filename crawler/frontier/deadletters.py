"""Dead letters: requests and seeds that failed for good, with the reason; they can be read, put back, or dropped."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from crawler.frontier.control import Control
from crawler.frontier.message import SEED
from crawler.frontier.payload import PayloadError, priority_of, url_of
from crawler.frontier.script import source

_PAGE, _PAGE_BYTES = 500, 8 * 1024 * 1024  # letters that one call moves


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One entry of the stream. `time` is a Unix time in seconds; `seed` is the text of a seed, None for requests."""

    id: bytes
    time: float
    reason: str
    url: str
    host: str
    worker: str
    deliveries: int
    payload: bytes
    jar: bytes = b""  # the cookie jar whose requests are pinned to one worker

    @property
    def seed(self) -> str | None:
        """The seed as it was pushed."""
        return self.payload.removeprefix(SEED).decode("utf-8", "replace") if self.payload.startswith(SEED) else None


class DeadLetters:
    """The dead letters of one frontier, newest first; a `reason` picks those whose reason contains it."""

    def __init__(self, control: Control, order: str = "priority") -> None:
        self._control, self._order = control, order

    def __len__(self) -> int:
        return sum(int(part.client.xlen(part.key("dead"))) for part in self._control.parts)

    def __call__(self, reason: str = "") -> Iterator[DeadLetter]:
        """Letters, page by page."""
        parts = (self._of(part, reason) for part in self._control.parts)
        return heapq.merge(*parts, key=lambda letter: letter.time, reverse=True)

    def _of(self, part: Control, reason: str) -> Iterator[DeadLetter]:
        """Letters of one shard."""
        last = "+"
        while page := part.client.xrevrange(part.key("dead"), last, "-", count=_PAGE):
            for id_, fields in page:
                letter = _letter(id_, fields)
                if reason.lower() in letter.reason.lower():
                    yield letter
            last = f"({page[-1][0].decode()}"

    def requeue(self, reason: str = "") -> tuple[int, int]:
        """Puts letters back, seeds to their key and requests to their hosts; returns how many of each."""
        done = [self._requeue(part, reason) for part in self._control.parts]
        home = self._control.parts[0]
        if len(done) > 1 and any(requests for requests, _ in done):  # who found all shards empty looks again
            home.client.hincrby(home.key("meta"), "ids", 1)
        return sum(requests for requests, _ in done), sum(seeds for _, seeds in done)

    def _requeue(self, part: Control, reason: str) -> tuple[int, int]:
        script = part.client.register_script(source("requeue"))
        seeds = requests = 0
        for page in _pages(reversed(list(self._of(part, reason)))):  # the oldest first: they keep their order
            for letter in page:
                if letter.seed is not None and self._put_back(part, letter):
                    seeds += 1
            arguments: list[str | bytes | int] = [self._order]
            for letter in page:
                if letter.seed is None and letter.payload:
                    arguments += [letter.id, letter.host, _priority(letter), letter.payload, letter.jar]
            if len(arguments) > 1:
                requests += script(keys=[part.base], args=arguments)
        return requests, seeds

    def drop(self, reason: str = "") -> int:
        """Deletes letters; returns how many."""
        return sum(
            int(part.client.xdel(part.key("dead"), *(letter.id for letter in page)))
            for part in self._control.parts
            for page in _pages(self._of(part, reason))
        )

    def _put_back(self, part: Control, letter: DeadLetter) -> bool:
        """A seed that dies between the two steps is there twice, never lost."""
        part.seeds.push(part.whole, [(letter.payload.removeprefix(SEED), 0)])
        return bool(part.client.xdel(part.key("dead"), letter.id))


def _letter(id_: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    text = {name.decode(): value for name, value in fields.items()}
    payload = text.get("payload", b"")
    url = text.get("url", b"").decode("utf-8", "replace")
    if not url and not payload.startswith(SEED):
        try:
            url = url_of(payload)
        except PayloadError:
            url = ""
    return DeadLetter(
        id_, int(id_.split(b"-")[0]) / 1000, text.get("reason", b"").decode("utf-8", "replace"), url,
        text.get("host", b"").decode(), text.get("worker", b"").decode("utf-8", "replace"),
        int(text.get("deliveries", b"0")), payload, text.get("jar", b""),
    )  # fmt: skip


def _priority(letter: DeadLetter) -> int:
    try:
        return priority_of(letter.payload)
    except PayloadError:
        return 0


def _pages(letters: Iterator[DeadLetter]) -> Iterator[list[DeadLetter]]:
    page: list[DeadLetter] = []
    size = 0
    for letter in letters:
        page.append(letter)
        size += len(letter.payload)
        if len(page) == _PAGE or size > _PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page
