"""Parent of the server, a process of its own: restarts it when it dies, ends it when no worker is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from crawler.embedded.child import dies_with_parent
from crawler.embedded.folder import ALONE, ask, find_server, open_lock, socket_path, try_lock

_TICK = 0.1  # how often the supervisor looks (two system calls)
_STOP_SECONDS = 20.0  # for a server to write its file out before it is killed


class _Supervisor:
    """`server_lock`: descriptor of the lock that each server inherits."""

    def __init__(self, folder: Path, server_lock: int) -> None:
        self.folder, self.server_lock = folder, server_lock
        self.users = open_lock(folder / "users.lock")
        self.told_to_end = False
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def run(self) -> None:
        """Until no worker is left, or the server keeps dying as soon as it is started."""
        quick, child = 0, self._start()
        began = time.monotonic()
        while quick < 3 and not self.told_to_end and not try_lock(self.users, ALONE):
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
        socket_path(self.folder).unlink(missing_ok=True)

    def _start(self) -> subprocess.Popen[bytes]:
        self._tidy()
        child = subprocess.Popen(
            _server_command(self.folder), cwd=self.folder, stdin=subprocess.DEVNULL,
            pass_fds=[self.server_lock],
            preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509 (there are no threads here)
        )  # fmt: skip
        (self.folder / "server.pid").write_text(f"{child.pid}\n")
        return child

    def _on_sigterm(self, *_: object) -> None:
        self.told_to_end = True


def _server_command(folder: Path) -> list[str]:
    # Relative names: the working directory is the folder, whose own name may hold characters that need quoting.
    path = socket_path(folder)
    return [
        find_server(), "--port", "0", "--unixsocket", path.name if path.parent == folder else str(path),
        "--unixsocketperm", "700", "--dir", ".", "--logfile", "server.log", "--daemonize", "no",
        "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction",
    ]  # fmt: skip


def _take_over(folder: Path) -> int:
    """The lock that a server inherits, after the server of a killed supervisor is gone."""
    descriptor = open_lock(folder / "server.lock")
    deadline = time.monotonic() + _STOP_SECONDS
    if not try_lock(descriptor, ALONE):
        ask(folder, b"SHUTDOWN\r\n")
    while not try_lock(descriptor, ALONE):
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
    guard = open_lock(folder / "supervisor.lock")
    if not try_lock(guard, ALONE):
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
