"""Other ways to keep a Bloom filter or a set on plain Redis, as Lua that a call runs for each of a batch of elements.

Each takes KEYS[1] and ARGV[1], a msgpack array of items that begin with two 32-bit numbers, and is here only to be
measured beside what the project uses.
"""

from __future__ import annotations

from mmh3 import mmh3_x64_128_digest

_EACH = """
local seen = {}
for i, item in ipairs(cmsgpack.unpack(ARGV[1])) do
  local a, b = struct.unpack(">I4I4", item)
  %s
end
return #seen
"""


def two_words(fingerprint: bytes) -> bytes:
    """The item of a fingerprint."""
    return mmh3_x64_128_digest(fingerprint, 0)[:8]


def setbits(lanes: int, bits: int) -> str:
    """One SETBIT for each of the element's bits: the naive loop."""
    return _EACH % (
        f"for j = 0, {lanes - 1} do seen[#seen + 1] = redis.call('SETBIT', KEYS[1], (a + j * b) % {bits}, 1) end"
    )


def getbits(lanes: int, bits: int) -> str:
    """How many elements have all their bits set."""
    return _EACH % (
        f"local all = 1 for j = 0, {lanes - 1} do\n"
        f"if redis.call('GETBIT', KEYS[1], (a + j * b) % {bits}) == 0 then all = 0 break end end\n"
        "if all == 1 then seen[#seen + 1] = 1 end"
    )


def bitfield(lanes: int, bits: int) -> str:
    """One BITFIELD for the element, which sets all its bits and says what they were."""
    return _EACH % (
        "local c = {}\n"
        f"for j = 0, {lanes - 1} do local n = 4 * j\n"
        f"c[n + 1], c[n + 2], c[n + 3], c[n + 4] = 'SET', 'u1', (a + j * b) % {bits}, 1 end\n"
        "seen[#seen + 1] = redis.call('BITFIELD', KEYS[1], unpack(c))"
    )


def split_block(blocks: int) -> str:
    """Blocks of eight 32-bit words, one bit in each (the layout of Parquet), with GETRANGE and SETRANGE."""
    return _EACH % (
        f"local at = (a % {blocks}) * 32\n"
        "local w = {struct.unpack('>I4I4I4I4I4I4I4I4', redis.call('GETRANGE', KEYS[1], at, at + 31))}\n"
        "local new = false\n"
        "for j = 1, 8 do local m = 2 ^ (b % 32) b = (b * 5 + 12345 * j) % 4294967296\n"
        "if w[j] % (m + m) < m then w[j] = w[j] + m new = true end end\n"
        "if new then redis.call('SETRANGE', KEYS[1], at, struct.pack('>I4I4I4I4I4I4I4I4', unpack(w, 1, 8))) end"
    )
