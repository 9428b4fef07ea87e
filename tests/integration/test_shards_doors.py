"""Doors to Redis: TLS, users with few rights, seeds from another slot; every one against real servers."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError
from scrapy.settings import Settings

from crawler import connection
from crawler.errors import ConfigError, ServerError
from crawler.frontier.seedmove import SeedMover
from crawler.nodes import OneNode, nodes_of
from tests.support.cluster import RedisCluster, Watched
from tests.support.proxy import Proxy
from tests.support.server import RedisServer, free_port

ROOT = Path(__file__).parents[2]


def certificates(folder: Path) -> Path:
    """An authority and a server's certificate for 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*make, *names, *files], check=True, capture_output=True)
    return folder


def test_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    binary = shutil.which("redis-server")
    if (
        binary is None
        or "ssl" not in subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
    ):
        pytest.skip("needs a redis-server with TLS")
    folder, port = certificates(tmp_path), free_port()
    files = ["--tls-cert-file", str(folder / "cert.pem"), "--tls-key-file", str(folder / "key.pem")]
    words = [
        "--tls-port",
        str(port),
        "--tls-auth-clients",
        "no",
        "--tls-ca-cert-file",
        str(folder / "cert.pem"),
        *files,
    ]
    with RedisServer(binary=binary, options=words):
        url = f"rediss://127.0.0.1:{port}/0"
        settings = Settings({"REDIS_URL": f"{url}?ssl_ca_certs={folder / 'cert.pem'}"})
        connection.check(settings)
        params = Settings({"REDIS_URL": url, "REDIS_PARAMS": {"ssl_ca_certs": str(folder / "cert.pem")}})
        with connection.sync_client(params) as client:
            assert client.ping()

        async def ping() -> Any:
            nodes = nodes_of(settings)
            try:
                return await (await nodes.client("k")).ping()
            finally:
                await nodes.aclose()

        assert asyncio.run(ping())
        with pytest.raises(ServerError, match="certificate verify failed"):
            connection.check(Settings({"REDIS_URL": url}))


def test_bad_addresses_are_one_line() -> None:
    url = "redis://127.0.0.1:1"
    for values in ({"REDIS_SENTINELS": "localhost"}, {"REDIS_CLUSTER": 1, "REDIS_CLUSTER_NODES": "localhost"}):
        settings = Settings({"REDIS_URL": url, **values})
        with pytest.raises(ConfigError, match="HOST:PORT"):
            connection.sync_client(settings)
    with pytest.raises(ConfigError, match="database 0 only"):
        connection.sync_client(Settings({"REDIS_URL": f"{url}/3", "REDIS_CLUSTER": 1}))


def test_a_cluster_that_is_none_and_one_that_is_not_told(redis_url: str) -> None:
    with pytest.raises(ConfigError, match="is no Redis Cluster"):
        connection.check(Settings({"REDIS_URL": redis_url, "REDIS_CLUSTER": 1}))
    with RedisCluster(1) as cluster, pytest.raises(ConfigError, match="set REDIS_CLUSTER=1"):
        connection.check(Settings({"REDIS_URL": cluster.masters[0].url}))


def test_any_node_tells_where_the_cluster_is() -> None:
    with RedisCluster(1) as cluster:
        settings = Settings({"REDIS_URL": "redis://127.0.0.1:1", "REDIS_CLUSTER": 1})
        settings.set("REDIS_CLUSTER_NODES", f"127.0.0.1:{cluster.masters[0].port}")
        with connection.sync_client(settings) as client:
            assert client.set("k", 1)


@pytest.mark.slow
def test_sentinels_tell_where_the_master_is() -> None:
    with Watched() as pair:
        connection.check(Settings(pair.env))


def test_a_master_that_became_a_replica_is_left(redis_server: RedisServer, redis_url: str) -> None:
    """As behind a name or an address that moves to the new master, without sentinels."""
    with RedisServer() as old, Proxy(old.port) as address, old.client() as admin:

        async def main() -> None:
            nodes = nodes_of(Settings({"REDIS_URL": address.url}))
            client = await nodes.client("k")
            await client.set("k", 1)
            admin.execute_command("REPLICAOF", "127.0.0.1", redis_server.port)
            address.target_port = redis_server.port
            with pytest.raises(ReadOnlyError) as error:
                await client.set("k", 2)
            await nodes.failed(error.value)
            await client.set("k", 3)
            await nodes.aclose()

        asyncio.run(main())
    with redis_server.client() as client:
        assert client.get("k") == b"3"


class Losing(OneNode):
    """A server whose calls get lost, or whose answers do, by the dice."""

    def __init__(self, url: str, dice: random.Random) -> None:
        super().__init__(Redis.from_url(url))
        self.dice = dice

    async def client(self, key: str) -> Any:
        """The client, with evalsha and eval in the dice's hands."""
        real, dice = await super().client(key), self.dice

        class Client:
            llen = real.llen

            async def evalsha(self, *args: Any) -> Any:
                return await lossy(real.evalsha, *args)

            async def eval(self, *args: Any) -> Any:
                return await lossy(real.eval, *args)

        async def lossy(call: Callable[..., Any], *args: Any) -> Any:
            if dice.random() < 0.2:
                raise RedisConnectionError("request lost")
            reply = await call(*args)
            if dice.random() < 0.2:
                raise RedisConnectionError("reply lost")
            return reply

        return Client()


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_seeds_are_moved_once_whatever_is_lost(redis: redis_py.Redis, redis_url: str, kind: str) -> None:
    """Three workers move at once, and every third call or so is lost before or after it was carried out."""
    wanted = [f"https://example.com/{number}" for number in range(300)]
    if kind == "list":
        redis.rpush("seeds", *wanted)
    elif kind == "set":
        redis.sadd("seeds", *wanted)
    else:
        redis.zadd("seeds", {seed: -number for number, seed in enumerate(wanted)})
    moved: list[str] = []

    async def main() -> None:
        nodes = [Losing(redis_url, random.Random(number)) for number in range(3)]
        movers = [SeedMover(one, "seeds", "{f}") for one in nodes]

        async def work(mover: SeedMover) -> None:
            while await mover.move() or len(moved) < len(wanted):
                popped: Any = redis.lpop("{f}:seeds", 40)
                moved.extend(seed.decode() for seed in popped or [])
                await asyncio.sleep(0)
                if not redis.exists("seeds", "{seeds}:moving", "{f}:seeds"):
                    return

        await asyncio.gather(*(work(mover) for mover in movers))
        for one in nodes:
            await one.aclose()

    asyncio.run(main())
    assert sorted(moved) == sorted(wanted)
    if kind != "set":
        assert moved[:40] == wanted[:40]  # a sorted set by falling score
