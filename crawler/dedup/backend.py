"""Which Bloom filter to use on a server: as the setting says, or else as stored, or else what the server can do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import redis

from crawler.dedup.stored import read_stored
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from crawler.dedup.kinds import Backend

logger = logging.getLogger(__name__)


def choose_backend(client: redis.Redis, base: str, wanted: str, *, native_fits: bool = True) -> Backend:
    """The backend for `base`. `wanted` is auto, bitmap or native; auto takes what is stored, else native if it can.

    `native_fits` says whether native reaches the error rate; if not, auto takes bitmap and logs it. Raises
    ConfigError when the server lacks what is wanted, or what is stored needs.
    """
    if wanted == "bitmap":
        return "bitmap"
    if wanted == "auto":
        kinds = {stored.kind.rpartition("/")[2] for stored in read_stored(client, base)}
        if "bitmap" in kinds:
            return "bitmap"
        if "native" not in kinds:
            return _best(client, base, native_fits)
    if not _has_bloom(client, base):
        raise ConfigError(
            "BLOOM_BACKEND", wanted, "this server has no BF commands: use Redis 8, load a Bloom module, or set bitmap"
        )
    return "native"


def _best(client: redis.Redis, base: str, native_fits: bool) -> Backend:
    if not _has_bloom(client, base):
        return "bitmap"
    if not native_fits:
        logger.info("The server's own Bloom filter cannot err as little as BLOOM_ERROR_RATE says: bitmaps are used")
    return "native" if native_fits else "bitmap"


def _has_bloom(client: redis.Redis, base: str) -> bool:
    try:
        client.execute_command("BF.EXISTS", f"{base}:dedup:probe", "")  # type: ignore[no-untyped-call]
    except redis.ResponseError:
        return False
    return True
