"""One memory of what was seen, used alone: atomic batches through an admission's Lua chunk, outside any exchange."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgpack
import redis

from crawler.dedup.admission import Admission, lua_source
from crawler.dedup.stored import read_stored
from crawler.errors import StoredDataError

NEW, FULL = ord("1"), ord("F")


class SeenMemory:
    """Fingerprints under the keys that begin with `base`, on one server, tested and recorded by `admission`.

    Calls block and raise redis-py's errors; StoredDataError when the stored data was made with other parameters.
    `epoch` is that of the last answer: when it changes, something seen may be unseen again.
    """

    def __init__(self, client: redis.Redis, base: str, admission: Admission) -> None:
        self.client, self.base, self.admission = client, base, admission
        self.epoch = b""
        self._script = client.register_script(admission.lua + lua_source("batch"))
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
        return int(self._run("fold", count))

    def _batch(self, operation: str, fingerprints: Sequence[bytes]) -> bytes:
        answer: bytes = self._run(operation, self.admission.encode_many(fingerprints))
        return answer

    def _run(self, operation: str, items: object) -> bytes:
        try:
            packed = msgpack.packb(items, use_bin_type=False)
            self.epoch, answer = self._script(keys=[self.base], args=[self._config, operation, packed])
        except redis.ResponseError as error:
            if str(error).startswith("DEDUP "):
                raise StoredDataError(str(error).removeprefix("DEDUP ")) from None
            raise
        return answer  # type: ignore[no-any-return]


def clear(client: redis.Redis, base: str) -> None:
    """Delete whatever memory is under `base`: first its metadata, so that whoever adds next begins a new one.

    In small steps, so that no call holds the server for long. Data of the next memory has other names.
    """
    for stored in read_stored(client, base):
        client.delete(stored.meta_key)
        keys = stored.keys()
        while batch := tuple(islice(keys, 200)):
            client.unlink(*batch)
