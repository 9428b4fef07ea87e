"""Runs: joining the running crawl of a spider, or beginning the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from crawler.errors import ConfigError, StoredDataError
from crawler.frontier.script import Script, source
from crawler.keys import Keys
from crawler.nodes import Nodes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """The run a worker belongs to. `finished` only for a pinned run that is over already."""

    number: str
    name: str
    finished: bool = False


class Runs:
    """Joins or begins runs of one spider's frontier; `shards` are its keys, those of the run's home first."""

    def __init__(self, nodes: Nodes, shards: Sequence[Keys], worker: str, versions: str) -> None:
        self._nodes, self._shards, self._worker, self._versions = nodes, shards, worker, versions
        self._home = shards[0]
        self._join, self._adopt, self._retire = (Script(source(name)) for name in ("join", "adopt", "retire"))

    async def _call(self, pinned: str, empty: bool, emptied: bool) -> list[str]:
        flags: list[bytes | str] = [self._worker, pinned, self._versions, "01"[empty], "01"[emptied]]
        client, keys = await self._nodes.client(self._home.tag), [self._home.frontier, self._home.dedup]
        reply = await self._join(client, keys, [*flags, str(len(self._shards))])
        return [value.decode() if isinstance(value, bytes) else str(value) for value in reply]

    async def join(self, pinned: str, empty: bool, clear: Callable[[], Awaitable[None]]) -> Run:
        """Joins the running run, or begins the next; with `empty` a new run begins with nothing remembered.

        Raises ConfigError when another run than the pinned one is unfinished, StoredDataError when the stored frontier
        was written by other versions or has another number of shards.
        """
        emptied, tries, base = False, 0, self._home.frontier
        while True:
            what, number, name, queued, leased, versions, before, shards = await self._call(pinned, empty, emptied)
            if what == "clear":
                logger.info("Emptying the queue and the memory of what was seen for a new run")
                await clear()
                emptied = True
            elif what == "wait":
                await asyncio.sleep(0.2)
            elif what == "versions":
                raise StoredDataError(
                    f"The frontier {base} was written with {versions}, this worker has {self._versions}: the code or "
                    "the rules (crawler/rules.toml, CANONICAL_*) changed; run those that wrote it, begin anew with "
                    "`scrapy frontier flush SPIDER --yes` or keep both with another REDIS_KEY_PREFIX"
                )
            elif what == "shards":
                raise StoredDataError(
                    f"FRONTIER_SHARDS={len(self._shards)}: the data of {base} has {shards} for its life; "
                    f"set FRONTIER_SHARDS={shards}, or begin anew with `scrapy frontier flush SPIDER --yes`"
                )
            elif what == "other":
                raise ConfigError(
                    "FRONTIER_RUN", pinned, f"run {name} is not finished; go on with FRONTIER_RUN={name}, "
                    "or give it up with `scrapy frontier flush SPIDER --yes`"
                )  # fmt: skip
            elif what == "finished" or await self._adopted(number, name, tries):
                self._tell(what, name, queued, leased, before, empty)
                return Run(number, name, finished=what == "finished")
            else:
                tries += 1

    async def _adopted(self, number: str, name: str, tries: int) -> bool:
        """Makes the run that of the other shards too; False when a later one has begun there meanwhile."""
        for keys in self._shards[1:]:
            client = await self._nodes.client(keys.tag)
            found = await self._adopt(client, [keys.frontier], [number, name, self._versions])
            if int(found) != int(number):
                if tries:
                    raise StoredDataError(
                        f"{keys.frontier} has run {int(found)}, {self._home.frontier} only {number}: "
                        "that one lost data; restore it, or begin anew with `scrapy frontier flush SPIDER --yes`"
                    )
                return False
        return True

    async def retire(self, run: Run, clear: Callable[[], Awaitable[None]]) -> None:
        """Empties the memory of a finished run: by one worker, and never that of a run begun since."""
        client, base = await self._nodes.client(self._home.tag), self._home.frontier
        if await self._retire(client, [base], [self._worker, run.number, "0"]):
            await clear()
            await self._retire(client, [base], [self._worker, run.number, "1"])
            logger.info("Run %s is finished: what it kept is freed (SCHEDULER_PERSIST=0)", run.name)

    def _tell(self, what: str, name: str, queued: str, leased: str, before: str, empty: bool) -> None:
        if what == "finished":
            logger.info("Run %s is finished: nothing to do. Set FRONTIER_RUN to another name to crawl again", name)
        elif what == "joined":
            logger.info("Joined run %s as %s: %s queued, %s leased", name, self._worker, queued, leased)
        elif before and not empty:
            logger.info(
                "Began run %s as %s. It keeps the memory of what earlier runs saw: only new pages are fetched, besides "
                "the start requests (SCHEDULER_FLUSH_ON_START=1 begins empty)", name, self._worker,
            )  # fmt: skip
        else:
            logger.info("Began run %s as %s", name, self._worker)
