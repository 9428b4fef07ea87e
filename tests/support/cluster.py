"""Real clusters of real servers: Redis Cluster of masters and replicas, and a master with its replica and sentinels."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any, Self

import redis
import redis.sentinel

from tests.support.server import RedisServer, free_port, wait_for

SLOTS = 16384


def binary() -> str | None:
    """A server that can be a cluster's node or a sentinel; None: the one that the tests always use."""
    return os.environ.get("TEST_REDIS_SERVER") or shutil.which("redis-server") or shutil.which("valkey-server")


def _bus_port() -> int:
    """A free port whose cluster bus (10000 above) is a port too."""
    while (port := free_port()) > 55_000:
        pass
    return port


class ClusterNode(RedisServer):
    """One node; the port is chosen so that its bus has one too."""

    def __init__(self, *options: str, appendonly: bool = False) -> None:
        words = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-config-file", "nodes.conf"]
        words += ["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]
        super().__init__(appendonly=appendonly, binary=binary(), options=[*words, *options])
        self.port = _bus_port()


class RedisCluster:
    """`masters` masters with `replicas` replicas each. Ready when the context is entered."""

    def __init__(self, masters: int = 3, replicas: int = 0, *options: str) -> None:
        self.replicas_each = replicas
        self.masters = [ClusterNode(*options) for _ in range(masters)]
        self.replicas = [ClusterNode(*options) for _ in range(masters * replicas)]

    @property
    def nodes(self) -> list[ClusterNode]:
        """All of them."""
        return [*self.masters, *self.replicas]

    @property
    def env(self) -> dict[str, str]:
        """Settings of a worker."""
        others = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return {"REDIS_URL": self.masters[0].url, "REDIS_CLUSTER": "1", "REDIS_CLUSTER_NODES": others}

    def client(self) -> Any:
        """A client of the whole."""
        return redis.RedisCluster(host="127.0.0.1", port=next(node for node in self.nodes if node.alive).port)

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
            self._form()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for node in self.nodes:
            node.stop()

    def _form(self) -> None:
        first, ids = self.masters[0], {}
        for number, node in enumerate(self.nodes):
            with node.client() as client:
                call: Any = client.execute_command
                ids[node.port] = str(call("CLUSTER", "MYID").decode())
                call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                if node is not first:
                    call("CLUSTER", "MEET", "127.0.0.1", first.port)
        share = -(-SLOTS // len(self.masters))
        for number, node in enumerate(self.masters):
            with node.client() as client:
                last = min(SLOTS, (number + 1) * share) - 1
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * share, last)
        for node in self.nodes:
            wait_for(partial(self._met, node), "all nodes meet", 20)
        for number, node in enumerate(self.replicas):
            with node.client() as client:
                client.execute_command("CLUSTER", "REPLICATE", ids[self.masters[number // self.replicas_each].port])
        for node in self.nodes:
            wait_for(partial(self._up, node), "the cluster is up", 20)
        for node in self.replicas:
            wait_for(partial(_linked, node), "replicas follow", 20)

    def _info(self, node: RedisServer) -> dict[str, Any]:
        with node.client() as client:
            text: Any = client.execute_command("CLUSTER INFO")
        if isinstance(text, dict):
            return text
        return dict(line.split(":") for line in text.decode().split())

    def _met(self, node: RedisServer) -> bool:
        return int(self._info(node)["cluster_known_nodes"]) == len(self.nodes)

    def _up(self, node: RedisServer) -> bool:
        return str(self._info(node)["cluster_state"]) == "ok"


def _linked(node: RedisServer) -> bool:
    with node.client() as client:
        info: Any = client.info("replication")
        return bool(info["role"] == "slave" and info["master_link_status"] == "up")


class Watched:
    """A master named ``main``, its replica and three sentinels that fail over within seconds."""

    def __init__(self, *options: str) -> None:
        self.master = RedisServer(binary=binary(), options=["--repl-diskless-sync-delay", "0", *options])
        self.replica = RedisServer(binary=binary(), options=["--repl-diskless-sync-delay", "0", *options])
        self.sentinels: list[tuple[subprocess.Popen[bytes], int]] = []

    @property
    def env(self) -> dict[str, str]:
        """Settings of a worker."""
        return {
            "REDIS_URL": "redis://main/0",
            "REDIS_SENTINELS": ",".join(f"127.0.0.1:{port}" for _, port in self.sentinels),
        }

    def __enter__(self) -> Self:
        self.master.start()
        self.replica.start()
        with self.replica.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", self.master.port)
        wait_for(lambda: _linked(self.replica), "the replica follows")
        for number in range(3):
            self._sentinel(self.master.folder / f"sentinel{number}")
        wait_for(self._agreed, "the sentinels know each other", 20)
        return self

    def __exit__(self, *exc: object) -> None:
        for process, _ in self.sentinels:
            process.kill()
            process.wait()
        self.master.stop()
        self.replica.stop()

    def _sentinel(self, folder: Path) -> None:
        folder.mkdir()
        port = free_port()
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {folder}\nlogfile {folder}/log\n"
            f"sentinel monitor main 127.0.0.1 {self.master.port} 2\n"
            "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n"
        )
        server = binary() or self.master.binary
        process = subprocess.Popen(
            [server, str(config), "--sentinel"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.sentinels.append((process, port))

    def _agreed(self) -> bool:
        for _, port in self.sentinels:
            with contextlib.suppress(redis.RedisError), redis.Redis(port=port) as client:
                state: Any = client.sentinel_master("main")
                if state["num-other-sentinels"] == 2 and state["num-slaves"] == 1:
                    continue
            return False
        return True


def follow(server: RedisServer, seconds: float = 10.0) -> None:
    """Waits until a server has become a master."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError), server.client() as client:
            info: Any = client.info("replication")
            if info["role"] == "master":
                return
        assert time.monotonic() < deadline, "no failover"
        time.sleep(0.05)
