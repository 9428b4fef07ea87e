"""The ends of the work: taking a URL apart the way a browser does, and what is left to do when a browser would not."""

from __future__ import annotations

import re

from ada_url import normalize_url

from crawler.canonical.escapes import ascii_url, normal_path
from crawler.canonical.folds import Origin

_WEB = re.compile(r"[\x00-\x20]*(?:https?|wss?|ftp|file):", re.IGNORECASE)
PLAIN = re.compile(
    r"(https?://[a-z0-9.-]+(?::[0-9]+)?)(/[A-Za-z0-9\-._~!$&()*+,;=:@/]*)(?:\?([A-Za-z0-9\-._~!$&()*+,;=:@/?%]*))?"
)
"""Web addresses in which the parser changes nothing behind the origin, unless there are dot segments in the path."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_GENERIC = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_ORIGIN = re.compile(r"([a-z]+)://([^/]*@)?(\[[^]]*\]|[^:/]*)(:[0-9]+)?")
_ROUTES = ("/", "!")
_REMOVED = str.maketrans("", "", "\t\n\r")  # by a browser, wherever they stand
_EDGES = "".join(map(chr, range(0x21)))  # what a browser trims


def whatwg(url: str) -> str | None:
    """`url` as a browser writes it, or None if it is no web address or a browser would refuse it."""
    if not url.startswith(("http://", "https://")) and not _WEB.match(url.translate(_REMOVED)):
        return None
    return _parsed(url)


def _parsed(url: str) -> str | None:
    try:
        return normalize_url(url)
    except ValueError:
        # No text has lone surrogates: they can only be meant as their octets.
        return _parsed(ascii_url(url)) if _SURROGATE.search(url) else None


def split_origin(origin: str) -> Origin:
    """The parts of ``scheme://userinfo@host:port``, as a browser writes it."""
    found = _ORIGIN.fullmatch(origin)
    assert found
    return Origin(found[1], found[2] or "", found[3], found[4] or "")


def kept_fragment(fragment: str, mode: str) -> str:
    """``#fragment`` or nothing: `mode` is drop, keep, or route (only ``#/`` and ``#!``, which a script reads)."""
    if mode == "keep" or (mode == "route" and fragment.startswith(_ROUTES)):
        return "#" + normal_path(fragment)
    return ""


def generic(url: str, *, keep_fragments: bool = False) -> str:
    """RFC 3986's safe steps only: scheme and host in lower case, dots, escapes in one spelling, no fragment.

    Tabs and newlines go, as in a browser."""
    found = _GENERIC.fullmatch(url.translate(_REMOVED).strip(_EDGES))
    if not found:
        return url  # data:, about: and the like: every octet may matter
    scheme, authority, path, query, fragment = (ascii_url(part or "") for part in found.groups())
    userinfo, at, host = authority.rpartition("@")
    path = without_dots(normal_path(path)) if path else "/"
    result = f"{scheme.lower()}://{userinfo}{at}{host.lower()}{path}"
    if len(query) > 1 or (query and not _WEB.match(url.translate(_REMOVED))):  # elsewhere an empty query may count
        result += normal_path(query)
    return result + normal_path(fragment) if keep_fragments else result


def generic_host(url: str) -> str:
    """The host of a URL that is not for a browser, in lower case and without its port; ``""`` if there is none."""
    found = _GENERIC.fullmatch(url.translate(_REMOVED).strip(_EDGES))
    if not found:
        return ""
    host = ascii_url(found[2]).rpartition("@")[2].lower()
    return host[: host.find("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def without_dots(path: str) -> str:
    """RFC 3986 5.2.4 for a path that begins with a slash."""
    segments: list[str] = []
    *inner, last = path.split("/")[1:]
    for segment in inner:
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    if last == "..":
        del segments[-1:]
    segments.append("" if last in {".", ".."} else last)
    return "/" + "/".join(segments)
