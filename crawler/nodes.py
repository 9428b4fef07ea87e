"""Which server holds a key: always the same one, or on Redis Cluster the master of the key's slot.

The clients of single nodes follow no redirection. A slot that is being moved answers ASK for the keys of a script,
though half of them may still lie on the old node; so whoever asks waits until the whole slot is there, and then asks
anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import redis
import redis.asyncio
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TryAgainError,
)

from crawler import connection

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_ELSEWHERE = (AskError, MovedError, ClusterDownError, TryAgainError, ReadOnlyError, BusyLoadingError)


class Nodes(Protocol):
    """Finds the server of a key."""

    async def client(self, key: str) -> redis.asyncio.Redis:
        """A client of the server that holds `key` now. Raises redis-py's ConnectionError."""
        ...

    async def failed(self, error: Exception) -> None:
        """A command ended like this: look again where things are, if it may tell of that."""
        ...

    async def aclose(self) -> None:
        """Drops all connections."""
        ...


def nodes_of(settings: BaseSettings) -> Nodes:
    """For the settings. Raises ConfigError."""
    if connection.is_cluster(settings):
        return ClusterNodes(settings)
    return OneNode(connection.async_client(settings))


class OneNode:
    """One server, whoever that is at the moment."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client

    async def client(self, key: str) -> redis.asyncio.Redis:
        """See :class:`Nodes`."""
        return self._client

    async def failed(self, error: Exception) -> None:
        """A server that became a replica is left: its name, or a sentinel, may know the new master."""
        if isinstance(error, ReadOnlyError):
            await self._client.connection_pool.disconnect(inuse_connections=False)

    async def aclose(self) -> None:
        """See :class:`Nodes`."""
        await self._client.aclose()


class ClusterNodes:
    """The masters of a Redis Cluster."""

    def __init__(self, settings: BaseSettings) -> None:
        self._settings = settings
        self._cluster: redis.asyncio.RedisCluster | None = None
        self._clients: dict[tuple[str, int], redis.asyncio.Redis] = {}
        self._stale = True
        self._looking = asyncio.Lock()

    async def client(self, key: str) -> redis.asyncio.Redis:
        """See :class:`Nodes`."""
        async with self._looking:
            try:
                if self._stale:
                    await self._look()
                assert self._cluster is not None
                node = self._cluster.get_node_from_key(key)
            except RedisClusterException as error:  # no RedisError: nobody answers, or nobody has the slot
                self._stale = True
                raise redis.exceptions.ConnectionError(str(error)) from error
        if node is None:
            self._stale = True
            raise redis.exceptions.ConnectionError(f"no node of the cluster serves {key}")
        address = (str(node.host), int(node.port))
        if address not in self._clients:
            self._clients[address] = connection.node_client(self._settings, *address)
        return self._clients[address]

    async def failed(self, error: Exception) -> None:
        """See :class:`Nodes`."""
        if isinstance(error, (*_ELSEWHERE, redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)):
            self._stale = True

    async def aclose(self) -> None:
        """See :class:`Nodes`."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()
        if self._cluster is not None:
            await self._cluster.aclose()

    async def _look(self) -> None:
        """Asks the nodes that are known, and those that the settings name, who has which slots."""
        cluster = connection.async_cluster(self._settings, list(self._clients))
        try:
            await cluster.initialize()
        except BaseException:
            with contextlib.suppress(RedisError, OSError):
                await cluster.aclose()
            raise
        before, self._cluster = self._cluster, cluster
        self._stale = False
        if before is not None:
            with contextlib.suppress(RedisError, OSError):
                await before.aclose()


def node_of(client: Any, key: str) -> redis.Redis:
    """The blocking client of the server that holds `key`: `client` itself, unless it is a cluster's."""
    if not isinstance(client, redis.RedisCluster):
        return client  # type: ignore[no-any-return]
    try:
        node = client.get_node_from_key(key)  # type: ignore[no-untyped-call]
    except RedisClusterException as error:
        raise redis.exceptions.ConnectionError(str(error)) from error
    return client.get_redis_connection(node)
