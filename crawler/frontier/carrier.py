"""What sends a worker's messages: the exchange's script with the dupefilter's in front, to one shard or to several."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import scrapy

from crawler import connection
from crawler.frontier.fed import feed_key, idle_seconds
from crawler.frontier.memory import NO_DEDUP
from crawler.frontier.policy import Policy
from crawler.frontier.script import Script, source
from crawler.frontier.seedmove import SeedMover
from crawler.frontier.sender import Sender
from crawler.frontier.shards import Shards
from crawler.keys import Keys
from crawler.nodes import Nodes

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings


def carrier(
    nodes: Nodes, settings: BaseSettings, spider: Spider, policy: Policy, shards: Sequence[Keys], admission: Any,
    odd_seeds: Callable[[str], None],
) -> Sender | Shards:  # fmt: skip
    """To the only shard, or apart to several. `odd_seeds` hears of a seed key of a wrong type in another slot."""
    seed_key, fed = feed_key(spider, settings)
    idle = idle_seconds(spider, settings)
    text = (admission.lua if admission else NO_DEDUP) + "\n" + source("exchange")
    scripts = Script("#!lua\n" + text), Script("#!lua flags=allow-oom\n" + text)
    info = f"{platform.node()} {os.getpid()} scrapy={scrapy.__version__}"
    constants = policy.constants(admission.config() if admission else {}, info, fed, idle)
    mover = None
    if connection.is_cluster(settings):
        base = shards[0].frontier
        mover = SeedMover(nodes, seed_key, base, policy.replicas)
        mover.look = odd_seeds
        seed_key = f"{base}:seeds"
    senders = [
        Sender(
            nodes, [keys.frontier, keys.dedup, f"{keys.frontier}:seeds" if keys.shard else seed_key],
            scripts, constants, None if keys.shard else mover,
        )
        for keys in shards
    ]  # fmt: skip
    if policy.together:
        return senders[0]
    return Shards(senders, lambda shard: senders[shard].safe, round(1000 * idle) if fed else None)
