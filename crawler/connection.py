"""The one place that makes Redis clients: where the server is, how long to wait for it, and never a silent retry.

redis-py 8 sends a command again when its reply was lost (ten times by default). For a command that tests and sets, the
second answer is "already there", caused by the first: a page is taken for seen that nobody has queued. So every client
from here gives a command one try; who may try again is decided where the command's meaning is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from crawler import config, embedded
from crawler.errors import ConfigError, ServerError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_SOCKET_SECONDS, _CONNECT_SECONDS, _LOADING_SECONDS = 5.0, 2.0, 60.0
_SCHEMES = ("redis", "rediss", "unix")
_ADDRESS_PARAMS = {"url", "host", "port", "db", "ssl"}  # in REDIS_PARAMS, as scrapy-redis allows
_OURS = {  # REDIS_PARAMS that cannot be granted: name → why
    "retry": "a command is sent once, see crawler/connection.py",
    "retry_on_timeout": "a command is sent once, see crawler/connection.py",
    "retry_on_error": "a command is sent once, see crawler/connection.py",
    "decode_responses": "the project reads raw bytes",
}
_TCP_ONLY = {"socket_keepalive", "socket_keepalive_options", "socket_type"}
_OLDEST = (7, 0)  # scripts with flags, and function-safe cmsgpack
_warned: set[str] = set()


def resolve_url(settings: BaseSettings) -> str:
    """URL of the server: ``REDIS_URL``, else ``REDIS_HOST``/``REDIS_PORT``/``REDIS_DB``, else the embedded server.

    The embedded server is started or joined by this call, and held until the process ends. ``url``, ``host``, ``port``
    and ``db`` in ``REDIS_PARAMS`` count as the settings of these names, which win. Raises ConfigError, ServerError.
    """
    return _own_server(settings) or embedded.join(embedded.project_folder())


def is_cluster(settings: BaseSettings) -> bool:
    """``REDIS_CLUSTER``: the server is a node of a Redis Cluster."""
    return config.flag(settings, "REDIS_CLUSTER", False)


def sync_client(settings: BaseSettings, **overrides: Any) -> redis.Redis:
    """A blocking client (bytes in and out, one try). `overrides` are redis-py's client arguments and win over all.

    Of a cluster it is a RedisCluster: ask :func:`crawler.nodes.node_of` for the client of a key, and use that.
    """
    kwargs, held = _client_kwargs(settings, overrides)
    retry = Retry(NoBackoff(), 0)
    if is_cluster(settings):
        return cast("redis.Redis", _sync_cluster(settings, _cluster_kwargs(kwargs) | {"retry": retry}))
    if sentinels := _addresses(settings, "REDIS_SENTINELS"):
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
    if sentinels := _addresses(settings, "REDIS_SENTINELS"):
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
    nodes = [*_addresses(settings, "REDIS_CLUSTER_NODES"), *known]
    startup = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in nodes]
    return redis.asyncio.RedisCluster(
        **kwargs, startup_nodes=startup, require_full_coverage=False, retry=AsyncRetry(NoBackoff(), 0)
    )


def masked(url: str) -> str:
    """`url` without its password, for logs and messages; works for malformed URLs too."""
    url = re.sub(r"([?&]password=)[^&#]*", r"\1***", url)
    before, slashes, rest = url.partition("//")
    userinfo, at, address = rest.rpartition("@")
    if not at:
        return url
    user, colon, _ = userinfo.partition(":")
    return f"{before}{slashes}{user + ':' if colon else ''}***@{address}"


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


# Addresses ------------------------------------------------------------------------------------------------------------


def _own_server(settings: BaseSettings) -> str:
    """URL of the server that the settings name, "" if they name none."""
    params = _raw_params(settings)
    if url := _strip(settings.get("REDIS_URL")) or _strip(params.get("url")):
        _check_url(url)
        return url
    if host := _strip(settings.get("REDIS_HOST")) or _strip(params.get("host")):
        return _url_of_host(settings, host, params)
    return ""


def _strip(value: object) -> str:
    return str(value or "").strip()


def _check_url(url: str) -> None:
    def wrong(remedy: str) -> ConfigError:
        return ConfigError("REDIS_URL", masked(url), remedy)

    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise wrong("must begin with redis://, rediss:// or unix://, e.g. redis://:PASSWORD@HOST:6379/0")
    parts = urlsplit(url)
    cut = scheme != "unix" and "@" in rest and "@" not in parts.netloc and "password=" not in parts.query
    if cut or "#" in rest:
        raise wrong("write # / ? in the password as %23 %2F %3F")
    try:
        _ = parts.port
    except ValueError:
        raise wrong("the port must be a number between 0 and 65535") from None
    if scheme == "unix" and (parts.hostname or not parts.path.startswith("/")):
        raise wrong("must name a socket by its full path: unix:///path/to/redis.sock?db=0")
    if scheme != "unix" and not re.fullmatch(r"/?\d*", parts.path):
        raise wrong("the path is the number of the database: /0")
    try:
        _parse(url)
    except ValueError as error:
        raise wrong(str(error).lower().rstrip(".")) from None


def _url_of_host(settings: BaseSettings, host: str, params: dict[str, Any]) -> str:
    port = config.integer(settings, "REDIS_PORT", params.get("port") or 6379, low=1, high=65535)
    db = config.integer(settings, "REDIS_DB", params.get("db") or 0)
    if not re.fullmatch(r"[\w.:%\[\]-]+", host):
        raise ConfigError("REDIS_HOST", host, "must be a host name or an address (a URL goes into REDIS_URL)")
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"  # IPv6
    return f"{'rediss' if params.get('ssl') else 'redis'}://{host}:{port}/{db}"


def _parse(url: str) -> dict[str, Any]:
    return dict(parse_url(url))  # type: ignore[no-untyped-call]


# Client arguments -----------------------------------------------------------------------------------------------------


def _raw_params(settings: BaseSettings) -> dict[str, Any]:
    try:
        params = settings.getdict("REDIS_PARAMS")
    except (ValueError, TypeError):  # its text may hold a password: not repeated
        remedy = 'must be a dict or a JSON object, e.g. {"password": "..."}'
        raise ConfigError("REDIS_PARAMS", "(hidden)", remedy) from None
    if "redis_cls" in params:
        remedy = "not supported, the project makes its own clients: remove it and give the address in REDIS_URL"
        raise ConfigError("REDIS_PARAMS['redis_cls']", params["redis_cls"], remedy)
    return params


def _client_kwargs(settings: BaseSettings, overrides: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Arguments of a pool (later ones win: ours, REDIS_PARAMS, the URL, `overrides`)."""
    own = _own_server(settings)
    url = _parse(own or resolve_url(settings))
    if not own:
        url["connection_class"] = _EmbeddedConnection
    params = {name: value for name, value in _raw_params(settings).items() if name not in _ADDRESS_PARAMS}
    for name in sorted(_OURS.keys() & (params.keys() | url.keys())):
        _warn_once(f"REDIS_PARAMS: {name} is ignored: {_OURS[name]}")
        params.pop(name, None)
        url.pop(name, None)
    if settings.get("REDIS_DB") and "db" not in url:
        url["db"] = config.integer(settings, "REDIS_DB", 0)
    defaults = {"socket_timeout": _SOCKET_SECONDS, "socket_connect_timeout": _CONNECT_SECONDS}
    kwargs: dict[str, Any] = {**defaults, **params, **url, **overrides}
    if "path" in kwargs:
        kwargs = {name: value for name, value in kwargs.items() if name not in _TCP_ONLY}
    # Maintenance notifications are a service of Redis Cloud; asking for them costs each connection a round trip.
    kwargs["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    return kwargs, bool(kwargs.pop("single_connection_client", False))


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
    nodes = [redis.cluster.ClusterNode(*address) for address in _addresses(settings, "REDIS_CLUSTER_NODES")]  # type: ignore[no-untyped-call]
    try:
        return redis.RedisCluster(**kwargs, startup_nodes=nodes, require_full_coverage=False)
    except redis.exceptions.RedisClusterException as error:  # no RedisError
        if "not enabled" in str(error):
            raise ConfigError("REDIS_CLUSTER", 1, f"{masked(resolve_url(settings))} is no Redis Cluster") from None
        raise redis.exceptions.ConnectionError(str(error)) from error


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


@contextlib.contextmanager
def _made(settings: BaseSettings) -> Iterator[redis.Redis]:
    """A client; one of a cluster connects when it is made."""
    try:
        client = sync_client(settings)
    except redis.exceptions.ConnectionError as error:
        raise no_answer(settings, error) from None
    with client:
        yield client


def _addresses(settings: BaseSettings, name: str) -> list[tuple[str, int]]:
    """``HOST:PORT`` words with commas between."""
    found = []
    for word in filter(None, config.text(settings, name).replace(" ", "").split(",")):
        host, colon, port = word.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise ConfigError(name, settings.get(name), "must be HOST:PORT, or several with commas between")
        found.append((host.strip("[]"), int(port)))
    return found


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


class _EmbeddedConnection(redis.UnixDomainSocketConnection):
    """Starts the embedded server again when it is gone with its supervisor (which would have done it)."""

    def _connect(self) -> socket.socket:
        try:
            return super()._connect()  # type: ignore[no-untyped-call, no-any-return]
        except OSError:
            _start_again()
            return super()._connect()  # type: ignore[no-untyped-call, no-any-return]


class _AsyncEmbeddedConnection(redis.asyncio.UnixDomainSocketConnection):
    """The same for asyncio; the loop does not wait."""

    async def _connect(self) -> None:
        try:
            await super()._connect()  # type: ignore[no-untyped-call]
        except OSError:
            await asyncio.to_thread(_start_again)
            await super()._connect()  # type: ignore[no-untyped-call]


def _start_again() -> None:
    try:
        embedded.join(embedded.project_folder())
    except ServerError as error:  # as a client's user expects it
        raise redis.exceptions.ConnectionError(str(error)) from None


_ASYNC_CLASSES: dict[type, type] = {
    _EmbeddedConnection: _AsyncEmbeddedConnection,
    redis.Connection: redis.asyncio.Connection,
    redis.SSLConnection: redis.asyncio.SSLConnection,
    redis.UnixDomainSocketConnection: redis.asyncio.UnixDomainSocketConnection,
}


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        logger.warning(message)


# Checking the server --------------------------------------------------------------------------------------------------


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
    if _strip(settings.get("REDIS_URL")):
        return "start a server there, correct REDIS_URL, or unset REDIS_URL to use an embedded server"
    if _strip(settings.get("REDIS_HOST")):
        return "start a server there, or correct REDIS_HOST and REDIS_PORT"
    return "the embedded server may have been killed, start again; its log is server.log beside its socket"
