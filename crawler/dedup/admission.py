"""What a dupefilter offers the frontier: a Lua chunk that admits inside the exchange, and what must travel for it."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Protocol, runtime_checkable


@runtime_checkable
class Admission(Protocol):
    """How a fingerprint is tested and recorded within a Lua call on the server.

    `lua` defines as locals ``dedup_open(base, conf)``, ``dedup_add(state, item)``, ``dedup_has(state, item)`` and
    ``dedup_close(state)`` (contract in the chunk's header); an open state has ``.epoch``, a text that changes whenever
    something that was seen may no longer be.
    """

    @property
    def lua(self) -> str:
        """The chunk, to be put in front of the script that calls it."""
        ...

    def config(self) -> dict[str, int | float | str]:
        """The `conf` of ``dedup_open``; a few bytes, sent with each call."""
        ...

    def encode(self, fingerprint: bytes) -> bytes:
        """The `item` of ``dedup_add`` for a request's fingerprint."""
        ...


@cache
def lua_source(name: str) -> str:
    """Text of ``name.lua`` of this package."""
    return resources.files(__package__).joinpath(f"{name}.lua").read_text(encoding="utf-8")
