"""A real PostgreSQL of this test process: temporary folder, free port, nothing kept."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

from tests.support.server import wait_for


def server_program() -> Path | None:
    """The ``postgres`` of the PATH or of Debian's package; None without one (or as root without a user for it)."""
    found = shutil.which("postgres")
    places = [Path(found).resolve()] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return places[-1] if places and (os.geteuid() or _user()) else None


def _user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: its package's user, then."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


class PostgresServer:
    """Runs while the context lasts; ``stop`` and ``start`` between: the port and the data stay."""

    def __init__(self) -> None:
        program = server_program()
        assert program is not None
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if not os.geteuid() and (user := _user()):
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"postgresql://tester:secret@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        words = ["--username=tester", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        subprocess.run(
            [self._program.with_name("initdb"), "--pgdata", self._folder / "data", *words],
            cwd=self._folder, check=True, capture_output=True, **self._as,
        )  # fmt: skip
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it; returns when it takes connections."""
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        flags = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-D", self._folder / "data", *flags],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                **self._as,
            )
        wait_for(self._answers, "PostgreSQL", seconds=30)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        return b"ready to accept connections" in (self._folder / "log").read_bytes().rsplit(b"starting PostgreSQL")[-1]

    def stop(self) -> None:
        """Stop it at once (its clients lose their connections); what was committed stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None
