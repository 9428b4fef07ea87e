"""Where a fingerprint's bits lie. A stored format: never changed, only given a new version.

One murmur3 x64-128 per 16 bytes needed, seeds 0, 1, 2, … of the same fingerprint:

======= ==================================================================================
bytes   meaning
======= ==================================================================================
0-5     48-bit big-endian number H; an element's block in a layer of B blocks is ``H mod B``
6-      for each lane the byte within its 16 bytes, 1-based (1-16)
6+k-    for each lane the bit within that byte as a mask (1, 2, 4 … 128)
======= ==================================================================================

Within a block each lane has its own seven hash bits. Double hashing, right for one big array, is wrong here: a block of
a thousand bits has so few (start, step) pairs that whole patterns collide (measured elsewhere: 1.2-1.6 times the
theoretical error).
"""

from __future__ import annotations

from mmh3 import mmh3_x64_128_utupledigest

LAYOUT = 1
"""Version of this format; stored beside the bits."""

HASH_BYTES = 6
_LANES_PER_DIGEST = 16
_BYTE = bytes((value & 15) + 1 for value in range(256))
_MASK = bytes(1 << (value >> 4 & 7) for value in range(256))


def _digest(fingerprint: bytes, seed: int) -> bytes:
    low, high = mmh3_x64_128_utupledigest(fingerprint, seed)
    return low.to_bytes(8, "big") + high.to_bytes(8, "big")


def encode(fingerprint: bytes, lanes: int) -> bytes:
    """The ``6 + 2 * lanes`` bytes that tell the server where `fingerprint` lies, in every layer.

    >>> encode(b"a", 2).hex()
    '85555565f659080b1040'
    """
    digest = _digest(fingerprint, 1)
    for seed in range(2, 2 + (lanes - 1) // _LANES_PER_DIGEST):
        digest += _digest(fingerprint, seed)
    digest = digest[:lanes]
    return _digest(fingerprint, 0)[:HASH_BYTES] + digest.translate(_BYTE) + digest.translate(_MASK)


def block(item: bytes, blocks: int) -> int:
    """Block of an encoded element in a layer of `blocks` blocks."""
    return int.from_bytes(item[:HASH_BYTES], "big") % blocks


def bits(item: bytes) -> list[int]:
    """Bit numbers of an encoded element within its block, counted as Redis does (bit 0 is a byte's highest)."""
    lanes = (len(item) - HASH_BYTES) // 2
    return [
        (lane * 16 + item[HASH_BYTES + lane] - 1) * 8 + 8 - item[HASH_BYTES + lanes + lane].bit_length()
        for lane in range(lanes)
    ]
