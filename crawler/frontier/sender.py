"""Sends the exchange to one shard: to whichever server holds it, by the script's hash, and waits for replicas if
asked to.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crawler.frontier.message import Message
from crawler.frontier.quiet import NOT_QUIET
from crawler.frontier.script import Script
from crawler.frontier.seedmove import SeedMover
from crawler.nodes import Nodes

logger = logging.getLogger(__name__)

_WAIT_MS = 1000  # for replicas; meanwhile the worker's other news wait too


class Sender:
    """``await sender(message, sparing)`` → packed reply. `keys` are the script's, the first one tells the server.

    `scripts`: the exchange as it is, and the same for a server out of memory. `mover` brings seeds from another slot.
    """

    def __init__(
        self,
        nodes: Nodes,
        keys: Sequence[str],
        scripts: tuple[Script, Script],
        constants: dict[str, Any],
        mover: SeedMover | None = None,
    ) -> None:
        self._nodes, self._keys, self._scripts, self._constants = nodes, list(keys), scripts, constants
        self._mover = mover
        self._replicas: int = constants["replicas"]
        self._told = False
        self.safe = True  # the replicas have all that was written

    async def __call__(self, message: Message, sparing: bool) -> bytes:
        """One try. Raises redis-py's errors."""
        if self._mover is not None and (message.seeds or message.quiet != NOT_QUIET) and await self._mover.move():
            message = replace(message, quiet=NOT_QUIET)
        script, packed = self._scripts[sparing], message.pack(self._constants, drain=sparing)
        try:
            client = await self._nodes.client(self._keys[0])
            if not self._replicas or (self.safe and not message.outbox):
                reply: bytes = await script(client, self._keys, [packed])
                return reply
            self.safe = False
            reply, count = await script.replicated(client, self._keys, [packed], self._replicas, _WAIT_MS)
        except Exception as error:
            await self._nodes.failed(error)
            raise
        self.safe = count >= self._replicas
        self._tell(count)
        return reply

    def _tell(self, count: int) -> None:
        """Says once that replicas are missing, and when they are back."""
        if self.safe == self._told:
            self._told = not self.safe
            if self._told:
                logger.error(
                    "FRONTIER_WAIT_REPLICAS=%d, but %d of the replicas of %s answer: what is found is sent, and nothing"
                    " that depends on it is acknowledged until they do", self._replicas, count, self._keys[0],
                )  # fmt: skip
            else:
                logger.warning("The replicas of %s answer again", self._keys[0])
