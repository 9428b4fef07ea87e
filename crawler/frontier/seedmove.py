"""Seeds on Redis Cluster: their key lies in another slot than the frontier, so no script can take them from there.

A batch is first set aside beside the seed key, then added to the frontier's own list, then removed where it was set
aside. Each step is one script and may be repeated: a batch that stands aside is taken up again by whoever comes next,
and the frontier adds a batch once, by its number. So no crash and no lost reply at any point loses or doubles a seed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from redis.exceptions import RedisError

from crawler.frontier.script import Script, source
from crawler.keys import moving_key
from crawler.nodes import Nodes

logger = logging.getLogger(__name__)

_EVERY = 0.2  # seconds between two looks at a seed key that was empty
_ENOUGH = 256  # seeds in the frontier's list: few, so that those of a sorted set keep their order


class SeedMover:
    """Moves seeds from `seed_key` to the list `base`:seeds."""

    def __init__(
        self, nodes: Nodes, seed_key: str, base: str, replicas: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._nodes, self._clock, self._replicas = nodes, clock, replicas
        self._source = [seed_key, moving_key(seed_key)]
        self._target = [f"{base}:seeds", f"{base}:batches"]
        self._take, self._put = Script(source("seeds_take")), Script(source("seeds_put"))
        self._looked, self._waiting, self._failed = float("-inf"), True, False
        self.look: Callable[[str], None] = lambda kind: None  # hears the type of a key that is none for seeds, or ""

    async def move(self) -> bool:
        """Moves a batch if the list has room. True while seeds may wait outside of the frontier."""
        if self._clock() - self._looked < _EVERY and not self._waiting:
            return False
        try:
            self._waiting = await self._move()
            self._failed = False
        except (RedisError, OSError) as error:
            await self._nodes.failed(error)
            if not self._failed:
                logger.error("Seeds of %s can't be taken for now (%s): trying again", self._source[0], error)
            self._failed = self._waiting = True
        self._looked = self._clock()
        return self._waiting

    async def _move(self) -> bool:
        target = await self._nodes.client(self._target[0])
        room = _ENOUGH - int(await target.llen(self._target[0]))
        outside = await self._nodes.client(self._source[0])
        batch = await self._take(outside, self._source, [str(max(0, room))])
        if not batch:
            self.look("")
            return False
        number, *seeds = batch
        if number == b"odd":
            self.look(seeds[0].decode())
            return False
        self.look("")
        if not seeds:  # there are some, but no room
            return True
        if self._replicas:
            await self._put.replicated(target, self._target, [number, *seeds], self._replicas, 1000, strict=True)
        else:
            await self._put(target, self._target, [number, *seeds])
        await self._take(outside, self._source, ["done", number])
        return True
