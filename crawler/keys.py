"""The catalogue of every Redis key of the project. TAG and BASE are made here; what follows them, where it is used.

All keys of one shard begin with the hash tag ``{PREFIX:SCOPE:SHARD}``, so that one Lua call may touch them together on
Redis Cluster. SCOPE is the spider's name, or the name in ``DEDUP_SCOPE`` when several spiders share one memory of what
was seen; then the frontier's keys carry the spider's name after the tag.

==================== ======= =================================================================
key                  type    what it holds
==================== ======= =================================================================
TAG:dedup:meta       hash    what the dupefilter's memory is: kind, capacity, error rate, layers, count
TAG:dedup:ID:*       several its data, made when first used (see ``crawler/dedup/lua``); ID: when the memory was begun
TAG:history:dedup:*  several the Bloom history of a layered memory
TAG:wN:dedup:*       several generation N of a window
TAG:shards           string  number of shards (FRONTIER_SHARDS) that this data is spread over; only of shard 0, if not 1
TAG:audit*           several what the audit of canonical URLs found (see ``crawler/canonical/findings.py``)
BASE:meta            hash    versions, the run (number, name, state, times), counters, the start claim
BASE:runs            hash    finished run's name → when it finished (ms)
BASE:ready           zset    host → when it may be asked next (ms, server clock); only hosts with queued requests
BASE:queue:HOST      zset    request id → order (priority, then age)
BASE:requests        hash    request id → payload (queued and leased ones)
BASE:leases          zset    request id → when the lease ends (ms)
BASE:owners          hash    request id → worker that holds the lease, host, order, whether it counts in flight
BASE:deliveries      hash    request id → leases that ended without an ack (only ids that had one)
BASE:inflight        hash    host → leased requests of a host that has a delay, or a concurrency of its own
BASE:due             zset    host → next allowed time (ms) of a host with a delay, dropped once past
BASE:hosts           hash    host → what is special about it: set by a person, its Crawl-delay, its failures
BASE:robots:ORIGIN   string  a host's robots.txt (status, body), for ``FRONTIER_ROBOTS_TTL`` seconds
BASE:pages           hash    host → pages admitted in this run (``FRONTIER_HOST_MAX_PAGES``); endless calendar → same
BASE:workers         hash    worker → heartbeat (ms), busy flag, version, host and pid
BASE:replies         hash    worker → last exchange number and its reply (makes the exchange idempotent)
BASE:bye:WORKER      string  the same of a worker that said good-bye, for a minute
BASE:starts          set     fingerprints of this run's start requests
BASE:locals          hash    fingerprint of a request that only one worker can run → that worker
BASE:gone            set     queues of hosts that were given up, while they are moved to the dead letters
BASE:gone:QUEUE      zset    such a queue
BASE:pins            hash    request id → its cookie jar (this and the next four only with ``FRONTIER_PIN_COOKIEJARS``)
BASE:jars            hash    cookie jar → worker that holds it
BASE:holders         set     workers that have pinned queues
BASE:mine:WORKER     zset    host → when to look next into the worker's pinned queue of it
BASE:pinned:WORKER:HOST zset request id → order, of requests that only that worker may have
BASE:dead            stream  dead letters: reason, time, URL, deliveries, payload
BASE:seeds           list    on Redis Cluster: seeds that were moved here from the seed key, which has another slot
BASE:batches         zset    on Redis Cluster: batches of seeds that were moved lately → when (ms)
SEEDKEY:moving       hash    on Redis Cluster: a batch of seeds between the two, in the slot of the seed key
SPIDER:start_urls    any     seeds, as scrapy-redis names the key (``REDIS_START_URLS_KEY``)
SPIDER:items         list    items as JSON, only with ``REDIS_PIPELINE_ENABLED`` (``REDIS_ITEMS_KEY``)
==================== ======= =================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from crawler import config
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


MOST_SHARDS = 256
FRONTIER_TYPES = {  # of the keys below BASE that are one for a whole shard
    **dict.fromkeys(
        ("meta", "runs", "requests", "owners", "deliveries", "inflight", "hosts", "pages", "workers", "replies",
         "locals", "pins", "jars"), "hash",
    ),
    **dict.fromkeys(("ready", "leases", "due", "batches"), "zset"),
    **dict.fromkeys(("starts", "gone", "holders"), "set"),
    "dead": "stream", "seeds": "list",
}  # fmt: skip


def shards_of(settings: BaseSettings) -> int:
    """``FRONTIER_SHARDS``: how many shards the frontier is spread over."""
    return config.integer(settings, "FRONTIER_SHARDS", 1, low=1, high=MOST_SHARDS)


def shard_of(host: str, shards: int) -> int:
    """The shard, from 0, of a host's queue and of the pages seen there. A stored format: never to be changed."""
    return crc32(host.encode("utf-8", "surrogatepass")) % shards


class Keys(NamedTuple):
    """Names of one shard's keys. ``Keys("crawler", "books").frontier`` is ``{crawler:books:0}``."""

    prefix: str
    spider: str
    scope: str = ""
    shard: int = 0

    @classmethod
    def from_settings(cls, settings: BaseSettings, spider: str) -> Keys:
        """Keys of `spider`; reads ``REDIS_KEY_PREFIX`` and ``DEDUP_SCOPE``."""
        prefix = config.text(settings, "REDIS_KEY_PREFIX", "crawler")
        scope = config.text(settings, "DEDUP_SCOPE")
        if scope == "spider":  # the documented word for "each spider its own memory"
            scope = ""
        for name, value in (("REDIS_KEY_PREFIX", prefix), ("DEDUP_SCOPE", scope)):
            if set(value) & set("{}: \n"):
                raise ConfigError(name, repr(value), "must not contain braces, colons or white space")
        return cls(prefix, spider, scope)

    def spread(self, shards: int) -> list[Keys]:
        """The keys of each shard; the first one is the home of the run."""
        return [self._replace(shard=shard) for shard in range(shards)]

    @property
    def tag(self) -> str:
        """The hash tag that puts all keys of the shard on one node."""
        return f"{{{self.prefix}:{self.scope or self.spider}:{self.shard}}}"

    @property
    def dedup(self) -> str:
        """Base of the dupefilter's keys."""
        return self.tag

    @property
    def frontier(self) -> str:
        """Base of the frontier's keys."""
        return f"{self.tag}:{self.spider}" if self.scope else self.tag

    @property
    def audit(self) -> str:
        """Base of the keys of the audit of canonical URLs."""
        return f"{self.tag}:audit"


def moving_key(seed_key: str) -> str:
    """Where a batch of seeds stands on its way to another slot: in the slot of the seed key."""
    return f"{seed_key}:moving" if "{" in seed_key else f"{{{seed_key}}}:moving"
