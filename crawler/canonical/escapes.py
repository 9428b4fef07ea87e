"""Percent-escapes: one spelling for each octet, without ever changing what an octet means.

RFC 3986 (2.1, 2.3, 6.2.2.2): an escaped unreserved character is the character, hex digits are upper case, and
characters that a URL may not contain are the same as their escapes. Reserved characters keep the spelling they came in,
because ``a%2Fb`` and ``a/b`` may be two pages. A ``%`` that begins no escape stands for itself, ``%25``.

In a query, ``+`` and ``%20`` are one space (HTML form encoding), and ``! ' ( ) *`` are the same raw or escaped: they
had no reserved role in RFC 2396, and form encoders disagree on them to this day.

Nothing is decoded twice, and octets are never read as text: a GBK query stays the octets it was.
"""

from __future__ import annotations

import re
import string

_UNRESERVED = string.ascii_letters + string.digits + "-._~"
_ESCAPE = r"%[0-9A-Fa-f]{2}|"
_HEX = [high + low for high in string.hexdigits for low in string.hexdigits]


def _table(same: str, space: str, always: str) -> dict[str, str]:
    """What each token becomes: escapes of `same` are decoded, raw characters in `always` are escaped."""
    table = {"%": "%25"}
    for digits in _HEX:
        char = chr(int(digits, 16))
        table[f"%{digits}"] = char if char in same else f"%{digits.upper()}"
        if char == " ":
            table[f"%{digits}"] = space
    table.update({char: f"%{ord(char):02X}" for char in always})
    return table


_PATH_TABLE = _table(_UNRESERVED, "%20", '"<>[\\]^`{|}')
_QUERY_TABLE = _table(_UNRESERVED + "!()*", "+", "\"'<>[\\]^`{|}")
PATH_ODD = re.compile(r'[%"<>\[\\\]^`{|}]')
"""Finds out whether :func:`normal_path` could change anything."""
QUERY_ODD = re.compile(r"""[%"'<>\[\\\]^`{|}]""")
"""Finds out whether :func:`normal_query` could change anything."""
_PATH_TOKENS = re.compile(_ESCAPE + PATH_ODD.pattern)
_QUERY_TOKENS = re.compile(_ESCAPE + QUERY_ODD.pattern)
_NOT_ASCII_VISIBLE = re.compile(r"[^\x21-\x7e]")


def normal_path(path: str) -> str:
    """The path of an ASCII URL with every escape in its one spelling.

    >>> normal_path("/%7euser/100%/a%2fb")
    '/~user/100%25/a%2Fb'
    """
    return _PATH_TOKENS.sub(lambda token: _PATH_TABLE[token[0]], path)


def normal_query(query: str) -> str:
    """The query (without ``?``) of an ASCII URL with every escape in its one spelling; a space becomes ``+``.

    >>> normal_query("q=%28a%20b%29&c=%2b")
    'q=(a+b)&c=%2B'
    """
    return _QUERY_TOKENS.sub(lambda token: _QUERY_TABLE[token[0]], query)


def ascii_url(text: str) -> str:
    """`text` with spaces, controls and non-ASCII characters as UTF-8 escapes; lone surrogates are allowed."""
    return _NOT_ASCII_VISIBLE.sub(
        lambda found: "".join(f"%{octet:02X}" for octet in found[0].encode("utf-8", "surrogatepass")), text
    )
