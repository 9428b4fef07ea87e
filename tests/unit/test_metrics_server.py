"""The endpoint's own HTTP: it answers, it refuses, it moves on, and no client can hold it up."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawler.errors import ConfigError
from crawler.metrics import MetricsExtension
from crawler.metrics.options import Options
from crawler.metrics.server import Answer, Server
from tests.support.server import free_port


async def _hello(headers: Mapping[str, str]) -> Answer:
    return Answer(f"hello {headers.get('x-name', '')}".encode())


async def _broken(_: Mapping[str, str]) -> Answer:
    raise RuntimeError("boom")


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[Server]:
    server = Server("127.0.0.1", port, {"/hello": _hello, "/broken": _broken})
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Closes a client's end and waits until its socket is gone."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def talk(server: Server, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        await hang_up(writer)


def answers(request: bytes) -> bytes:
    async def go() -> bytes:
        async with serving() as server:
            return await talk(server, request)

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /hello HTTP/1.1\r\nX-Name: Ada\r\n\r\n", 200, b"hello Ada"),
        (b"GET /hello?a=1 HTTP/1.0\r\n\r\n", 200, b"hello "),
        (b"HEAD /hello HTTP/1.1\r\n\r\n", 200, b""),
        (b"GET / HTTP/1.1\r\n\r\n", 200, b"/hello\n/broken\n"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404, b"/hello\n/broken\n"),
        (b"POST /hello HTTP/1.1\r\n\r\n", 405, b"only GET and HEAD\n"),
        (b"\x16\x03\x01 nonsense\r\n\r\n", 400, b"bad request\n"),
    ],
)
def test_answers(request_: bytes, status: int, body: bytes) -> None:
    head, _, content = answers(request_).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert content == body
    assert b"Connection: close" in head


def test_a_bug_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    assert answers(b"GET /broken HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert "boom" in caplog.text


@pytest.mark.parametrize("request_", [b"GET /" + b"x" * 100_000, b""])
def test_an_endless_or_empty_request_is_dropped(request_: bytes) -> None:
    async def go() -> bytes:
        async with serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request_)
            if not request_:
                writer.write_eof()
            try:
                return await asyncio.wait_for(reader.read(), 10)
            except ConnectionError:
                return b""
            finally:
                await hang_up(writer)

    assert asyncio.run(go()) == b""


def test_a_silent_client_holds_up_nobody_and_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> float:
        async with serving() as server:
            _, silent = await asyncio.open_connection("127.0.0.1", server.port)
            assert (await talk(server, b"GET /hello HTTP/1.1\r\n\r\n")).endswith(b"hello ")
            began = asyncio.get_running_loop().time()
            await server.stop()
            took = asyncio.get_running_loop().time() - began
            await hang_up(silent)
            return took

    assert asyncio.run(go()) < 3
    assert caplog.text == ""


@pytest.mark.parametrize("turns", [0, 2])
def test_who_knocks_while_the_server_stops_leaves_no_socket_behind(turns: int) -> None:
    """Whether let in or not: a socket that is left is a warning, and that an error."""

    async def go() -> None:
        async with serving() as server:
            with socket.create_connection(("127.0.0.1", server.port)):
                for _ in range(turns):
                    await asyncio.sleep(0)
                await server.stop()

    asyncio.run(go())
    gc.collect()


def test_too_many_open_files_close_the_door_for_a_second_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with serving() as server:
            full = OSError(errno.EMFILE, "Too many open files")
            with monkeypatch.context() as patch:
                patch.setattr(socket.socket, "accept", Mock(side_effect=full))
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                await asyncio.sleep(0.05)
            writer.write(b"GET /hello HTTP/1.1\r\n\r\n")
            assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"hello ")
            await hang_up(writer)

    asyncio.run(go())


def test_a_taken_port_moves_on() -> None:
    async def go() -> None:
        async with serving(free_port()) as first, serving(first.port) as second:
            assert not first.moved
            assert second.moved
            assert second.port > first.port
            assert (await talk(second, b"GET /hello HTTP/1.1\r\n\r\n")).endswith(b"hello ")

    asyncio.run(go())


def test_a_stopped_server_frees_its_port() -> None:
    async def go() -> None:
        async with serving(free_port()) as first:
            port = first.port
            await talk(first, b"GET /hello HTTP/1.1\r\n\r\n")
        async with serving(port) as second:
            assert second.port == port

    asyncio.run(go())


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("METRICS_PORT", "nine", "METRICS_PORT=nine: must be a whole number"),
        ("METRICS_PORT", "70000", "METRICS_PORT=70000: must be between 0 and 65535"),
        ("METRICS_LINGER", "-1", "METRICS_LINGER=-1: must be between 0.0 and 3600"),
        ("METRICS_HOST", "203.0.113.77", "METRICS_HOST=203.0.113.77: is no address of this machine"),
        ("METRICS_HOST", "no such host", "METRICS_HOST=no such host: is no address of this machine"),
        (
            "METRICS_SD_FILE",
            "/nowhere/at/all.json",
            "METRICS_SD_FILE=/nowhere/at/all.json: the folder /nowhere/at does",
        ),
        ("METRICS_SD_FILE", "/tmp", "METRICS_SD_FILE=/tmp: must name a file, not a folder"),
        ("METRICS_SD_FILE", "/tmp/sd", "METRICS_SD_FILE=/tmp/sd: Prometheus reads only files that end in .json or"),
        ("METRICS_TEXTFILE", "/tmp/x.txt", "METRICS_TEXTFILE=/tmp/x.txt: is no folder, and node_exporter reads only"),
    ],
)
def test_bad_settings_are_one_line(name: str, value: str, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        Options.from_settings(Settings({name: value}))
    assert str(error.value).startswith(line)


def test_no_free_port_is_one_line() -> None:
    async def go() -> None:
        taken = []
        try:
            for port in range(65533, 65536):
                with contextlib.suppress(OSError):
                    taken.append(socket.create_server(("127.0.0.1", port)))
            with pytest.raises(ConfigError, match=r"^METRICS_PORT=65533: is taken, and so are all ports up to 65535$"):
                await Server("127.0.0.1", 65533, {}).start()
        finally:
            for server in taken:
                server.close()

    asyncio.run(go())


def test_what_cannot_be_read_or_written_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key that somebody else wrote over, a stat that breaks its reader: said once, and the end comes all the same."""

    class Broken:
        path = tmp_path / "x.prom"

        async def sample(self) -> None:
            raise ValueError("no msgpack")

        def leave(self) -> None:
            raise TypeError("a text plus a number")

        def close(self) -> None:
            pass

    async def go() -> None:
        extension = MetricsExtension(get_crawler(), Options())
        extension._sampler = Broken()  # type: ignore[assignment]
        for _ in range(3):
            await extension._refresh()
        extension._files = [Broken()]  # type: ignore[list-item]
        await extension._stop()

    asyncio.run(go())
    assert caplog.text.count("what Redis holds for them cannot be understood") == 1
    assert f"{tmp_path}/x.prom cannot be written (TypeError('a text plus a number'))" in caplog.text
