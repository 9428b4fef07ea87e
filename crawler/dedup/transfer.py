"""A memory as a file: written from one server, read into another, whatever their versions.

A stream of msgpack values. Its head is ``["crawler-dedup", 2, {"fingerprint": version, "shard": from 0, "shards": how
many}]``. Then for each memory ``["memory", base suffix, metadata, expiry]``, followed by ``["string", key suffix,
bytes]``, ``["members", key suffix, [bytes…]]`` or ``["bloom", key suffix, iterator, bytes]`` for its data; at the end
``["end", number of values]``. Suffixes follow the base, so a file can be read under any base. Expiry is in ms since
1970, or 0. The head of version 1 had no third part; such a file is read without a look at what it would say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import IO, Any, NamedTuple

import msgpack
import redis

from crawler.dedup.memory import clear, drop_data
from crawler.dedup.stored import Stored, read_stored
from crawler.errors import ConfigError, StoredDataError

VERSION = 2
_NAME = "crawler-dedup"
_BATCH = 100


class Origin(NamedTuple):
    """Which pages a memory can tell apart: those of a shard's hosts, by fingerprints of one version."""

    fingerprint: str
    shard: int = 0
    shards: int = 1


class Part(NamedTuple):
    """A file and the memory it is to become, under `base`; `name` is for error messages."""

    client: redis.Redis
    base: str
    file: IO[bytes]
    name: str
    origin: Origin


def export(client: redis.Redis, base: str, file: IO[bytes], origin: Origin) -> int:
    """Write the memory under `base`; returns the number of values. Stop the crawl first: it is no snapshot."""
    memories = read_stored(client, base)
    if not memories:
        raise StoredDataError(f"{base}: nothing was seen yet, so there is nothing to export")
    pack = msgpack.Packer(use_bin_type=True).pack
    file.write(pack([_NAME, VERSION, origin._asdict()]))
    values = 0
    for stored in memories:
        expiry = max(0, int(client.pexpiretime(stored.meta_key)))
        file.write(pack(["memory", stored.base.removeprefix(base), stored.fields, expiry]))
        for value in _data(client, stored):
            file.write(pack(value))
            values += 1
    file.write(pack(["end", values]))
    return values


def load(parts: Sequence[Part]) -> list[int]:
    """Read files into memories, where there may be none; returns the number of values of each. All of them or none.

    Every file is checked whole before anything is written; metadata is written last and in one step, if no crawl has
    begun a memory meanwhile. What fails in between is taken back.
    """
    for part in parts:
        _check(part)
    written: list[int] = []
    try:
        for part in parts:
            values = _load(part)
            written.append(values)
    except BaseException:
        with suppress(redis.RedisError, OSError):
            for part in parts[: len(written)]:
                clear(part.client, part.base)
        raise
    return written


def _check(part: Part) -> None:
    if read_stored(part.client, part.base):
        raise StoredDataError(f"{part.base}: pages were seen there already; drop them first (scrapy dedup clear)")
    if not part.file.seekable():
        raise ConfigError("FILE", part.name, "is read twice, so it cannot be a pipe")
    for _ in _checked(part):
        pass


def _load(part: Part) -> int:
    part.file.seek(0)
    memories: list[tuple[Stored, int]] = []
    own_id = _new_id(part.client)
    try:
        written = _write_all(part.client, part.base, own_id, _checked(part), memories)
        if not _begin(part.client, memories):
            raise StoredDataError(f"{part.base}: a crawl began there meanwhile; stop it, drop what it saw "
                                  "(scrapy dedup clear) and import again")  # fmt: skip
    except BaseException:
        with suppress(redis.RedisError, OSError):
            for stored, _ in memories:
                drop_data(part.client, stored)
        raise
    return written


def _new_id(client: redis.Redis) -> str:
    """Begun now, like any memory: what an import leaves that was killed is never taken for this one's data."""
    seconds, microseconds = client.time()
    return f"{int(seconds) * 1_000_000 + int(microseconds):x}"


def _write_all(
    client: redis.Redis, base: str, own_id: str, values: Iterator[Any], memories: list[tuple[Stored, int]]
) -> int:
    """Write the data; `memories` gets each memory, and when it expires, before its data is written."""
    written, prefix = 0, ""
    for value in values:
        if value[0] == "memory":
            _, suffix, fields, expiry = value
            prefix = f":dedup:{fields['id']}:"
            memories.append((Stored(base + suffix, fields | {"id": own_id}), expiry))
            continue
        stored, expiry = memories[-1]
        _write(client, stored.prefix + value[1].removeprefix(prefix), expiry, value)
        written += 1
    return written


