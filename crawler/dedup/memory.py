"""One memory of what was seen, used alone: atomic batches through an admission's Lua chunk, outside any exchange."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack
import redis

from crawler.dedup.admission import Admission, lua_source
from crawler.errors import StoredDataError

NEW, FULL = ord("1"), ord("F")


class SeenMemory:
    """Fingerprints under the keys that begin with `base`, on one server, tested and recorded by `admission`.

    Calls block and raise redis-py's errors; StoredDataError when the stored data was made with other parameters.
    """

    def __init__(self, client: redis.Redis, base: str, admission: Admission) -> None:
        self.client, self.base, self.admission = client, base, admission
        self._script = client.register_script(admission.lua + lua_source("batch"))
        self._config = msgpack.packb(admission.config(), use_bin_type=False)

    def prepare(self) -> None:
        """Check the stored metadata, or create it."""
        self._run("add", ())

    def add(self, fingerprints: Sequence[bytes]) -> bytes:
        """Record a batch atomically. One byte each: ``1`` new, ``0`` seen before, ``F`` full and not recorded."""
        return self._run("add", fingerprints)

    def has(self, fingerprints: Sequence[bytes]) -> bytes:
        """Look up a batch, recording nothing. One byte each: ``1`` seen, ``0`` not."""
        return self._run("has", fingerprints)

    def _run(self, operation: str, fingerprints: Sequence[bytes]) -> bytes:
        items = msgpack.packb([*map(self.admission.encode, fingerprints)], use_bin_type=False)
        try:
            answer: bytes = self._script(keys=[self.base], args=[self._config, operation, items])
        except redis.ResponseError as error:
            if str(error).startswith("DEDUP "):
                raise StoredDataError(str(error).removeprefix("DEDUP ")) from None
            raise
        return answer
