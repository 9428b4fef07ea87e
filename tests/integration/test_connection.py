"""Clients: which server, how long, one try only, and one line when something is wrong."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler.connection import async_client, clients, masked, resolve_url, sync_client
from crawler.errors import ConfigError
from tests.support.proxy import Proxy
from tests.support.server import RedisServer


def settings(**values: Any) -> Settings:
    return Settings(values)


@pytest.fixture
def proxy(redis_server: RedisServer, redis_url: str) -> Iterator[Proxy]:
    with Proxy(redis_server.port) as running:
        yield running


# One try: a lost reply must not become a second command ---------------------------------------------------------------

RETRYING = [
    {},
    {"REDIS_PARAMS": {"retry_on_timeout": True}},
    {"REDIS_PARAMS": {"retry_on_error": [redis_py.ConnectionError]}},
    {"QUERY": "?retry_on_timeout=true"},
    {"QUERY": "?retry_on_error=ConnectionError"},
]
COMMANDS = [("SADD", "seen", "url"), ("EVAL", "return redis.call('SADD', KEYS[1], ARGV[1])", "1", "seen", "url")]


@pytest.mark.parametrize("command", COMMANDS, ids=["sadd", "lua"])
@pytest.mark.parametrize("extra", RETRYING, ids=["plain", "timeout", "error", "url-timeout", "url-error"])
@pytest.mark.parametrize("single", [False, True], ids=["pool", "held"])
def test_lost_reply_is_an_error_and_one_command(
    proxy: Proxy, redis: redis_py.Redis, extra: dict[str, Any], command: tuple[str, ...], single: bool
) -> None:
    url = proxy.url + extra.get("QUERY", "")
    values = settings(REDIS_URL=url, REDIS_PARAMS=extra.get("REDIS_PARAMS", {}))
    with sync_client(values, single_connection_client=single) as client:
        client.ping()
        proxy.drop_reply_to(command[0].encode())
        with pytest.raises((redis_py.ConnectionError, redis_py.TimeoutError)):
            client.execute_command(*command)
    assert (proxy.dropped, proxy.sent.count(b"\r\n" + command[0].encode() + b"\r\n")) == (1, 1)
    assert redis.smembers("seen") == {b"url"}  # executed, and the caller knows that it does not know


@pytest.mark.parametrize("command", COMMANDS, ids=["sadd", "lua"])
@pytest.mark.parametrize("extra", RETRYING, ids=["plain", "timeout", "error", "url-timeout", "url-error"])
@pytest.mark.parametrize("single", [False, True], ids=["pool", "held"])
def test_lost_reply_is_an_error_and_one_command_with_asyncio(
    proxy: Proxy, redis: redis_py.Redis, extra: dict[str, Any], command: tuple[str, ...], single: bool
) -> None:
    async def lose_one() -> None:
        url = proxy.url + extra.get("QUERY", "")
        values = settings(REDIS_URL=url, REDIS_PARAMS=extra.get("REDIS_PARAMS", {}))
        client = async_client(values, single_connection_client=single)
        try:
            await client.ping()
            proxy.drop_reply_to(command[0].encode())
            with pytest.raises((redis_py.ConnectionError, redis_py.TimeoutError)):
                await client.execute_command(*command)  # type: ignore[no-untyped-call]
            assert await client.ping()  # the client goes on with a new connection
        finally:
            await client.aclose()

    asyncio.run(lose_one())
    assert (proxy.dropped, proxy.sent.count(b"\r\n" + command[0].encode() + b"\r\n")) == (1, 1)
    assert redis.smembers("seen") == {b"url"}


def test_redis_py_itself_would_send_it_again(proxy: Proxy, redis: redis_py.Redis) -> None:
    """The reason for all this; also proof that the proxy above can show a second command."""
    with redis_py.Redis(host="127.0.0.1", port=proxy.port) as client:
        client.ping()
        proxy.drop_reply_to(b"SADD")
        assert client.sadd("seen", "url") == 0  # "already there": its own first try
    assert proxy.sent.count(b"\r\nSADD\r\n") == 2


def test_connecting_is_tried_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)
        values = settings(REDIS_URL=f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        with sync_client(values, socket_timeout=0.2) as client, pytest.raises(redis_py.TimeoutError):
            client.ping()
        listener.accept()[0].close()
        with pytest.raises(TimeoutError):
            listener.accept()


def test_frozen_server_costs_the_time_out_and_no_more(proxy: Proxy) -> None:
    with sync_client(settings(REDIS_URL=proxy.url), socket_timeout=0.3) as client:
        client.ping()
        proxy.freeze()
        with pytest.raises(redis_py.TimeoutError):
            client.ping()
        proxy.freeze(False)
        assert client.ping()


# Which server ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({"REDIS_URL": "redis://a:1/2", "REDIS_HOST": "b"}, "redis://a:1/2"),
        ({"REDIS_HOST": "b"}, "redis://b:6379/0"),
        ({"REDIS_HOST": "b", "REDIS_PORT": "7000", "REDIS_DB": "3"}, "redis://b:7000/3"),
        ({"REDIS_HOST": "::1", "REDIS_PORT": 7000}, "redis://[::1]:7000/0"),
        ({"REDIS_PARAMS": {"url": "redis://c:1/0"}}, "redis://c:1/0"),
        ({"REDIS_PARAMS": {"host": "c", "port": 8000, "db": 4}}, "redis://c:8000/4"),
        ({"REDIS_PARAMS": {"host": "c", "ssl": True}}, "rediss://c:6379/0"),
        ({"REDIS_HOST": "b", "REDIS_PARAMS": {"host": "c", "port": 8000}}, "redis://b:8000/0"),
        ({"REDIS_URL": " rediss://:p%23w@a:1/2 "}, "rediss://:p%23w@a:1/2"),
        ({"REDIS_URL": "unix:///tmp/a%20b.sock?db=1"}, "unix:///tmp/a%20b.sock?db=1"),
    ],
)
def test_address(values: dict[str, Any], url: str) -> None:
    assert resolve_url(settings(**values)) == url


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"REDIS_URL": "http://user:secret@a:1/0"}, "REDIS_URL=http://user:***@a:1/0: must begin with redis://"),
        ({"REDIS_URL": "localhost:6379"}, "REDIS_URL=localhost:6379: must begin with redis://"),
        ({"REDIS_URL": "redis://:secret@a:port/0"}, "REDIS_URL=redis://:***@a:port/0: the port must be a number"),
        ({"REDIS_URL": "redis://:secret@a:99999/0"}, "the port must be a number between 0 and 65535"),
        ({"REDIS_URL": "redis://a:1/books"}, "the path is the number of the database: /0"),
        ({"REDIS_URL": "redis://:sec/ret@a:1/0"}, "REDIS_URL=redis://:***@a:1/0: write # / ? in the password as"),
        ({"REDIS_URL": "redis://:sec#ret@a:1/0"}, "REDIS_URL=redis://:***@a:1/0: write # / ? in the password as"),
        ({"REDIS_URL": "redis://:sec?ret@a:1/0"}, "REDIS_URL=redis://:***@a:1/0: write # / ? in the password as"),
        ({"REDIS_URL": "unix://tmp/redis.sock"}, "unix:///path/to/redis.sock"),
        ({"REDIS_URL": "redis://a:1/0?socket_timeout=soon"}, "socket_timeout"),
        ({"REDIS_HOST": "redis://a"}, "REDIS_HOST=redis://a: must be a host name"),
        ({"REDIS_HOST": "a", "REDIS_PORT": "66000"}, "REDIS_PORT=66000: must be between 1 and 65535"),
        ({"REDIS_HOST": "a", "REDIS_DB": "x"}, "REDIS_DB=x: must be a whole number"),
        ({"REDIS_URL": "redis://a", "REDIS_PARAMS": "secret"}, "REDIS_PARAMS=(hidden): must be a dict or a JSON"),
        ({"REDIS_URL": "redis://a", "REDIS_PARAMS": {"redis_cls": "my.Redis"}}, "REDIS_PARAMS['redis_cls']=my.Redis:"),
        ({"REDIS_URL": "redis://a", "REDIS_PARAMS": {"pasword": "secret"}}, "REDIS_PARAMS=pasword: redis-py has no"),
    ],
)
def test_bad_address_is_one_line_without_the_password(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sync_client(settings(**values)).close()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "sec" not in str(caught.value).replace("seconds", "")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:pw@h:1/0", "redis://:***@h:1/0"),
        ("redis://user:pw@h:1/0", "redis://user:***@h:1/0"),
        ("redis://pw@h:1/0", "redis://***@h:1/0"),
        ("redis://:p@w@h:1/0", "redis://:***@h:1/0"),
        ("redis://:p/w@h:1/0", "redis://:***@h:1/0"),
        ("redis://h:1/0", "redis://h:1/0"),
        ("unix:///tmp/a.sock?db=0&password=pw", "unix:///tmp/a.sock?db=0&password=***"),
        ("unix:///tmp/a.sock?password=pw&db=0", "unix:///tmp/a.sock?password=***&db=0"),
        ("nonsense", "nonsense"),
    ],
)
def test_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("url", "kind"), [("redis://h", "Connection"), ("rediss://h", "SSLConnection"), ("unix:///s", "UnixDomainSocket")]
)
def test_each_scheme_has_its_kind_of_connection(url: str, kind: str) -> None:
    """TLS settings of the URL and of REDIS_PARAMS arrive in both kinds of client."""
    tls = "?ssl_cert_reqs=none" if url.startswith("rediss") else ""
    values = settings(REDIS_URL=url + tls, REDIS_PARAMS={"ssl_ca_certs": "/ca.pem"} if tls else {})
    with sync_client(values) as client:
        aclient = async_client(values)
        for pool in (client.connection_pool, aclient.connection_pool):
            assert pool.connection_class.__name__.startswith(kind)
            assert pool.connection_kwargs.get("ssl_cert_reqs") == ("none" if tls else None)
            assert pool.connection_kwargs.get("ssl_ca_certs") == ("/ca.pem" if tls else None)
        asyncio.run(aclient.aclose())


# REDIS_PARAMS ---------------------------------------------------------------------------------------------------------


def test_params_are_honoured_and_bytes_come_back(redis_server: RedisServer, redis_url: str) -> None:
    values = settings(REDIS_URL=redis_url, REDIS_PARAMS={"client_name": "tester", "decode_responses": True})
    with sync_client(values) as client:
        client.set("a", "ä")
        assert client.get("a") == "ä".encode()
        assert client.client_getname() == "tester"


def test_params_may_be_json_text_as_the_environment_gives_them(redis_url: str) -> None:
    with sync_client(settings(REDIS_URL=redis_url, REDIS_PARAMS=json.dumps({"client_name": "tester"}))) as client:
        assert client.client_getname() == "tester"


def test_database_of_the_setting_unless_the_url_names_one(redis_server: RedisServer, redis_url: str) -> None:
    bare = redis_url.removesuffix("/0")
    for url, db in [(bare, 3), (bare + "/2", 2)]:
        with sync_client(settings(REDIS_URL=url, REDIS_DB="3")) as client:
            assert client.client_info()["db"] == db


def test_time_outs_and_overrides() -> None:
    with sync_client(settings(REDIS_URL="redis://h")) as client:
        kwargs = client.connection_pool.connection_kwargs
        assert (kwargs["socket_timeout"], kwargs["socket_connect_timeout"]) == (5, 2)
    with sync_client(settings(REDIS_URL="redis://h", FRONTIER_LEASE="3")) as client:
        kwargs = client.connection_pool.connection_kwargs
        assert (kwargs["socket_timeout"], kwargs["socket_connect_timeout"]) == (1, 1), "noticed within a lease"
    values = settings(REDIS_URL="redis://h?socket_timeout=4", REDIS_PARAMS={"socket_timeout": 3})
    with sync_client(values) as client:
        assert client.connection_pool.connection_kwargs["socket_timeout"] == 4
    with sync_client(values, socket_timeout=1) as client:
        assert client.connection_pool.connection_kwargs["socket_timeout"] == 1


def test_ignored_params_are_said_once(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    clients._warned.clear()
    values = settings(REDIS_URL=redis_url, REDIS_PARAMS={"retry_on_timeout": True})
    for _ in range(3):
        sync_client(values).close()
    assert [record.message for record in caplog.records].count(
        "REDIS_PARAMS: retry_on_timeout is ignored: a command is sent once, see crawler/connection/clients.py"
    ) == 1
