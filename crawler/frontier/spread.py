"""The control of a frontier that is spread over shards: each is asked, and what can be counted is added up."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

from crawler.frontier.control import Control, HostRow
from crawler.frontier.seedkey import SeedKey
from crawler.keys import Keys, shard_of, shards_of
from crawler.nodes import node_of

if TYPE_CHECKING:
    import redis
    from scrapy.settings import BaseSettings

_SUMS = ("queued", "leased", "dead", "done", "hosts_queued", "hosts_due", "hosts_busy")


def stored_shards(client: redis.Redis, keys: Keys, settings: BaseSettings) -> int:
    """Number of shards that there are; ``FRONTIER_SHARDS`` where there is nothing yet."""
    node: Any = node_of(client, keys.tag)
    if stored := node.get(f"{keys.tag}:shards"):
        return int(stored)
    written = node.hexists(f"{keys.frontier}:meta", "versions") or node.exists(f"{keys.dedup}:dedup:meta")
    return 1 if written else shards_of(settings)


def control_of(client: redis.Redis, shards: Sequence[Keys], seeds: SeedKey) -> Control:
    """The control of a frontier; `client` may be a cluster's."""
    parts = [Control(node_of(client, keys.tag), keys.frontier, seeds, client) for keys in shards]
    return parts[0] if len(parts) == 1 else SpreadControl(parts)


class SpreadControl(Control):
    """Several shards, each under its own control; itself it is that of the run's home."""

    def __init__(self, parts: Sequence[Control]) -> None:
        home = parts[0]
        super().__init__(home.client, home.base, home.seeds, home.whole)
        self._parts = parts

    @property
    def parts(self) -> Sequence[Control]:
        """See :class:`Control`."""
        return self._parts

    def of(self, host: str) -> Control:
        """See :class:`Control`."""
        return self._parts[shard_of(host, len(self._parts))]

    def status(self) -> dict[str, Any]:
        """The frontier in numbers."""
        facts = [part.status() for part in self._parts]
        total = dict(facts[0])
        for name in _SUMS:
            total[name] = sum(one[name] for one in facts)
        total["memory_full"] = any(one["memory_full"] for one in facts)
        total["overdue_seconds"] = max(one["overdue_seconds"] for one in facts)
        for name in ("next_due_seconds", "idle_seconds"):
            total[name] = min((one[name] for one in facts if one[name] is not None), default=None)
        return total

    def hosts(self, limit: int) -> list[HostRow]:
        """At most `limit` hosts: the busy ones, then those with queued requests by their turn."""
        rows = merge(*(part.hosts(limit) for part in self._parts), key=_turn)
        return list(islice(rows, limit))

    def host(self, host: str, **changes: int | bool) -> dict[str, Any]:
        """See :class:`Control`."""
        return self.of(host).host(host, **changes)

    def flush(self, keep_versions: bool = False) -> int:
        """See :class:`Control`. The home's run is void first: nobody can begin one with an older number elsewhere."""
        dropped = sum(part.held() for part in self._parts)
        while True:
            number = self.void(keep_versions)
            for part in self._parts[1:]:
                if part.void(keep_versions, number):
                    part.delete(number)
            if self.delete(number):
                return dropped


def _turn(row: HostRow) -> float:
    return -1.0 if row.due_in is None else row.due_in
