"""A memory as a file: written from one server, read into another, whatever their versions.

A stream of msgpack values: ``["crawler-dedup", 1]``; then for each memory ``["memory", base suffix, metadata, expiry]``
followed by ``["string", key suffix, bytes]``, ``["members", key suffix, [bytes…]]`` or ``["bloom", key suffix,
iterator, bytes]`` for its data; at the end ``["end", number of values]``. Suffixes follow the base, so a file can be
read under any base. Expiry is in ms since 1970, or 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

import msgpack
import redis

from crawler.dedup.stored import Stored, read_stored
from crawler.errors import ConfigError, StoredDataError

VERSION = 1
_NAME = "crawler-dedup"
_BATCH = 100


def export(client: redis.Redis, base: str, file: IO[bytes]) -> int:
    """Write the memory under `base`; returns the number of its data keys. Stop the crawl first: it is no snapshot."""
    memories = read_stored(client, base)
    if not memories:
        raise StoredDataError(f"{base}: nothing was seen yet, so there is nothing to export")
    pack = msgpack.Packer(use_bin_type=True).pack
    file.write(pack([_NAME, VERSION]))
    keys = values = 0
    for stored in memories:
        expiry = max(0, int(client.pexpiretime(stored.meta_key)))
        file.write(pack(["memory", stored.base.removeprefix(base), stored.fields, expiry]))
        for value in _data(client, stored):
            file.write(pack(value))
            values += 1
            keys += 1
    file.write(pack(["end", values]))
    return keys


def load(client: redis.Redis, base: str, file: IO[bytes], name: str) -> int:
    """Read a file into `base`, where no memory may be; returns the number of values. `name` is for error messages.

    Metadata is written last: what was read half is never taken for a memory.
    """
    if read_stored(client, base):
        raise StoredDataError(f"{base}: pages were seen there already; drop them first (scrapy dedup clear)")
    values = _checked(file, name)
    written, memories, memory = 0, [], None
    for value in values:
        if value[0] == "memory":
            memory = Stored(base + value[1], value[2]), value[3]
            memories.append(memory)
            continue
        if memory is None:
            raise ConfigError("FILE", name, "is damaged: data before its metadata")
        _write(client, memory[0], memory[1], value)
        written += 1
    for stored, expiry in reversed(memories):
        client.hset(stored.meta_key, mapping=stored.fields)
        if expiry:
            client.pexpireat(stored.meta_key, expiry)
    return written


def _checked(file: IO[bytes], name: str) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(file, raw=False)
    try:
        head = next(unpacker, None)
        if not isinstance(head, list) or head[:1] != [_NAME]:
            raise ConfigError("FILE", name, "is not an export of scrapy dedup")
        if head[1] != VERSION:
            raise ConfigError("FILE", name, f"has version {head[1]}, this project reads {VERSION}")
        count = 0
        for value in unpacker:
            if value[0] == "end":
                if value[1] == count:
                    return
                break
            count += value[0] != "memory"
            yield value
    except (msgpack.UnpackException, ValueError, TypeError, IndexError, KeyError):
        pass
    raise ConfigError("FILE", name, "is damaged or was cut short; what was read is not used")


def _data(client: redis.Redis, stored: Stored) -> Iterator[list[Any]]:
    kind = stored.kind.partition("/")[0]
    keys = stored.keys()
    if kind == "native":
        yield from _native(client, next(keys), stored)
        return
    while batch := list(islice(keys, _BATCH)):
        suffixes = [key.removeprefix(stored.base) for key in batch]
        if kind == "bitmap":
            for suffix, value in zip(suffixes, client.mget(batch), strict=True):
                if value is not None:
                    yield ["string", suffix, value]
        else:
            for suffix, key in zip(suffixes, batch, strict=True):
                members = client.sscan_iter(key, count=1000)
                while some := list(islice(members, 1000)):
                    yield ["members", suffix, some]


def _native(client: redis.Redis, key: str, stored: Stored) -> Iterator[list[Any]]:
    iterator = 0
    while True:
        iterator, data = client.execute_command("BF.SCANDUMP", key, iterator)  # type: ignore[no-untyped-call]
        if not iterator:
            return
        yield ["bloom", key.removeprefix(stored.base), iterator, data]


def _write(client: redis.Redis, stored: Stored, expiry: int, value: list[Any]) -> None:
    key = stored.base + value[1]
    if value[0] == "string":
        client.set(key, value[2])
    elif value[0] == "members":
        client.sadd(key, *value[2])
    else:
        client.execute_command("BF.LOADCHUNK", key, value[2], value[3])  # type: ignore[no-untyped-call]
    if expiry:
        client.pexpireat(key, expiry)
