"""Settings of scrapy-redis and scrapy-redis-bloomfilter that a moved project still has: mapped, named, or refused."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crawler import config
from crawler.dedup.sizing import minimum_bits
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_OURS = {
    "SCHEDULER": "crawler.frontier.Scheduler",
    "DUPEFILTER_CLASS": "crawler.dedup.BloomDupeFilter",
    "SCHEDULER_DUPEFILTER_CLASS": "crawler.dedup.BloomDupeFilter as DUPEFILTER_CLASS",
    "SCHEDULER_QUEUE_CLASS": "FRONTIER_ORDER=priority, fifo or lifo",
}
_UNUSED = {  # scrapy-redis's settings that mean nothing to our scheduler → what to do
    "SCHEDULER_QUEUE_CLASS": "set FRONTIER_ORDER to priority, fifo or lifo instead",
    "SCHEDULER_QUEUE_KEY": "set REDIS_KEY_PREFIX instead",
    "SCHEDULER_SERIALIZER": "remove it (requests are stored as data, see docs/requests.md)",
    "SCHEDULER_IDLE_BEFORE_CLOSE": "set FRONTIER_IDLE instead",
    "SCHEDULER_DUPEFILTER_CLASS": "set DUPEFILTER_CLASS instead",
    "DUPEFILTER_KEY": "set DEDUP_SCOPE instead",
    "REDIS_ENCODING": "remove it (seeds are UTF-8)",
}


def refuse(settings: BaseSettings) -> None:
    """Raises ConfigError for a class of scrapy-redis-bloomfilter."""
    for name, ours in _OURS.items():
        if str(settings.get(name) or "").startswith("scrapy_redis_bloomfilter."):
            remedy = f"is scrapy-redis-bloomfilter's; use {ours} (docs/migrating.md)"
            raise ConfigError(name, settings[name], remedy)


def warn(settings: BaseSettings) -> None:
    """Logs one line for each setting that is there and has no effect; it names what has."""
    if not str(settings["SCHEDULER"]).startswith("crawler."):
        return
    for name, remedy in _UNUSED.items():
        if settings.get(name):
            logger.warning("%s has no effect on the shared frontier: %s; see docs/migrating.md", name, remedy)
    if settings.get("BLOOMFILTER_BIT"):
        bits = config.integer(settings, "BLOOMFILTER_BIT", 30, low=1, high=40)
        rate = config.number(settings, "BLOOM_ERROR_RATE", 1e-6)
        logger.warning(
            "BLOOMFILTER_BIT=%d has no effect: set BLOOM_CAPACITY and BLOOM_ERROR_RATE instead; "
            "2^%d bits are room for about %.2g pages at an error rate of %g, see docs/migrating.md",
            bits, bits, 2**bits / minimum_bits(rate), rate,
        )  # fmt: skip
