"""What Redis's refusal means for a worker or a command, in one line: who does not answer, which key is of a wrong type.

A script that meets a key of another type than its own tells no name; here the keys are looked through for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawler import connection
from crawler.errors import CrawlerError, ServerError, StoredDataError
from crawler.keys import FRONTIER_TYPES, Keys
from crawler.nodes import node_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_GONE = (RedisConnectionError, RedisTimeoutError, ConnectionError)
_QUEUES = ("queue:", "pinned:", "mine:", "gone:")  # one for each host or worker, all sorted sets
_OTHERS = ("string", "list", "set", "hash", "stream")


def refusal(settings: BaseSettings, shards: Sequence[Keys], error: BaseException) -> CrawlerError | None:
    """The line for an error of Redis's, None for any other. Blocks: it may look at the keys of the `shards`."""
    if isinstance(error, _GONE):
        return connection.no_answer(settings, error)
    if isinstance(error, OutOfMemoryError):
        return ServerError(f"Redis is full, nobody can join: raise its maxmemory ({error})")
    if not isinstance(error, ResponseError):
        return None
    if is_wrong_type(error):
        try:
            with connection.sync_client(settings) as client:
                return wrong_type(client, shards)
        except (redis.RedisError, OSError) as other:
            error = other
    return CrawlerError(f"The frontier {shards[0].frontier} refuses this worker: {error}")


def is_wrong_type(error: BaseException) -> bool:
    """Whether a command or script met a key of another type than it expects."""
    return isinstance(error, ResponseError) and "WRONGTYPE" in str(error)


def wrong_type(client: redis.Redis, shards: Sequence[Keys]) -> StoredDataError:
    """Names the first key that is not of its type. Looks through all queues, so for errors only."""
    for keys in shards:
        for key, found, wanted in _misfits(node_of(client, keys.tag), keys):
            types = " in Redis, not ".join(
                "a sorted set" if kind == "zset" else f"a {kind}" for kind in (found, wanted)
            )
            return StoredDataError(
                f"{key} is {types}: something else wrote it; rename or delete that key and start again, or choose "
                "another REDIS_KEY_PREFIX"
            )
    return StoredDataError(
        f"A key that begins with {shards[0].tag} is not of the type it should have (docs/redis-keys.md): delete it, "
        "or choose another REDIS_KEY_PREFIX"
    )


def _misfits(client: Any, keys: Keys) -> Iterator[tuple[str, str, str]]:
    """(key, its type, the type it should have)."""
    fixed = {f"{keys.frontier}:{name}": kind for name, kind in FRONTIER_TYPES.items()}
    fixed[f"{keys.dedup}:dedup:meta"] = "hash"
    pipe = client.pipeline(transaction=False)
    for key in fixed:
        pipe.type(key)
    for (key, wanted), found in zip(fixed.items(), pipe.execute(), strict=True):
        if found.decode() not in ("none", wanted):
            yield key, found.decode(), wanted
    for name in _QUEUES:
        for kind in _OTHERS:
            for key in client.scan_iter(f"{keys.frontier}:{name}*", count=10_000, _type=kind):
                yield key.decode(errors="replace"), kind, "zset"
