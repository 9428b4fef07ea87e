"""The first look at the server: silent when all is well, else one line that says what to do."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.connection import check, clients, probe, sync_client
from crawler.errors import CrawlerError, ServerError
from tests.support.server import RedisServer, free_port


def settings(**values: Any) -> Settings:
    return Settings(values)


def test_check_is_silent_when_all_is_well(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        check(settings(REDIS_URL=redis_url))
    assert not caplog.records


def expect_line(values: Settings, *parts: str) -> str:
    with pytest.raises(CrawlerError) as caught:
        check(values)
    text = str(caught.value)
    assert isinstance(caught.value, ServerError)
    assert "\n" not in text
    assert caught.value.__cause__ is None
    for part in parts:
        assert part in text
    return text


def test_nobody_there() -> None:
    port = free_port()
    url = f"redis://:secret@127.0.0.1:{port}/0"
    text = expect_line(settings(REDIS_URL=url), f"redis://:***@127.0.0.1:{port}/0", "refused", "unset REDIS_URL")
    assert "secret" not in text
    expect_line(settings(REDIS_HOST="127.0.0.1", REDIS_PORT=port), f"127.0.0.1:{port}", "correct REDIS_HOST")


def test_unknown_host() -> None:
    expect_line(settings(REDIS_URL="redis://no-such-host.invalid:6379/0"), "redis://no-such-host.invalid:6379/0")


def test_no_socket(tmp_path: Any) -> None:
    expect_line(settings(REDIS_URL=f"unix://{tmp_path}/none.sock"), "none.sock", "No such file")


def test_wrong_and_missing_password() -> None:
    with RedisServer(password="correct") as server:
        bare = f"redis://127.0.0.1:{server.port}/0"
        check(settings(REDIS_URL=server.url))
        check(settings(REDIS_URL=bare, REDIS_PARAMS={"password": "correct"}))
        wrong = settings(REDIS_URL=server.url.replace("correct", "secret"))
        assert "secret" not in expect_line(wrong, "refuses the login", "password")
        expect_line(settings(REDIS_URL=bare), "refuses the login", "password")


def test_a_server_that_speaks_something_else() -> None:
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        expect_line(settings(REDIS_URL=f"redis://127.0.0.1:{listener.getsockname()[1]}/0"), "does not answer")


def test_eviction_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer(options=["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]) as server:
        check(settings(REDIS_URL=server.url))
    [message] = [record.getMessage() for record in caplog.records if record.name == "crawler.connection.probe"]
    assert "allkeys-lru" in message
    assert "noeviction" in message


def test_version_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match=r"is Redis 6\.2\.9: the project needs Redis 7\.0 or later"):
        probe._check_info(Settings(), "redis://h", {"redis_version": "6.2.9"})


def test_more_patience_than_a_lease_allows_is_told(caplog: pytest.LogCaptureFixture) -> None:
    clients._warned.clear()
    for lease in ("60", "12"):
        with sync_client(settings(REDIS_URL="redis://h?socket_timeout=7", FRONTIER_LEASE=lease)):
            pass
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("REDIS_PARAMS: socket_timeout=7 is more than a third of FRONTIER_LEASE=12: ")
