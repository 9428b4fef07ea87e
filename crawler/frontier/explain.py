"""What became of a URL: seen before, queued, leased by whom, dead and why. Bounded: it looks at parts, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crawler.frontier.control import Control
from crawler.frontier.deadletters import DeadLetters
from crawler.frontier.message import SEED
from crawler.frontier.payload import PayloadError, url_of
from crawler.frontier.slot import host_of

if TYPE_CHECKING:
    from scrapy import Request

_PAGE = 500


@dataclass(slots=True)
class Explanation:
    """Where requests with the canonical URL `canonical` are. `notes` tell what was not looked at."""

    url: str
    canonical: str
    host: str
    seen: bool | None = None  # None: the dupefilter can't be asked
    queued: list[dict[str, Any]] = field(default_factory=list)
    leased: list[dict[str, Any]] = field(default_factory=list)
    dead: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def explain(
    control: Control,
    request: Request,
    canonical: Callable[[str], str],
    canonical_host: Callable[[str], str],
    seen: bool | None,
    limit: int = 10_000,
) -> Explanation:
    """Looks at the first `limit` requests of the host's queue, at as many leases and at the newest dead letters."""
    found = Explanation(request.url, canonical(request.url), host_of(request, canonical_host), seen)

    def same(url: str) -> bool:
        return canonical(url) == found.canonical

    def wanted(payload: bytes) -> bool:
        if payload.startswith(SEED):
            return False
        try:
            return same(url_of(payload))
        except PayloadError:
            return False

    shard = control.of(found.host)
    _look_at_queue(found, shard, limit, wanted)
    _look_at_leases(found, shard, limit, wanted)
    _look_at_letters(found, DeadLetters(control), limit, same)
    return found


def _look_at_queue(found: Explanation, control: Control, limit: int, wanted: Callable[[bytes], bool]) -> None:
    queue = f"{control.base}:queue:{found.host}"
    for name in (queue, *(f"{control.base}:pinned:{worker}:{found.host}" for worker in control.jar_holders())):
        for id_, _, place in _matches(control, name, limit, wanted):
            found.queued.append({"id": int(id_), "place": place, "deliveries": _deliveries(control, id_)})
    if (total := int(control.client.zcard(queue))) > limit:
        found.notes.append(f"looked at the first {limit} of the {total} requests queued for {found.host}")


def _look_at_leases(found: Explanation, control: Control, limit: int, wanted: Callable[[bytes], bool]) -> None:
    now = control.now()
    for id_, until, _ in _matches(control, control.key("leases"), limit, wanted):
        owner = control.client.hget(control.key("owners"), id_) or b""
        found.leased.append(
            {
                "id": int(id_),
                "worker": owner.split(b"\n")[0].decode(),
                "lease_ends_in": (until - now) / 1000,
                "deliveries": _deliveries(control, id_),
            }
        )


def _look_at_letters(found: Explanation, letters: DeadLetters, limit: int, same: Callable[[str], bool]) -> None:
    for number, letter in enumerate(letters()):
        if number >= limit:
            found.notes.append(f"looked at the newest {limit} dead letters")
            return
        if letter.seed == found.url or (letter.url and same(letter.url)):
            found.dead.append({"time": letter.time, "reason": letter.reason, "deliveries": letter.deliveries})


def _matches(
    control: Control, zset: str, limit: int, wanted: Callable[[bytes], bool]
) -> Iterator[tuple[bytes, float, int]]:
    """(request id, score, place from 1) of the requests in a sorted set whose payload is `wanted`."""
    for start in range(0, limit, _PAGE):
        page = control.client.zrange(zset, start, min(start + _PAGE, limit) - 1, withscores=True)
        if not page:
            return
        payloads = control.client.hmget(control.key("requests"), [id_ for id_, _ in page])
        for place, ((id_, score), payload) in enumerate(zip(page, payloads, strict=True), start=start + 1):
            if payload and wanted(payload):
                yield id_, score, place


def _deliveries(control: Control, id_: bytes) -> int:
    return int(control.client.hget(control.key("deliveries"), id_) or 0)
