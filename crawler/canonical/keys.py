"""From a request's parts to the bytes that stand for it: ``version byte + 19 bytes of BLAKE2b``, 20 in all.

A stored format: what is hashed never changes without another :data:`FINGERPRINT_VERSION`. The parts are written so that
no two different requests give the same text: every part of free length is preceded by its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from crawler.canonical.version import VERSION_BYTE

Headers = Sequence[tuple[bytes, Sequence[bytes]]]

_DIGEST_SIZE = 19


def request_key(method: str, url: str, body: bytes = b"", headers: Headers = (), *, exact: bool = False) -> bytes:
    """The fingerprint of a request.

    `url` is the canonical URL, or with ``exact=True`` the URL as it is: the two never meet, even when they are equal
    as text. `headers` are the headers that count, sorted, each with its values in order.
    """
    address = url.encode("utf-8", "surrogatepass")
    text = b"%s %s %d %s" % (b"exact" if exact else b"url", method.encode(), len(address), address)
    if body:
        text += b"\nbody %d " % len(body) + body
    for name, values in headers:
        text += b"\nheader %d %s" % (len(name), name)
        for value in values:
            text += b" %d %s" % (len(value), value)
    return VERSION_BYTE + blake2b(text, digest_size=_DIGEST_SIZE).digest()


def visit_key(key: bytes, visit: int) -> bytes:
    """The fingerprint of the `visit`-th return (from 1) to the class `key` within one chain of redirects."""
    return VERSION_BYTE + blake2b(b"visit %d %s" % (visit, key), digest_size=_DIGEST_SIZE).digest()
