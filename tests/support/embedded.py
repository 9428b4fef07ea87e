"""Processes that join the embedded server, and what is to be seen of it in /proc."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from crawler.embedded.folder import is_free
from tests.support.project import PROJECT, clean_env
from tests.support.server import wait_for

WORKER = """
import sys
from pathlib import Path
import redis
from crawler import embedded
url = embedded.join(Path(sys.argv[1]))
with redis.Redis.from_url(url) as client:
    client.incr("joined")
    print(url, client.info("server")["process_id"], flush=True)
    sys.stdin.readline()
    client.incr("left")
"""


class Worker:
    """A process that joined the server; killed at the end of the test."""

    def __init__(self, project: Path, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(project)], cwd=PROJECT, env=clean_env(env), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def joined(self) -> tuple[str, int]:
        """URL and process id of the server."""
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        if not words:
            raise AssertionError(f"the worker did not join: {self.process.communicate()[1]}")
        return words[0], int(words[1])

    def leave(self) -> None:
        """A normal end."""
        _, err = self.process.communicate("\n", timeout=30)
        assert self.process.returncode == 0, err

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def workers_of(project: Path) -> Iterator[Callable[..., Worker]]:
    """Yields what starts a worker; the body of a fixture."""
    workers: list[Worker] = []

    def start(project: Path = project, env: dict[str, str] | None = None) -> Worker:
        workers.append(Worker(project, env))
        return workers[-1]

    yield start
    for one in workers:
        one.kill()


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def folder_of(project: Path) -> Path:
    return project / ".scrapy" / "redis"


def supervisor_of(project: Path) -> int:
    """Process id of the supervisor: the parent of the server."""
    server = int((folder_of(project) / "server.pid").read_text())
    return int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])


def gone(project: Path, *pids: int) -> None:
    """Wait until server and supervisor have ended."""
    wait_for(lambda: not any(map(alive, pids)), f"end of processes {pids}", 15)
    wait_for(lambda: is_free(folder_of(project) / "supervisor.lock"), "the supervisor's lock", 5)
    wait_for(lambda: is_free(folder_of(project) / "server.lock"), "the server's lock", 5)
    assert not (folder_of(project) / "redis.sock").exists()
    assert not (folder_of(project) / "server.pid").exists()
