"""Dead letters: requests and seeds that failed for good, with the reason; they can be read, put back, or dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from crawler.frontier.control import SEED, Control
from crawler.frontier.payload import PayloadError, priority_of, url_of
from crawler.frontier.script import source

_PAGE = 500


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
        self._key = control.key("dead")

    def __len__(self) -> int:
        return int(self._control.client.xlen(self._key))

    def __call__(self, reason: str = "") -> Iterator[DeadLetter]:
        """Letters, page by page."""
        last = "+"
        while page := self._control.client.xrevrange(self._key, last, "-", count=_PAGE):
            for id_, fields in page:
                letter = _letter(id_, fields)
                if reason.lower() in letter.reason.lower():
                    yield letter
            last = f"({page[-1][0].decode()}"

    def requeue(self, reason: str = "") -> tuple[int, int]:
        """Puts letters back, seeds to their key and requests to their hosts; returns how many of each."""
        script = self._control.client.register_script(source("requeue"))
        seeds = requests = 0
        for page in _pages(reversed(list(self(reason)))):  # the oldest first: they keep their order
            for letter in page:
                if letter.seed is not None and self._put_back(letter):
                    seeds += 1
            arguments: list[str | bytes | int] = [self._order]
            for letter in page:
                if letter.seed is None and letter.payload:
                    arguments += [letter.id, letter.host, _priority(letter), letter.payload, letter.jar]
            if len(arguments) > 1:
                requests += script(keys=[self._control.base], args=arguments)
        return requests, seeds

    def drop(self, reason: str = "") -> int:
        """Deletes letters; returns how many."""
        return sum(
            int(self._control.client.xdel(self._key, *(letter.id for letter in page))) for page in _pages(self(reason))
        )

    def _put_back(self, letter: DeadLetter) -> bool:
        """A seed that dies between the two steps is there twice, never lost."""
        self._control.seeds.push(self._control.client, [(letter.payload.removeprefix(SEED), 0)])
        return bool(self._control.client.xdel(self._key, letter.id))


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
    for letter in letters:
        page.append(letter)
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page
