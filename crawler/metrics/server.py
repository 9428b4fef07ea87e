"""A small HTTP server on the crawl's own event loop: GET and HEAD of a few paths, one request per connection.

On the loop on purpose: what is read is read between two steps of the crawl, without locks, and a worker whose loop
hangs does not claim to be alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from crawler.errors import ConfigError

logger = logging.getLogger(__name__)

_PATIENCE = 5.0  # seconds for a client to say what it wants, and to take it
_LONGEST = 16_384  # bytes of a request's head
_TRIES = 200  # ports


class Answer(NamedTuple):
    """What a route gives."""

    body: bytes
    status: int = 200
    type: str = "text/plain; charset=utf-8"


Route = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""From the request's headers (lower-case names) to the answer."""


class Server:
    """Serves `routes` (path → :data:`Route`) on `host` at `port`, or at the next one that is free; 0 is any."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self.host, self.port, self._routes = host, port, routes
        self.moved = False  # whether the wanted port was taken
        self._listener: socket.socket | None = None
        self._clients: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """``host:port`` under which a program on this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.host, self.host)  # noqa: S104
        return f"[{host}]:{self.port}" if ":" in host and not host.startswith("[") else f"{host}:{self.port}"

    async def start(self) -> None:
        """Listens. Raises ConfigError when no port is free, or the port may not be used."""
        listener = _listen(self.host, self.port)
        wanted, self.port = self.port, listener.getsockname()[1]
        self.moved = wanted not in (0, self.port)
        self._listener = listener
        self._watch()

    async def stop(self) -> None:
        """Closes the port at once; clients that are being answered get a second."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        asyncio.get_running_loop().remove_reader(listener)
        listener.close()
        if self._clients:
            await asyncio.wait(self._clients, timeout=1)
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _watch(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        """Somebody knocks. Taken here and now, so that whoever is let in is one of `_clients`."""
        loop = asyncio.get_running_loop()
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionError):  # who knocked is gone
            return
        except OSError:  # too many open files
            loop.remove_reader(listener)
            loop.call_later(1, self._watch)
            return
        client.setblocking(False)
        task = asyncio.create_task(self._talk(client))
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        task.add_done_callback(lambda _: client.close())  # here, for a task may be cancelled before it begins

    async def _talk(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_PATIENCE):
                if (head := await _head(client)) is not None:
                    await asyncio.get_running_loop().sock_sendall(client, await self._answer(head))

    async def _answer(self, head: str) -> bytes:
        line, *fields = head.split("\r\n")
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            return _message(Answer(b"bad request\n", 400), body=True)
        method, target, _ = words
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        answer = await self._route(method, target.partition("?")[0], headers)
        return _message(answer, body=method != "HEAD")

    async def _route(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        if method not in ("GET", "HEAD"):
            return Answer(b"only GET and HEAD\n", 405)
        if path in self._routes:
            try:
                return await self._routes[path](headers)
            except Exception:
                logger.exception("The metrics endpoint failed on %s", path)
                return Answer(b"internal error, see the worker's log\n", 500)
        return Answer("".join(f"{known}\n" for known in self._routes).encode(), 200 if path == "/" else 404)


async def _head(client: socket.socket) -> str | None:
    """A request's line and headers; None when the client leaves before their end, or when there is none in sight."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = await asyncio.get_running_loop().sock_recv(client, _LONGEST)
        if not chunk or len(data) > _LONGEST:
            return None
        data += chunk
    return data.partition(b"\r\n\r\n")[0].decode("latin-1")


def _message(answer: Answer, *, body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\nContent-Type: {answer.type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (answer.body if body else b"")


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens on `port`, or on the first free one above it."""
    last = min(port + _TRIES - 1, 65535) if port else 0
    for number in range(port, last + 1):
        family, kind, _, _, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(64)  # here, so that of two workers that both could bind only one listens
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise ConfigError("METRICS_PORT", number, f"cannot be used ({error.strerror})") from None
        else:
            listener.setblocking(False)
            return listener
    raise ConfigError("METRICS_PORT", port, f"is taken, and so are all ports up to {last}")