_BEGIN = """
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
for i = 1, #KEYS do
  local fields, expiry = unpack(cmsgpack.unpack(ARGV[i]))
  for name, value in pairs(fields) do redis.call('HSET', KEYS[i], name, value) end
  if expiry > 0 then redis.call('PEXPIREAT', KEYS[i], expiry) end
end
return 1
"""


def _begin(client: redis.Redis, memories: Sequence[tuple[Stored, int]]) -> bool:
    """Write all metadata, unless there is some by now."""
    keys = [stored.meta_key for stored, _ in memories]
    facts = [msgpack.packb([stored.fields, expiry], use_bin_type=False) for stored, expiry in memories]
    return client.eval(_BEGIN, len(keys), *keys, *facts) == 1  # type: ignore[no-any-return]


def _checked(part: Part) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(part.file, raw=False)
    try:
        _check_head(next(unpacker, None), part)
        count, prefix = 0, ""
        for value in unpacker:
            if value[0] == "end":
                if value[1] == count and prefix:
                    return
                break
            if value[0] == "memory":
                prefix = _prefix_of(*value[1:])
            elif not prefix or not _is_data(prefix, *value):
                break
            count += value[0] != "memory"
            yield value
    except (msgpack.UnpackException, ValueError, TypeError, IndexError, KeyError):
        pass
    raise ConfigError("FILE", part.name, "is damaged or was cut short; nothing was imported")


def _check_head(head: Any, part: Part) -> None:
    """Raises ConfigError if this project cannot read the file, ValueError, TypeError, KeyError if nobody can."""
    if not isinstance(head, list) or head[:1] != [_NAME]:
        raise ConfigError("FILE", part.name, "is not an export of scrapy dedup")
    _, version, *facts = head
    if version == 1:
        return
    if version != VERSION:
        raise ConfigError("FILE", part.name, f"has version {version}, this project reads {VERSION} and 1")
    theirs, own = Origin(**facts[0]), part.origin
    if theirs.fingerprint != own.fingerprint:
        remedy = "use the code, the rules and the settings that wrote it"
        raise ConfigError("FILE", part.name, f"holds fingerprints of version {theirs.fingerprint}, this project makes "
                                             f"{own.fingerprint}: {remedy}; nothing was imported")  # fmt: skip
    if theirs != own:
        raise ConfigError("FILE", part.name, f"is of shard {theirs.shard} of {theirs.shards}, and read for shard "
                                             f"{own.shard} of {own.shards}: set FRONTIER_SHARDS={theirs.shards}, and "
                                             "leave the files their numbers; nothing was imported")  # fmt: skip


def _prefix_of(suffix: Any, fields: Any, expiry: Any) -> str:
    """What the names of a memory's data begin with. Raises ValueError, TypeError, KeyError if it is none."""
    texts = [suffix, fields["kind"], *fields, *fields.values()]
    sound = all(isinstance(text, str) for text in texts) and isinstance(expiry, int) and expiry >= 0
    if not sound or not re.fullmatch(r"(:w\d+)?(:history)?", suffix) or not re.fullmatch(r"[0-9a-f]+", fields["id"]):
        raise ValueError("no memory")
    return f":dedup:{fields['id']}:"


def _is_data(prefix: str, type_: Any, suffix: Any, *content: Any) -> bool:
    """Whether it is data of the memory with this prefix: no file may write to other keys."""
    if not isinstance(suffix, str) or not suffix.startswith(prefix):
        return False
    match type_, content:
        case "string", [bytes()]:
            return True
        case "members", [[*members]]:
            return bool(members) and all(isinstance(member, bytes) for member in members)
        case "bloom", [int(), bytes()]:
            return True
    return False


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


def _write(client: redis.Redis, key: str, expiry: int, value: list[Any]) -> None:
    if value[0] == "string":
        client.set(key, value[2])
    elif value[0] == "members":
        client.sadd(key, *value[2])
    else:
        client.execute_command("BF.LOADCHUNK", key, value[2], value[3])  # type: ignore[no-untyped-call]
    if expiry:
        client.pexpireat(key, expiry)
