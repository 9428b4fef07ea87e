"""The worker processes of a demo: each ``scrapy crawl site`` in an environment that owes nothing to the user's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from crawler.embedded.child import dies_with_parent

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")


class Fleet:
    """Starts, kills and awaits workers. Each has a name, which is also its User-Agent, and a log ``NAME.log``."""

    def __init__(self, folder: Path, start_url: str, env: Mapping[str, str]) -> None:
        self.folder, self.start_url = folder, start_url
        self.env = {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(env)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: dict[str, float] = {}  # name → when, seconds since the epoch

    def start(self, name: str) -> None:
        """One more worker."""
        command = [sys.executable, "-m", "scrapy", "crawl", "site", "-a", f"start={self.start_url}"]
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=Path(__file__).resolve().parents[2],
                env={**self.env, "WORKER_NAME": name, "USER_AGENT": name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is for the demo, which then ends them itself
                preexec_fn=dies_with_parent(signal.SIGKILL),  # noqa: PLW1509 (the demo has no threads)
            )

    def log(self, name: str) -> Path:
        """The worker's log."""
        return self.folder / f"{name}.log"

    def kill(self, name: str) -> None:
        """kill -9: no farewell, as when a machine is gone."""
        self.processes[name].kill()
        self.processes[name].wait()
        self.killed[name] = time.time()

    @property
    def alive(self) -> list[str]:
        """Names of the workers that run."""
        return [name for name, process in self.processes.items() if process.poll() is None]

    @property
    def failed(self) -> list[str]:
        """Names of the workers that ended with an error, bar those killed."""
        return [n for n, process in self.processes.items() if n not in self.killed and process.poll() not in (None, 0)]

    def last_line(self, name: str) -> str:
        """The last line of a worker's log."""
        lines = self.log(name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"

    def close(self) -> None:
        """Ends all workers, politely for two seconds."""
        for name in self.alive:
            self.processes[name].terminate()
        deadline = time.monotonic() + 2
        for process in self.processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
