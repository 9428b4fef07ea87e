"""Runs: joining the running crawl of a spider, or beginning the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.asyncio import Redis

from crawler.errors import ConfigError, StoredDataError
from crawler.frontier.script import Script, source

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """The run a worker belongs to. `finished` only for a pinned run that is over already."""

    number: str
    name: str
    finished: bool = False


class Runs:
    """Joins or begins runs of one spider's frontier."""

    def __init__(self, client: Redis, base: str, worker: str, versions: str) -> None:
        self._client, self._base, self._worker, self._versions = client, base, worker, versions
        self._script, self._retire = Script(source("join")), Script(source("retire"))

    async def _call(self, pinned: str, empty: bool, emptied: bool) -> list[str]:
        flags: list[bytes | str] = [self._worker, pinned, self._versions, "01"[empty], "01"[emptied]]
        reply = await self._script(self._client, [self._base], flags)
        return [value.decode() if isinstance(value, bytes) else str(value) for value in reply]

    async def join(self, pinned: str, empty: bool, clear: Callable[[], Awaitable[None]]) -> Run:
        """Joins the running run, or begins the next; with `empty` a new run begins with nothing remembered.

        Raises ConfigError when another run than the pinned one is unfinished, StoredDataError when the stored frontier
        was written by other versions.
        """
        emptied = False
        while True:
            what, number, name, queued, leased, versions, before = await self._call(pinned, empty, emptied)
            if what == "clear":
                logger.info("Emptying the queue and the memory of what was seen for a new run")
                await clear()
                emptied = True
            elif what == "wait":
                await asyncio.sleep(0.2)
            elif what == "versions":
                raise StoredDataError(
                    f"The frontier {self._base} was written with {versions}, this worker has {self._versions}: "
                    "run the version and the rules that wrote it, begin anew with `scrapy frontier flush SPIDER --yes` "
                    "or keep both with another REDIS_KEY_PREFIX"
                )
            elif what == "other":
                raise ConfigError(
                    "FRONTIER_RUN", pinned, f"run {name} is not finished; go on with FRONTIER_RUN={name}, "
                    "or give it up with `scrapy frontier flush SPIDER --yes`"
                )  # fmt: skip
            else:
                self._tell(what, name, queued, leased, before, empty)
                return Run(number, name, finished=what == "finished")

    async def retire(self, run: Run, clear: Callable[[], Awaitable[None]]) -> None:
        """Empties the memory of a finished run: by one worker, and never that of a run begun since."""
        if await self._retire(self._client, [self._base], [self._worker, run.number, "0"]):
            await clear()
            await self._retire(self._client, [self._base], [self._worker, run.number, "1"])
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
