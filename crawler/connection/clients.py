"""The one place that makes Redis clients, and gives each command one try.

redis-py 8 sends a command again when its reply was lost (ten times by default). For a command that tests and sets, the
second answer is "already there", caused by the first: a page is taken for seen that nobody has queued. So every client
from here gives a command one try; who may try again is decided where the command's meaning is known.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from crawler import config
from crawler.connection.address import addresses, is_cluster, masked, own_server, parse, raw_params, resolve_url
from crawler.connection.revive import AsyncEmbeddedConnection, EmbeddedConnection
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_SOCKET_SECONDS, _CONNECT_SECONDS = 5.0, 2.0
_ADDRESS_PARAMS = {"url", "host", "port", "db", "ssl"}  # in REDIS_PARAMS, as scrapy-redis allows
_ONE_TRY = "a command is sent once, see crawler/connection/clients.py"
_OURS = {  # REDIS_PARAMS that cannot be granted: name → why
    "retry": _ONE_TRY,
    "retry_on_timeout": _ONE_TRY,
    "retry_on_error": _ONE_TRY,
    "decode_responses": "the project reads raw bytes",
}
_TCP_ONLY = {"socket_keepalive", "socket_keepalive_options", "socket_type"}
_ASYNC_CLASSES: dict[type, type] = {
    EmbeddedConnection: AsyncEmbeddedConnection,
    redis.Connection: redis.asyncio.Connection,
    redis.SSLConnection: redis.asyncio.SSLConnection,
    redis.UnixDomainSocketConnection: redis.asyncio.UnixDomainSocketConnection,
}
_warned: set[str] = set()


def sync_client(settings: BaseSettings, **overrides: Any) -> redis.Redis:
    """A blocking client (bytes in and out, one try). `overrides` are redis-py's client arguments and win over all.

    Of a cluster it is a RedisCluster: ask :func:`crawler.nodes.node_of` for the client of a key, and use that.
    """
    kwargs, held = _client_kwargs(settings, overrides)
    retry = Retry(NoBackoff(), 0)
    if is_cluster(settings):
        return cast("redis.Redis", _sync_cluster(settings, _cluster_kwargs(kwargs) | {"retry": retry}))
    if sentinels := addresses(settings, "REDIS_SENTINELS"):
        manager = redis.sentinel.Sentinel(sentinels, sentinel_kwargs=_sentinel_kwargs(settings, retry))  # type: ignore[no-untyped-call]
        name, kwargs = _sentinel_master(kwargs)
        pool: redis.ConnectionPool = redis.sentinel.SentinelConnectionPool(name, manager, **kwargs, retry=retry)  # type: ignore[no-untyped-call]
    else:
        pool = redis.ConnectionPool(**kwargs, retry=retry)
        _check_kwargs(pool)
    client = redis.Redis(connection_pool=pool, single_connection_client=held)
    client.auto_close_connection_pool = True  # the pool is ours alone: closing the client closes it
    return client


def async_client(settings: BaseSettings, **overrides: Any) -> redis.asyncio.Redis:
    """The same for asyncio. Await its ``aclose()``. Of a cluster: :func:`async_cluster`."""
    kwargs, held = _client_kwargs(settings, overrides)
    retry = AsyncRetry(NoBackoff(), 0)
    if sentinels := addresses(settings, "REDIS_SENTINELS"):
        manager = redis.asyncio.sentinel.Sentinel(sentinels, sentinel_kwargs=_sentinel_kwargs(settings, retry))  # type: ignore[no-untyped-call]
        name, kwargs = _sentinel_master(kwargs)
        pool: redis.asyncio.ConnectionPool = redis.asyncio.sentinel.SentinelConnectionPool(  # type: ignore[no-untyped-call]
            name, manager, **kwargs, retry=retry
        )
    else:
        kwargs["connection_class"] = _ASYNC_CLASSES[kwargs.pop("connection_class", redis.Connection)]
        pool = redis.asyncio.ConnectionPool(**kwargs, retry=retry)
        _check_kwargs(pool)
    client = redis.asyncio.Redis(connection_pool=pool, single_connection_client=held)
    client.auto_close_connection_pool = True
    return client


def node_client(settings: BaseSettings, host: str, port: int) -> redis.asyncio.Redis:
    """An asyncio client of one node of the cluster; it follows no redirection."""
    return async_client(settings, host=host, port=port)


def async_cluster(settings: BaseSettings, known: Iterable[tuple[str, int]] = ()) -> redis.asyncio.RedisCluster:
    """An asyncio client of the whole cluster, which asks one of the settings' or the `known` nodes who is in it."""
    kwargs = _cluster_kwargs(_client_kwargs(settings, {})[0])
    nodes = [*addresses(settings, "REDIS_CLUSTER_NODES"), *known]
    startup = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in nodes]
    return redis.asyncio.RedisCluster(
        **kwargs, startup_nodes=startup, require_full_coverage=False, retry=AsyncRetry(NoBackoff(), 0)
    )


