"""A TCP proxy in front of the server that loses replies, delays, freezes or cuts connections on command."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Self


class Proxy:
    """Forwards 127.0.0.1:PORT to the server on `target_port`; a context manager.

    Everything the client sends is kept in :attr:`sent`, so that a test can count what arrived at the server.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.sent = bytearray()
        self.delay = 0.0  # seconds, added to each reply
        self.dropped = 0  # replies lost so far
        self.passed = 0  # pieces of replies delivered so far
        self.accepted = 0
        self._drop: Callable[[bytes], bool] | None = None
        self._silently = False
        self._frozen = threading.Event()
        self._refusing = False
        self._stopping = False
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """URL of the server through the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    def drop_reply_to(self, part: bytes, *, silently: bool = False) -> None:
        """Lose the reply to the next request that contains `part` (the server executes it), and cut the connection.

        `silently`: the connection stays open, so that the client waits for its time-out.
        """
        self._drop, self._silently = (lambda data: part in data), silently

    @property
    def armed(self) -> bool:
        """Whether :meth:`drop_reply_to` still waits for its request."""
        return self._drop is not None

    def cut(self) -> None:
        """Cut every connection now; new ones are accepted."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def refuse(self, on: bool = True) -> None:
        """Cut every connection and close new ones at once, until ``refuse(False)``."""
        self._refusing = on
        if on:
            self.cut()

    def freeze(self, on: bool = True) -> None:
        """Hold everything in both directions; connections stay open. ``freeze(False)`` lets it flow again."""
        (self._frozen.set if on else self._frozen.clear)()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping = True
        self._frozen.clear()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._stopping:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self._refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port), timeout=2)
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        pair = (client, server)
        with self._lock:
            self._pairs.add(pair)
        try:
            self._pump(client, server)
        finally:
            with self._lock:
                self._pairs.discard(pair)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            lose = False
            while not self._stopping:
                for key, _ in selector.select(0.5):
                    while self._frozen.is_set():
                        time.sleep(0.01)
                    source = key.fileobj
                    data = source.recv(1 << 16)  # type: ignore[union-attr]
                    if not data:
                        return
                    if source is client:
                        self.sent += data
                        if self._drop and self._drop(data):
                            self._drop, lose = None, True
                        server.sendall(data)
                    elif lose:  # the reply came, so the server has executed the request
                        self.dropped += 1
                        if not self._silently:
                            return
                        lose = False
                    else:
                        if self.delay:
                            time.sleep(self.delay)
                        client.sendall(data)
                        self.passed += 1
