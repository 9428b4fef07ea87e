"""One memory of what was seen, used alone: atomic batches through an admission's Lua chunk, outside any exchange."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgpack
import redis

from crawler.dedup.admission import LuaAdmission, lua_source
from crawler.dedup.stored import Stored, read_stored
from crawler.errors import StoredDataError

NEW, FULL = ord("1"), ord("F")


class SeenMemory:
    """Fingerprints under the keys that begin with `base`, on one server, tested and recorded by `admission`.

    Calls block and raise redis-py's errors; StoredDataError when the stored data was made with other parameters.
    `epoch` is that of the last answer: when it changes, something seen may be unseen again.
    """

    def __init__(self, client: redis.Redis, base: str, admission: LuaAdmission) -> None:
        self.client, self.base, self.admission = client, base, admission
        self.epoch = b""
        self._script = _Script(client, admission.lua + lua_source("batch"), base)
        self._config = msgpack.packb(admission.config(), use_bin_type=False)

    def prepare(self) -> None:
        """Check the stored metadata, or create it."""
        self.add(())

    def add(self, fingerprints: Sequence[bytes]) -> bytes:
        """Record a batch atomically. One byte each: ``1`` new, ``0`` seen before, ``F`` full and not recorded."""
        return self._batch("add", fingerprints)

    def has(self, fingerprints: Sequence[bytes]) -> bytes:
        """Look up a batch, recording nothing. One byte each: ``1`` seen, ``0`` not."""
        return self._batch("has", fingerprints)

    def forget(self, fingerprints: Sequence[bytes]) -> bytes:
        """Forget a batch. One byte each: ``1`` forgotten, ``0`` was not there, ``F`` this kind of memory cannot."""
        return self._batch("forget", fingerprints)

    def fold(self, count: int = 1000) -> int:
        """Move up to `count` recent elements of a layered memory into its history; how many are left to move."""
        return int(self._run("fold", msgpack.packb(count)))

    def _batch(self, operation: str, fingerprints: Sequence[bytes]) -> bytes:
        return self._run(operation, self.admission.pack_many(fingerprints))

    def _run(self, operation: str, packed: bytes) -> bytes:
        try:
            reply: bytes = self._script(self._config, operation.encode(), packed)
        except redis.ResponseError as error:
            if str(error).startswith("DEDUP "):
                raise StoredDataError(str(error).removeprefix("DEDUP ")) from None
            raise
        self.epoch, _, answer = reply.partition(b" ")
        return answer


class _Script:
    """A Lua script with one key, called on a connection that is kept: a pool's care for each call costs as much again.

    Nothing is sent twice. A connection that the server closed meanwhile is made anew before anything is sent.
    """

    def __init__(self, client: redis.Redis, text: str, key: str) -> None:
        self._pool = client.connection_pool
        self._text, self._key = text.encode(), key.encode()
        self._sha = hashlib.sha1(self._text, usedforsecurity=False).hexdigest().encode()
        self._connection: Any = None

    def __call__(self, *args: bytes) -> Any:
        """What it returns. Raises redis-py's errors."""
        if self._connection is None:
            self._connection = self._pool.get_connection()
            weakref.finalize(self, self._pool.release, self._connection).atexit = False
        elif self._connection.can_read(0):
            self._connection.disconnect()
        try:
            return self._send(b"EVALSHA", self._sha, b"1", self._key, *args)
        except redis.exceptions.NoScriptError:  # a fresh or restarted server: nothing was executed
            return self._send(b"EVAL", self._text, b"1", self._key, *args)

    def _send(self, *words: bytes) -> Any:
        command = b"".join([b"*%d\r\n" % len(words), *[b"$%d\r\n%b\r\n" % (len(word), word) for word in words]])
        self._connection.send_packed_command((command,))
        return self._connection.read_response()


def clear(client: redis.Redis, base: str) -> None:
    """Delete whatever memory is under `base`: first all its metadata, so that whoever adds next begins a new one.

    That is one step, or a new memory could be begun over an old history. The data follows in small steps, so that no
    call holds the server for long. Data of the next memory has other names.
    """
    memories = read_stored(client, base)
    if memories:
        client.delete(*(stored.meta_key for stored in memories))
    for stored in memories:
        drop_data(client, stored)


def drop_data(client: redis.Redis, stored: Stored) -> None:
    """Delete the data of a memory whose metadata is gone, in small steps."""
    keys = stored.keys()
    while batch := tuple(islice(keys, 200)):
        client.unlink(*batch)
