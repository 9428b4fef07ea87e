"""Equal spellings of one URL, and the other way round: the class a spelling belongs to.

Written from RFC 3986 and the WHATWG URL standard alone, on purpose without ``crawler.canonical``: the site is the judge
of the canonicaliser, so the two must not share their mistakes.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

_UNRESERVED = set(string.ascii_letters + string.digits + "-._~")
_CLICK_IDS = ("gclid", "fbclid", "msclkid", "twclid", "ttclid")
_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


@lru_cache(maxsize=200_000)
def normal(target: str) -> tuple[str, tuple[str, ...]]:
    """Class of a request target: normal path and the sorted parameters that are not tracking.

    >>> normal("/a/../%7Euser/1?gclid=x&")
    ('/~user/1', ())
    """
    path, _, query = target.partition("#")[0].partition("?")
    pairs = [_escapes(pair.replace("+", "%20")) for pair in query.split("&") if pair]
    kept = [pair for pair in pairs if not _tracking(pair.partition("=")[0])]
    return _dots(_escapes(path or "/")), tuple(sorted(kept, key=lambda pair: pair.partition("=")[0]))


def _tracking(name: str) -> bool:
    return name.lower() in _CLICK_IDS or name.lower().startswith("utm_")


def _escapes(text: str) -> str:
    """Unreserved characters decoded, other escapes in capitals, raw characters escaped as UTF-8."""

    def one(match: re.Match[str]) -> str:
        char = chr(int(match[1], 16))
        return char if char in _UNRESERVED else match[0].upper()

    text = "".join(c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in text)
    return _ESCAPE.sub(one, text)


def _dots(path: str) -> str:
    out: list[str] = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments):
        if segment == "..":
            del out[-1:]
        if segment not in (".", ".."):
            out.append(segment)
        elif number == len(segments) - 1:
            out.append("")
    return "/" + "/".join(out)


# --- writing another spelling: each maker changes (path, parameters) into an equal one


Parts = tuple[str, list[str]]


def _utm(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    for name in rng.sample(_UTM, rng.randint(1, 3)):
        pairs.insert(rng.randint(0, len(pairs)), f"{name}=x{rng.randrange(100)}")
    return path, pairs


def _click(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    value = "".join(rng.choices(string.ascii_letters + string.digits, k=20))
    pairs.insert(rng.randint(0, len(pairs)), f"{rng.choice(_CLICK_IDS)}={value}")
    return path, pairs


def _dot_segments(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    head, tail = path.rsplit("/", 1)
    dots = rng.choice(("/.", "/x/..", "/%2e", "/x/%2E%2e", "/./."))
    return f"{head}{dots}/{tail}", pairs


def _escape_letter(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    places = [i for i, c in enumerate(path) if c.isascii() and c.isalpha() and path[max(0, i - 2) : i].find("%") < 0]
    if not places:
        return path, pairs
    at = rng.choice(places)
    return f"{path[:at]}%{ord(path[at]):02x}{path[at + 1 :]}", pairs


def _lower_hex(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    return _ESCAPE.sub(lambda m: m[0].lower(), path), [_ESCAPE.sub(lambda m: m[0].lower(), p) for p in pairs]


def _raw_letters(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    return re.sub(r"(%[C-F][0-9A-F](?:%[89AB][0-9A-F])+)", lambda m: unquote(m[1]), path), pairs


def _plus(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    return path, [pair.replace("%20", "+") for pair in pairs]


def _order(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    """Another order of different keys; the values of one key stay in theirs."""
    by_key: dict[str, list[str]] = {}
    for pair in pairs:
        by_key.setdefault(pair.partition("=")[0], []).append(pair)
    keys = [pair.partition("=")[0] for pair in pairs]
    rng.shuffle(keys)
    return path, [by_key[key].pop(0) for key in keys]


def _empty_pairs(rng: random.Random, path: str, pairs: list[str]) -> Parts:
    pairs.insert(rng.randint(0, len(pairs)), "")
    return path, pairs


_MAKERS: tuple[Callable[[random.Random, str, list[str]], Parts], ...] = (
    _utm,
    _click,
    _dot_segments,
    _escape_letter,
    _lower_hex,
    _raw_letters,
    _plus,
    _order,
    _empty_pairs,
)


def spell(rng: random.Random, authority: str, target: str) -> str:
    """Another absolute URL of the same class as ``http://authority/target``, one to three changes away."""
    path, _, query = target.partition("?")
    pairs = query.split("&") if query else []
    for maker in rng.sample(_MAKERS, rng.randint(1, 3)):
        path, pairs = maker(rng, path, pairs)
    url = f"{_scheme(rng)}://{_authority(rng, authority)}{path}"
    if pairs or rng.random() < 0.1:
        url += "?" + "&".join(pairs)
    return url + ("#part" if rng.random() < 0.2 else "")


def _scheme(rng: random.Random) -> str:
    return "HTTP" if rng.random() < 0.1 else "http"


def _authority(rng: random.Random, authority: str) -> str:
    """Another case of the host's letters; the default port written out, another one with a leading zero."""
    if rng.random() < 0.2:
        authority = authority.upper()
    if rng.random() < 0.1:
        authority = authority.replace(":", ":0") if ":" in authority else authority + ":80"
    return authority
