"""Connections to the embedded server that start it again when it is gone with its supervisor (which would have)."""

from __future__ import annotations

import asyncio
import socket

import redis
import redis.asyncio

from crawler import embedded
from crawler.errors import ServerError


class EmbeddedConnection(redis.UnixDomainSocketConnection):
    """For blocking clients."""

    def _connect(self) -> socket.socket:
        try:
            return super()._connect()  # type: ignore[no-untyped-call, no-any-return]
        except OSError:
            _start_again()
            return super()._connect()  # type: ignore[no-untyped-call, no-any-return]


class AsyncEmbeddedConnection(redis.asyncio.UnixDomainSocketConnection):
    """For asyncio; the loop does not wait."""

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
