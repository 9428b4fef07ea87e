"""Is the server there, new enough and safe to use? Asked once, when something starts; the answer is one line."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import redis

from crawler.connection.address import is_cluster, masked, resolve_url, strip
from crawler.connection.clients import sync_client
from crawler.errors import ConfigError, ServerError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_LOADING_SECONDS = 60.0
_OLDEST = (7, 0)  # scripts with flags, and function-safe cmsgpack


def check(settings: BaseSettings) -> None:
    """Ask the server once whether it is there, new enough and safe to use; ServerError says what to do if not.

    Blocks for at most the time-outs (a server that still loads its data: a minute). Warns when it may evict keys.
    """
    url = resolve_url(settings)
    with _made(settings) as client:
        try:
            for node in _masters(client):
                _wait_until_loaded(node)
                _check_info(settings, url, {**node.info("server"), **node.info("memory")})
        except redis.exceptions.AuthenticationError as error:
            raise ServerError(f"{masked(url)} refuses the login ({_reason(error)}): correct the password") from None
        except redis.exceptions.NoPermissionError:
            logger.debug("the server hides INFO: version and maxmemory-policy were not checked")
            return
        except redis.exceptions.ResponseError as error:
            raise ServerError(f"{masked(url)} cannot be used ({_reason(error)}): correct REDIS_URL") from None
        except (redis.RedisError, OSError) as error:
            raise no_answer(settings, error) from None


def no_answer(settings: BaseSettings, error: Exception) -> ServerError:
    """The one line for a server that did not answer: its address, why, and what to do."""
    return ServerError(f"{masked(resolve_url(settings))} does not answer ({_reason(error)}): {_remedy(settings)}")


@contextlib.contextmanager
def _made(settings: BaseSettings) -> Iterator[redis.Redis]:
    """A client; one of a cluster connects when it is made."""
    try:
        client = sync_client(settings)
    except redis.exceptions.ConnectionError as error:
        raise no_answer(settings, error) from None
    with client:
        yield client


def _masters(client: Any) -> list[redis.Redis]:
    """Clients of the servers that hold data; of a cluster those that can be reached."""
    if not isinstance(client, redis.RedisCluster):
        return [client]
    found = []
    for node in client.get_primaries():  # type: ignore[no-untyped-call]
        one = client.get_redis_connection(node)
        try:
            one.ping()
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            continue  # being replaced by its replica
        found.append(one)
    return found


def _wait_until_loaded(client: redis.Redis) -> None:
    deadline = time.monotonic() + _LOADING_SECONDS
    while True:
        try:
            client.ping()
            return
        except redis.exceptions.BusyLoadingError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _check_info(settings: BaseSettings, url: str, info: dict[str, Any]) -> None:
    if "cluster" in (info.get("redis_mode"), info.get("server_mode")) and not is_cluster(settings):
        raise ConfigError("REDIS_CLUSTER", 0, f"{masked(url)} is a node of a Redis Cluster: set REDIS_CLUSTER=1")
    version = str(info.get("redis_version", ""))
    if (numbers := tuple(int(part) for part in version.split(".")[:2] if part.isdigit())) and numbers < _OLDEST:
        raise ServerError(f"{masked(url)} is Redis {version}: the project needs Redis 7.0 or later, or Valkey")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        logger.warning(
            "%s has maxmemory-policy %s: when it is full it deletes queued requests; set maxmemory-policy noeviction",
            masked(url), policy,
        )  # fmt: skip


def _reason(error: BaseException) -> str:
    """What went wrong in a few words: redis-py's text without the address it repeats."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(error).split("\n")[0].rstrip(".") or type(error).__name__


def _remedy(settings: BaseSettings) -> str:
    if strip(settings.get("REDIS_URL")):
        return "start a server there, correct REDIS_URL, or unset REDIS_URL to use an embedded server"
    if strip(settings.get("REDIS_HOST")):
        return "start a server there, or correct REDIS_HOST and REDIS_PORT"
    return "the embedded server may have been killed, start again; its log is server.log beside its socket"
