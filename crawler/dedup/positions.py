"""Where a fingerprint's bits lie. A stored format: never changed, only given a new version.

Hash bytes are the murmur3 x64-128 digests of the fingerprint with seeds 0, 1, 2, … one after the other.

============ ==================================================================================================
hash bytes   meaning (big-endian)
============ ==================================================================================================
0-5          the number H; in a layer of B blocks the element's block is ``H mod B``
6+2i - 7+2i  the number D; in lane i of the block the element's bit is ``V = D * L >> 16``
============ ==================================================================================================

L is the lane's size in bits: 48, or 96. A lane is one or two big-endian 48-bit words (what a Lua number holds exactly).
Values 0-47 of V are the bits 2^V of the first word, values 48-95 those of the second.

Each lane has hash bits of its own. Double hashing, right for one big array, is wrong here: within a block of a thousand
bits there are so few (start, step) pairs that whole patterns collide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import add
from struct import Struct, unpack_from

from mmh3 import mmh3_x64_128_digest

from crawler.dedup.sizing import WORD_BITS, Shape

LAYOUT = 2
"""Version of this format; stored beside the bits."""

HASH_BYTES = 6
_DIGEST_BYTES = 16
_COMPACT = Struct(">6s2xi4x").iter_unpack
_HEADS = [b"%c" % (0xA0 | size) for size in range(32)].__getitem__  # of msgpack's short raw strings


def encode(fingerprint: bytes, shape: Shape) -> bytes:
    """The ``6 + lanes`` bytes (H, then each lane's V) that tell the server where `fingerprint` lies, in every layer.

    >>> encode(b"a", Shape(lanes=2, lane_words=2)).hex()
    '897859f665552021'
    """
    stream = b"".join([mmh3_x64_128_digest(fingerprint, seed) for seed in range(_row(shape) // _DIGEST_BYTES)])
    bits = shape.lane_words * WORD_BITS
    return stream[:HASH_BYTES] + bytes(
        [draw * bits >> 16 for draw in unpack_from(f">{shape.lanes}H", stream, HASH_BYTES)]
    )


def encode_many(fingerprints: Sequence[bytes], shape: Shape) -> list[bytes]:
    """The same for each of a batch; costs less than one by one."""
    stream, values = _draw(fingerprints, shape)
    row, first = _row(shape), HASH_BYTES // 2
    return [
        stream[at : at + HASH_BYTES] + values[at // 2 + first : at // 2 + first + shape.lanes]
        for at in range(0, len(stream), row)
    ]


def pack_many(fingerprints: Sequence[bytes], shape: Shape) -> bytes:
    """:func:`encode_many` as one msgpack array of raw strings, written column by column: cheaper than packing them."""
    stream, values = _draw(fingerprints, shape)
    row, first, count = _row(shape), HASH_BYTES // 2, len(fingerprints)
    head = b"\xd9%c" % (HASH_BYTES + shape.lanes)
    columns = [b"%c" % byte * count for byte in head]
    columns += [stream[at::row] for at in range(HASH_BYTES)]
    columns += [values[at :: row // 2] for at in range(first, first + shape.lanes)]
    packed = bytearray(len(columns) * count)
    for at, column in enumerate(columns):
        packed[at :: len(columns)] = column
    return b"\xdd" + count.to_bytes(4) + packed


def _row(shape: Shape) -> int:
    """Hash bytes of one element, in whole digests."""
    return -(-(HASH_BYTES + 2 * shape.lanes) // _DIGEST_BYTES) * _DIGEST_BYTES


def _draw(fingerprints: Sequence[bytes], shape: Shape) -> tuple[bytes, bytes]:
    """The hash bytes of all elements, and the V of each two of them, for all lanes of a batch at once.

    A draw of 16 bits in a field of 32 leaves room for its product, so one product of one big number makes half of the
    values; each V is then the second byte of its field.
    """
    seeds = range(_row(shape) // _DIGEST_BYTES)
    stream = b"".join([mmh3_x64_128_digest(fingerprint, seed) for fingerprint in fingerprints for seed in seeds])
    size, bits, draws = len(stream), shape.lane_words * WORD_BITS, int.from_bytes(stream)
    low_16 = _low_16(size)
    values = bytearray(size // 2)
    values[::2] = ((draws >> 16 & low_16) * bits).to_bytes(size)[1::4]
    values[1::2] = ((draws & low_16) * bits).to_bytes(size)[1::4]
    return stream, bytes(values)


@lru_cache(maxsize=16)
def _low_16(size: int) -> int:
    return int.from_bytes(b"\x00\x00\xff\xff" * (size // 4))


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
    """What the compact memory stores: H as above, then a signed 32-bit integer (hash bytes 8-11) as decimal text, ended
    by a zero byte.

    >>> encode_compact([b"a"])[0][6:]
    b'1518931537\\x00'
    """
    digests = b"".join(map(mmh3_x64_128_digest, fingerprints))
    return [b"%b%d\x00" % parts for parts in _COMPACT(digests)]


def pack_compact(fingerprints: Sequence[bytes]) -> bytes:
    """:func:`encode_compact` as one msgpack array of raw strings; each is shorter than 32 bytes."""
    items = encode_compact(fingerprints)
    return b"\xdd%b%b" % (len(items).to_bytes(4), b"".join(map(add, map(_HEADS, map(len, items)), items)))
