"""Which Bloom filter to use on a server: as the setting says, or else as stored, or else what the server can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

from crawler.dedup.stored import read_stored
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from crawler.dedup.kinds import Backend


def choose_backend(client: redis.Redis, base: str, wanted: str) -> Backend:
    """The backend for `base`. `wanted` is auto, bitmap or native; auto takes what is stored, else native if it can.

    Raises ConfigError when the server lacks what is wanted, or what is stored needs.
    """
    if wanted == "bitmap":
        return "bitmap"
    if wanted == "auto":
        kinds = {stored.kind.rpartition("/")[2] for stored in read_stored(client, base)}
        if "bitmap" in kinds:
            return "bitmap"
        if "native" not in kinds:
            return "native" if _has_bloom(client, base) else "bitmap"
    if not _has_bloom(client, base):
        raise ConfigError(
            "BLOOM_BACKEND", wanted, "this server has no BF commands: use Redis 8, load a Bloom module, or set bitmap"
        )
    return "native"


def _has_bloom(client: redis.Redis, base: str) -> bool:
    try:
        client.execute_command("BF.EXISTS", f"{base}:dedup:probe", "")  # type: ignore[no-untyped-call]
    except redis.ResponseError:
        return False
    return True
