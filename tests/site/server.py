"""The site on the network.

:class:`Site` runs in a thread of this process, :class:`SiteProcess` in a process of its own (a fair opponent in
benchmarks); both have `start`, `truth()`, `hits()`, `report()`, `reset()` and `close()` and are context managers.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.site import options as options_
from tests.site.app import Application
from tests.site.http import Connection
from tests.site.options import Options
from tests.site.report import Report
from tests.site.world import World

_ROOT = Path(__file__).resolve().parents[2]


class Listener:
    """Sockets of a site: one port on each host's address, or on `bind` for all."""

    def __init__(self, options: Options, port: int, bind: str, names: list[str]) -> None:
        addresses = [bind] if bind else [f"127.0.0.{number + 1}" for number in range(options.hosts)]
        self.sockets = _bind(addresses, port)
        self.port = int(self.sockets[0].getsockname()[1])
        hosts = names or [f"127.0.0.{number + 1}" for number in range(options.hosts)]
        if len(hosts) != options.hosts:
            raise ValueError(f"--names {','.join(hosts)}: must be one name for each of the {options.hosts} hosts")
        suffix = "" if self.port == 80 else f":{self.port}"
        self.authorities = [host.lower() + suffix for host in hosts]


def _bind(addresses: list[str], port: int) -> list[socket.socket]:
    """Listening sockets on one port of all `addresses`; a port that is free on the first only is given up."""
    for attempt in range(20):
        sockets: list[socket.socket] = []
        try:
            for address in addresses:
                wanted = sockets[0].getsockname()[1] if sockets else port
                sockets.append(socket.create_server((address, wanted), backlog=1024))
            return sockets
        except OSError as error:
            for opened in sockets:
                opened.close()
            missing = error.errno == errno.EADDRNOTAVAIL
            if port or missing or attempt == 19:
                hint = f" (macOS needs `sudo ifconfig lo0 alias {address}` first)" if missing else ""
                raise ValueError(f"--port {port}: cannot listen on {address}: {error.strerror}{hint}") from None
    raise AssertionError("unreachable")


async def serve(app: Application, sockets: list[socket.socket], stop: asyncio.Event) -> None:
    """Serves until `stop` is set; then open connections are cut."""
    live: set[Connection] = set()
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(lambda: Connection(app, live), sock=sock) for sock in sockets]
    await stop.wait()
    for server in servers:
        server.close()
    for connection in list(live):
        if connection.transport is not None:
            connection.transport.abort()


class _Common:
    """What both kinds of site share."""

    authorities: list[str]

    def truth(self) -> dict[str, Any]:
        raise NotImplementedError

    def hits(self) -> dict[str, Any]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    @property
    def url(self) -> str:
        """The first page of the first host."""
        return f"http://{self.authorities[0]}/"

    @property
    def start(self) -> str:
        """The first pages of all hosts, comma-separated: the `start` of the `site` spider."""
        return ",".join(f"http://{name}/" for name in self.authorities)

    def report(self) -> Report:
        """What the crawl did so far."""
        return Report.of(self.truth(), self.hits())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Site(_Common):
    """A site served by a thread of this process until :meth:`close`."""

    def __init__(
        self, options: Options | None = None, *, port: int = 0, bind: str = "", names: list[str] | None = None
    ) -> None:
        self.options = options or Options()
        listener = Listener(self.options, port, bind, names or [])
        self.authorities = listener.authorities
        self.app = Application(World(self.options), listener.authorities)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(listener.sockets,), daemon=True, name="site")
        self._thread.start()

    def _run(self, sockets: list[socket.socket]) -> None:
        self._loop.run_until_complete(serve(self.app, sockets, self._stop))
        self._loop.run_until_complete(asyncio.sleep(0))  # lets aborted transports close their sockets
        self._loop.close()

    def truth(self) -> dict[str, Any]:
        """The document of ``/__truth__``."""
        return self.app.truth()

    def hits(self) -> dict[str, Any]:
        """The document of ``/__hits__``."""
        return self.app.hits()

    def status(self) -> dict[str, Any]:
        """The document of ``/__status__``."""
        return self.app.status()

    def reset(self) -> None:
        """Forgets all hits."""
        self.app.reset()

    def close(self) -> None:
        """Stops serving. May be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(10)


class SiteProcess(_Common):
    """The same site in a process of its own (``python -m tests.site``)."""

    def __init__(self, options: Options | None = None, *, port: int = 0) -> None:
        self.options = options or Options()
        command = [sys.executable, "-m", "tests.site", "--until-eof", f"--port={port}"]
        # A session of its own: a Ctrl-C in the terminal is for the parent, which closes the site last.
        self.process = subprocess.Popen(
            [*command, *options_.to_arguments(self.options)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        line = self.process.stdout.readline().strip()
        if not line.startswith("http"):
            self.close()
            raise RuntimeError("the site did not start: its message is above")
        self.authorities = [url.removeprefix("http://").rstrip("/") for url in line.split(",")]

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as response:
            document: dict[str, Any] = json.load(response)
            return document

    def truth(self) -> dict[str, Any]:
        """The document of ``/__truth__``."""
        return self._get("__truth__")

    def hits(self) -> dict[str, Any]:
        """The document of ``/__hits__``."""
        return self._get("__hits__")

    def status(self) -> dict[str, Any]:
        """The document of ``/__status__``."""
        return self._get("__status__")

    def reset(self) -> None:
        """Forgets all hits."""
        self._get("__reset__")

    def close(self) -> None:
        """Ends the process. May be called twice."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
