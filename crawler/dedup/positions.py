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

from mmh3 import mmh3_x64_128_digest

from crawler.dedup.sizing import MAX_LANES, WORD_BITS, Shape

LAYOUT = 1
"""Version of this format; stored beside the bits."""

HASH_BYTES = 6
_LOW_16 = [int.from_bytes(b"\x00\xff\xff" * lanes) for lanes in range(MAX_LANES + 1)]


def encode(fingerprint: bytes, shape: Shape) -> bytes:
    """The ``6 + lanes`` bytes (H, then each lane's V) that tell the server where `fingerprint` lies, in every layer.

    >>> encode(b"a", Shape(lanes=2, lane_words=2)).hex()
    '897859f66555331b'
    """
    lanes, lane_words = shape
    size = 3 * lanes
    stream = mmh3_x64_128_digest(fingerprint, 0)
    for seed in range(1, (size + 23) // 16):
        stream += mmh3_x64_128_digest(fingerprint, seed)
    # All lanes at once: 16-bit draws in 24-bit fields, so that one product leaves each V in its field's first byte.
    values = (int.from_bytes(stream[8 : 8 + size]) & _LOW_16[lanes]) * (lane_words * WORD_BITS)
    return stream[:HASH_BYTES] + values.to_bytes(size)[::3]


def block(item: bytes, blocks: int) -> int:
    """Block of an encoded element in a layer of `blocks` blocks."""
    return int.from_bytes(item[:HASH_BYTES], "big") % blocks


def bits(item: bytes, lane_words: int) -> list[int]:
    """Bit numbers of an encoded element within its block, counted as Redis does (bit 0 is a byte's highest)."""
    return [
        lane * lane_words * WORD_BITS + value - value % WORD_BITS + WORD_BITS - 1 - value % WORD_BITS
        for lane, value in enumerate(item[HASH_BYTES:])
    ]


def encode_compact(fingerprint: bytes) -> bytes:
    """What the compact memory stores: H as above, then a signed 32-bit integer (hash bytes 8-11) as decimal text.

    >>> encode_compact(b"a")[6:]
    b'1518931537'
    """
    digest = mmh3_x64_128_digest(fingerprint, 0)
    return digest[:HASH_BYTES] + b"%d" % int.from_bytes(digest[8:12], signed=True)
