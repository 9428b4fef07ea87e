"""What a dupefilter offers the frontier: a Lua chunk that admits inside the exchange, and what must travel for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from typing import Protocol, runtime_checkable

import msgpack


@runtime_checkable
class Admission(Protocol):
    """How a fingerprint is tested and recorded within a Lua call on the server.

    `lua` defines these local functions, explained in ``lua/common.lua``: ``dedup_open(base, conf)``,
    ``dedup_add(state, item)``, ``dedup_add_all(state, items)``, ``dedup_has(state, item)``,
    ``dedup_forget(state, item)``, ``dedup_fold(state, count)`` and ``dedup_close(state)``. An open state has
    ``.epoch``, a text that changes whenever something that was seen may no longer be.
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

    def encode_many(self, fingerprints: Sequence[bytes]) -> list[bytes]:
        """The items of a batch; costs less than one by one."""
        ...


@cache
def lua_source(name: str) -> str:
    """Text of ``lua/name.lua``."""
    return resources.files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Module:
    """A kind of memory in Lua: a source file, the constants put in front of it, and the modules it is built on."""

    name: str
    constants: str = ""
    parts: dict[str, Module] = field(default_factory=dict, hash=False)

    def expression(self) -> str:
        """Lua expression whose value is the module's table."""
        parts = "".join(f"local {name} = {part.expression()}\n" for name, part in self.parts.items())
        return f"(function()\n{parts}{self.constants}{lua_source(self.name)}end)()"


_NUMERALS = "local NUMERALS = {" + ",".join(f'"{number}"' for number in range(256)) + "}\n"
_FUNCTIONS = "local dedup_open, dedup_add, dedup_add_all, dedup_has, dedup_forget, dedup_fold, dedup_close\n"


@dataclass(frozen=True)
class LuaAdmission:
    """An admission by `module`; `kind` is what its metadata calls it.

    `encoder` makes the items of a batch, `packer` a msgpack array of them where that is cheaper than packing them.
    """

    kind: str
    module: Module
    encoder: Callable[[Sequence[bytes]], list[bytes]]
    packer: Callable[[Sequence[bytes]], bytes] | None = None

    @cached_property
    def lua(self) -> str:
        """The functions, as locals; nothing else leaks out of the chunk's block."""
        body = f"local SEEN = {self.module.expression()}\n{lua_source('admit')}"
        return f"{_FUNCTIONS}do\n{_NUMERALS}{lua_source('common')}{body}end\n"

    @property
    def forgets(self) -> bool:
        """Whether something just seen can be forgotten."""
        return self.kind.removeprefix("window/") not in ("bitmap", "native")

    def config(self) -> dict[str, int | float | str]:
        """Nothing: everything is constant."""
        return {}

    def encode(self, fingerprint: bytes) -> bytes:
        """What the server needs of a fingerprint."""
        return self.encoder((fingerprint,))[0]

    def encode_many(self, fingerprints: Sequence[bytes]) -> list[bytes]:
        """The same for each of a batch."""
        return self.encoder(fingerprints)

    def pack_many(self, fingerprints: Sequence[bytes]) -> bytes:
        """The items of a batch as a msgpack array, as a script takes them."""
        if self.packer is not None:
            return self.packer(fingerprints)
        packed: bytes = msgpack.packb(self.encoder(fingerprints), use_bin_type=False)
        return packed
