"""The tests' own server: without it no other integration test means anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis as redis_py

from tests.support.project import clean_env
from tests.support.server import RedisServer


def test_each_test_gets_an_empty_server(redis: redis_py.Redis) -> None:
    assert redis.dbsize() == 0
    redis.set("left", "over")


def test_each_test_gets_an_empty_server_again(redis: redis_py.Redis) -> None:
    assert redis.dbsize() == 0
    redis.set("left", "over")


def test_kill_and_restart_keeps_the_append_only_data() -> None:
    with RedisServer(appendonly=True, options=["--appendfsync", "always"]) as server:
        with server.client() as client:
            client.set("kept", "yes")
        first, port = server.pid, server.port
        server.kill()
        assert not server.alive
        server.restart()
        assert (server.port, server.pid == first) == (port, False)
        with server.client() as client:
            assert client.get("kept") == b"yes"


def test_frozen_server_does_not_answer() -> None:
    with RedisServer() as server, server.client(socket_timeout=0.3) as client:
        client.ping()
        server.freeze()
        with pytest.raises(redis_py.TimeoutError):
            client.ping()
        server.resume()
        assert client.ping()


def test_nothing_is_left_behind() -> None:
    with RedisServer() as server:
        folder, pid = server.folder, server.pid
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists() or not Path("/proc").exists()


def test_environment_of_the_developer_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://production:6379/0")
    monkeypatch.setenv("CONCURRENT_REQUESTS", "1")
    assert not {"REDIS_URL", "CONCURRENT_REQUESTS"} & set(clean_env())
    assert clean_env({"REDIS_URL": "redis://x"})["REDIS_URL"] == "redis://x"
