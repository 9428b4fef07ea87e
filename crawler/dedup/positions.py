"""Where a fingerprint's bits lie. A stored format: never changed, only given a new version.

Hash bytes are the murmur3 x64-128 digests of the fingerprint with seeds 0, 1, 2, … one after the other.

============ ==================================================================================================
hash bytes   meaning (big-endian)
============ ==================================================================================================
0-5          the number H; in a layer of B blocks the element's block is ``H mod B``
9+3i - 10+3i the number D; in lane i of the block the element's bit is ``V = D * L >> 16``
============ ==================================================================================================

L is the lane's size in bits: 48, or 96. A lane is one or two big-endian 48-bit words (what a Lua number holds exactly).
Values 0-47 of V are the bits 2^V of the first word, values 48-95 those of the second.

Each lane has hash bits of its own. Double hashing, right for one big array, is wrong here: within a block of a thousand
bits there are so few (start, step) pairs that whole patterns collide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from mmh3 import mmh3_x64_128_digest

from crawler.dedup.sizing import WORD_BITS, Shape

LAYOUT = 1
"""Version of this format; stored beside the bits."""

HASH_BYTES = 6
_DIGEST_BYTES = 16
_COMPACT = Struct(">6s2xi4x").iter_unpack


def encode(fingerprint: bytes, shape: Shape) -> bytes:
    """The ``6 + lanes`` bytes (H, then each lane's V) that tell the server where `fingerprint` lies, in every layer.

    >>> encode(b"a", Shape(lanes=2, lane_words=2)).hex()
    '897859f66555331b'
    """
    return encode_many((fingerprint,), shape)[0]


def encode_many(fingerprints: Sequence[bytes], shape: Shape) -> list[bytes]:
    """The same for each of a batch; the arithmetic is done for all lanes of all of them at once."""
    lanes, lane_words = shape
    size = 3 * lanes
    more = range(1, (8 + size - 1) // _DIGEST_BYTES + 1)
    heads, draws = [], []
    for fingerprint in fingerprints:
        stream = mmh3_x64_128_digest(fingerprint, 0)
        for seed in more:
            stream += mmh3_x64_128_digest(fingerprint, seed)
        heads.append(stream[:HASH_BYTES])
        draws.append(stream[8 : 8 + size])
    # 16-bit draws in 24-bit fields, so that one product of one big number leaves each V in its field's first byte.
    total = size * len(heads)
    product = (int.from_bytes(b"".join(draws)) & _low_16(total)) * (lane_words * WORD_BITS)
    values = product.to_bytes(total)[::3]
    return [head + values[at : at + lanes] for head, at in zip(heads, range(0, len(values), lanes), strict=True)]


@lru_cache(maxsize=16)
def _low_16(size: int) -> int:
    return int.from_bytes(b"\x00\xff\xff" * (size // 3))


def block(item: bytes, blocks: int) -> int:
    """Block of an encoded element in a layer of `blocks` blocks."""
    return int.from_bytes(item[:HASH_BYTES], "big") % blocks


def bits(item: bytes, lane_words: int) -> list[int]:
    """Bit numbers of an encoded element within its block, counted as Redis does (bit 0 is a byte's highest)."""
    return [
        lane * lane_words * WORD_BITS + value - value % WORD_BITS + WORD_BITS - 1 - value % WORD_BITS
        for lane, value in enumerate(item[HASH_BYTES:])
    ]


def encode_compact(fingerprints: Sequence[bytes]) -> list[bytes]:
    """What the compact memory stores: H as above, then a signed 32-bit integer (hash bytes 8-11) as decimal text.

    >>> encode_compact([b"a"])[0][6:]
    b'1518931537'
    """
    digests = b"".join([mmh3_x64_128_digest(fingerprint, 0) for fingerprint in fingerprints])
    return [b"%b%d" % parts for parts in _COMPACT(digests)]
