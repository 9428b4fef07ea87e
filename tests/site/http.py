"""A very small HTTP/1.1 server side: GET and HEAD, keep-alive, one request at a time per connection.

Hand-made because the site must not be the slowest part of a benchmark: no header is parsed that is not needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

_LIMIT = 65536  # bytes of a request's head; more is no crawler of ours


class Request(NamedTuple):
    """What the site reads of a request; `target` is the raw path and query, bytes above 127 read as UTF-8."""

    method: str
    target: str
    host: str
    agent: str


class Response(NamedTuple):
    """A whole answer, and the seconds to wait before it is sent."""

    status: int
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    location: str = ""
    delay: float = 0.0


class Connection(asyncio.Protocol):
    """One client connection; `answer` makes the response of a request."""

    def __init__(self, answer: Callable[[Request], Response], live: set[Connection]) -> None:
        self._answer, self._live = answer, live
        self._buffer = b""
        self._waiting = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._live.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.transport = None
        self._live.discard(self)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._buffer += data
        if not self._waiting:
            self._next()

    def _next(self) -> None:
        while not self._waiting and self.transport is not None:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                if len(head) > _LIMIT:
                    self.transport.close()
                return
            self._buffer = rest
            self._respond(head.decode("utf-8", "replace"))

    def _respond(self, head: str) -> None:
        line, *headers = head.split("\r\n")
        method, target, version = [*line.split(" "), "", ""][:3]
        names = {name.lower(): value.strip() for name, _, value in (h.partition(":") for h in headers)}
        keep = names.get("connection", "").lower() != "close" and version != "HTTP/1.0"
        if method not in ("GET", "HEAD") or not target.startswith("/"):
            self._send(Response(400), False, False)
            return
        response = self._answer(Request(method, target, names.get("host", "").lower(), names.get("user-agent", "")))
        if response.delay > 0:
            self._waiting = True
            asyncio.get_running_loop().call_later(response.delay, self._late, response, method == "HEAD", keep)
        else:
            self._send(response, method == "HEAD", keep)

    def _late(self, response: Response, head_only: bool, keep: bool) -> None:
        self._waiting = False
        self._send(response, head_only, keep)
        self._next()

    def _send(self, response: Response, head_only: bool, keep: bool) -> None:
        if self.transport is None:  # the client went away while it waited
            return
        lines = [
            f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
        ]
        if response.location:
            lines.append(f"Location: {response.location}")
        if not keep:
            lines.append("Connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        self.transport.write(head if head_only else head + response.body)
        if not keep:
            self.transport.close()
