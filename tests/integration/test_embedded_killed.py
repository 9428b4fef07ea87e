"""The embedded server after kills at any time: healed, with its data, and gone with the last worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler import connection, embedded
from tests.support.embedded import Worker, alive, folder_of, gone, supervisor_of, workers_of
from tests.support.server import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    yield from workers_of(tmp_path)


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