# Arguments ------------------------------------------------------------------------------------------------------------


def _client_kwargs(settings: BaseSettings, overrides: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Arguments of a pool (later ones win: ours, REDIS_PARAMS, the URL, `overrides`)."""
    own = own_server(settings)
    url = parse(own or resolve_url(settings))
    if not own:
        url["connection_class"] = EmbeddedConnection
    params = {name: value for name, value in raw_params(settings).items() if name not in _ADDRESS_PARAMS}
    for name in sorted(_OURS.keys() & (params.keys() | url.keys())):
        _warn_once(f"REDIS_PARAMS: {name} is ignored: {_OURS[name]}")
        params.pop(name, None)
        url.pop(name, None)
    if settings.get("REDIS_DB") and "db" not in url:
        url["db"] = config.integer(settings, "REDIS_DB", 0)
    kwargs: dict[str, Any] = {**_patience(settings, params | url), **params, **url, **overrides}
    if "path" in kwargs:
        kwargs = {name: value for name, value in kwargs.items() if name not in _TCP_ONLY}
    # Maintenance notifications are a service of Redis Cloud; asking for them costs each connection a round trip.
    kwargs["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    return kwargs, bool(kwargs.pop("single_connection_client", False))


def _patience(settings: BaseSettings, own: dict[str, Any]) -> dict[str, float]:
    """How long to wait for the server: a lost reply must be noticed in time to renew leases (every third of one)."""
    lease = config.number(settings, "FRONTIER_LEASE", 120, low=1)
    for name in ("socket_timeout", "socket_connect_timeout"):
        if isinstance(seconds := own.get(name), int | float) and seconds > lease / 3:
            _warn_once(
                f"REDIS_PARAMS: {name}={seconds:g} is more than a third of FRONTIER_LEASE={lease:g}: when a reply is "
                "lost, what this worker holds may be fetched by another as well; lower it, or raise FRONTIER_LEASE"
            )
    return {
        "socket_timeout": min(_SOCKET_SECONDS, lease / 3), "socket_connect_timeout": min(_CONNECT_SECONDS, lease / 3),
    }  # fmt: skip


def _check_kwargs(pool: redis.ConnectionPool | redis.asyncio.ConnectionPool) -> None:
    """Redis-py looks at the arguments when it connects; a misspelt one should stop the start."""
    try:
        pool.connection_class(**pool.connection_kwargs)
    except TypeError as error:
        name = re.search(r"argument '(\w+)'", str(error))
        raise ConfigError("REDIS_PARAMS", name[1] if name else "(hidden)", "redis-py has no such argument") from None


def _cluster_kwargs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a cluster's client from those of a pool."""
    if kwargs.pop("db", 0) or "path" in kwargs:
        raise ConfigError("REDIS_CLUSTER", 1, "a cluster has TCP ports and database 0 only: correct REDIS_URL")
    if kwargs.pop("connection_class", None) is redis.SSLConnection:
        kwargs["ssl"] = True
    return kwargs


def _sync_cluster(settings: BaseSettings, kwargs: dict[str, Any]) -> Any:
    nodes = [redis.cluster.ClusterNode(*address) for address in addresses(settings, "REDIS_CLUSTER_NODES")]  # type: ignore[no-untyped-call]
    try:
        return redis.RedisCluster(**kwargs, startup_nodes=nodes, require_full_coverage=False)
    except redis.exceptions.RedisClusterException as error:  # no RedisError
        if "not enabled" in str(error):
            raise ConfigError("REDIS_CLUSTER", 1, f"{masked(resolve_url(settings))} is no Redis Cluster") from None
        raise redis.exceptions.ConnectionError(str(error)) from error


def _sentinel_kwargs(settings: BaseSettings, retry: Retry | AsyncRetry) -> dict[str, Any]:
    try:
        own = settings.getdict("REDIS_SENTINEL_PARAMS")
    except (ValueError, TypeError):
        remedy = 'must be a dict or a JSON object, e.g. {"password": "..."}'
        raise ConfigError("REDIS_SENTINEL_PARAMS", "(hidden)", remedy) from None
    return {"socket_timeout": _CONNECT_SECONDS, "socket_connect_timeout": _CONNECT_SECONDS, **own, "retry": retry}


def _sentinel_master(kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name that the sentinels know the master by (the host in the settings), and the pool's arguments."""
    if "path" in kwargs:
        raise ConfigError(
            "REDIS_SENTINELS", "(set)", "needs the master's name as the host: REDIS_URL=redis://mymaster/0"
        )
    tls = kwargs.get("connection_class") is redis.SSLConnection
    rest = {name: value for name, value in kwargs.items() if name not in ("host", "port", "connection_class")}
    return str(kwargs["host"]), rest | ({"ssl": True} if tls else {})


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        logger.warning(message)
