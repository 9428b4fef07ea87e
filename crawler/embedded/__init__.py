"""A server for people who have none: one per project, shared by its local workers, gone with the last of them.

Who lives and who died is told by file locks alone, because the kernel drops a lock however its holder ends::

    .scrapy/redis/users.lock       shared by every worker for its life; the supervisor waits to get it exclusively,
                                   which happens when the last worker is gone, kill -9 included
    .scrapy/redis/start.lock       one starter at a time
    .scrapy/redis/supervisor.lock  held by the supervisor (``crawler/embedded/supervisor.py``, a session of its own)
    .scrapy/redis/server.lock      inherited by the server process: a new server starts only when the old one is gone
    .scrapy/redis/server.pid       written when a server was started, so that nobody mistakes a dying one for it
    .scrapy/redis/redis.sock       the server; in a temporary folder if this path is too long for a socket
    .scrapy/redis/appendonlydir/   the data (append-only file), server.log and supervisor.log the logs

Nothing here imports Scrapy or redis-py: the supervisor has to start fast.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

from crawler.embedded.folder import (
    HAS_LOCKS,
    REMEDY,
    SHARED,
    START_SECONDS,
    ask,
    data_folder,
    find_server,
    hold_lock,
    is_free,
    locked,
    make_private,
    socket_path,
    unusable,
)
from crawler.errors import ServerError

logger = logging.getLogger(__name__)

_held: dict[Path, int] = {}  # folder → descriptor of users.lock, open until this process ends
_joining = threading.Lock()


def project_folder() -> Path:
    """The folder of ``scrapy.cfg``: above the working directory or above this package; else the working directory."""
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "scrapy.cfg").is_file():
                return folder
    return Path.cwd()


def embedded_url(project_dir: Path) -> str:
    """URL of the project's server, whether it runs or not; the same in every process."""
    return f"unix://{quote(str(socket_path(data_folder(project_dir))))}?db=0"


def join(project_dir: Path) -> str:
    """Start the project's server or share the running one; returns its URL. This process holds it until it ends.

    Raises ServerError when there is no server to run or it does not start. A second call is cheap, and starts the
    server again should someone have killed its supervisor.
    """
    if not HAS_LOCKS:
        raise ServerError(f"no REDIS_URL is set, and this system cannot embed a server: {REMEDY}")
    folder = data_folder(project_dir)
    with _joining:
        try:
            if folder not in _held:
                make_private(folder)
                _held[folder] = hold_lock(folder / "users.lock", SHARED)
                logger.info("REDIS_URL is not set: using the embedded server at %s", socket_path(folder))
            _ensure_running(folder)
        except OSError as error:  # e.g. a file system without locks
            _let_go(folder)
            raise unusable(folder, error) from None
        except BaseException:
            _let_go(folder)
            raise
    return embedded_url(project_dir)


def leave(project_dir: Path) -> None:
    """Stop holding the server before this process ends."""
    with _joining:
        _let_go(data_folder(project_dir))


def _let_go(folder: Path) -> None:
    if (descriptor := _held.pop(folder, None)) is not None:
        os.close(descriptor)


def _ensure_running(folder: Path) -> None:
    supervisor = folder / "supervisor.lock"
    with locked(folder / "start.lock"):
        deadline = time.monotonic() + START_SECONDS
        spawned = 0
        while True:
            if is_free(supervisor):
                if spawned == 2:
                    raise _not_started(folder)
                find_server()  # here, where its error is seen
                _spawn_supervisor(folder)
                spawned += 1
            answer = ask(folder)
            if answer.startswith(b"+PONG"):
                return
            if answer.startswith(b"-LOADING"):
                deadline = time.monotonic() + START_SECONDS
            elif time.monotonic() > deadline:
                raise _not_started(folder)
            time.sleep(0.02)


def _spawn_supervisor(folder: Path) -> None:
    """Returns when the supervisor holds its lock and has cleared away what a killed one left (or could not start)."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    with (folder / "supervisor.log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "crawler.embedded.supervisor", str(folder)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        )


def _not_started(folder: Path) -> ServerError:
    said = ""
    for name in ("supervisor.log", "server.log"):
        with contextlib.suppress(OSError):
            lines = (folder / name).read_text(errors="replace").split("\n")
            said = next((line.strip() for line in reversed(lines) if line.strip()), said)
    log = folder / "server.log"
    return ServerError(f"the embedded server did not start ({said or 'it left no log'}): see {log}, or {REMEDY}")
