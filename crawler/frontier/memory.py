"""The dupefilter as the frontier uses it: ours by their Lua, inside the exchange; any other by asking it in Python."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.utils.misc import build_from_crawler, load_object

from crawler import config, connection
from crawler.nodes import node_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

NO_DEDUP = """
local function dedup_open() return {epoch = ''} end
local function dedup_add() return 1 end
local function dedup_add_all(_, items)
  for i = 1, #items do items[i] = 1 end
  return items
end
local function dedup_forget() return -1 end
local function dedup_close() end
"""


class Memory:
    """``DUPEFILTER_CLASS`` of a crawler; `bases` are those of the dupefilter's keys, one per shard."""

    def __init__(self, crawler: Crawler, bases: Sequence[str], shared: bool = False) -> None:
        self._crawler, self._bases, self._shared = crawler, bases, shared
        self._dupefilter: Any = build_from_crawler(load_object(crawler.settings["DUPEFILTER_CLASS"]), crawler)
        self._in_lua = hasattr(self._dupefilter, "admission")

    async def open(self) -> None:
        """Makes or checks what is stored. Raises StoredDataError, ConfigError."""
        if self._in_lua:
            await self._beside_reactor("prepare")
        if config.flag(self._crawler.settings, "DEDUP_FORGET_FAILED", False) and not self._forgets:
            logger.warning(
                "DEDUP_FORGET_FAILED=1 changes nothing with %s, which cannot forget one page: take CompactDupeFilter, "
                "ExactDupeFilter or LayeredDupeFilter of crawler.dedup", self._crawler.settings["DUPEFILTER_CLASS"],
            )  # fmt: skip
        if self._in_lua:
            return
        if hasattr(self._dupefilter, "open"):
            self._dupefilter.open()
        logger.warning(
            "%s answers in Python, one request at a time, before the frontier queues: it may block, what it has seen "
            "is lost if this worker dies before it is queued, and a filter that lives in one process lets every worker "
            "fetch every page", self._crawler.settings["DUPEFILTER_CLASS"],
        )  # fmt: skip

    async def clear(self) -> None:
        """Forgets everything, if the dupefilter can and no other spider shares it."""
        if self._shared:
            logger.warning(
                "What was seen is kept: DEDUP_SCOPE=%s shares it with other spiders (scrapy dedup clear empties it)",
                self._crawler.settings["DEDUP_SCOPE"],
            )
            return
        await self._beside_reactor("clear")

    def close(self, reason: str) -> None:
        """The spider is closed."""
        if hasattr(self._dupefilter, "close"):
            self._dupefilter.close(reason)

    def admission(self) -> Any:
        """The :class:`crawler.dedup.Admission` of ours, None for any other."""
        return self._dupefilter.admission(self._bases[0]) if self._in_lua else None

    @property
    def _forgets(self) -> bool:
        """Whether it can forget one page; an admission that does not say so is taken to."""
        return self._in_lua and getattr(self.admission(), "forgets", True)

    def seen(self, request: Request) -> bool:
        """What a dupefilter in Python says; ours say nothing here."""
        if self._in_lua or not self._dupefilter.request_seen(request):
            return False
        self._dupefilter.log(request, self._crawler.spider)
        return True

    async def _beside_reactor(self, method: str) -> None:
        """Calls a blocking method of the dupefilter in a thread, for each shard."""
        function = getattr(self._dupefilter, method, None)
        if function is None:
            return

        def call() -> None:
            with connection.sync_client(self._crawler.settings) as client:
                for base in self._bases:
                    function(node_of(client, base), base)

        await asyncio.to_thread(call)
