"""Redis clients: where the server is, how long to wait for it, and never a silent retry.

:mod:`~crawler.connection.address` reads where the server is, :mod:`~crawler.connection.clients` makes every client, and
:mod:`~crawler.connection.probe` asks the server once, at the start, whether it can be used.
"""

from __future__ import annotations

from crawler.connection.address import is_cluster, masked, resolve_url
from crawler.connection.clients import async_client, async_cluster, node_client, sync_client
from crawler.connection.probe import check, no_answer

__all__ = [
    "async_client",
    "async_cluster",
    "check",
    "is_cluster",
    "masked",
    "no_answer",
    "node_client",
    "resolve_url",
    "sync_client",
]
