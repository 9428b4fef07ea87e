"""Opt-in equivalences: what many sites serve as one page, and some do not. A site rule names those it wants.

Each is a small function on one part of the URL. They run in the order of the tables below, whatever the order in a
rule, and again until nothing changes, so that one rule has one meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from crawler.canonical.escapes import normal_path


class Origin(NamedTuple):
    """The part of a web address before the path; `userinfo` keeps its ``@``, `port` its ``:``."""

    scheme: str
    userinfo: str
    host: str
    port: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.userinfo}{self.host}{self.port}"


# ------------------------------------------------------------------------------------------------------------- origin


def _userinfo(origin: Origin) -> Origin:
    return origin._replace(userinfo="")


def _hostdot(origin: Origin) -> Origin:
    return origin._replace(host=host) if (host := origin.host.removesuffix(".")) and host[-1] != "." else origin


def _https(origin: Origin) -> Origin:
    return origin._replace(scheme="https") if origin.scheme == "http" and not origin.port else origin


def _without_label(label: str, origin: Origin) -> Origin:
    rest = origin.host.removeprefix(label + ".")
    return origin._replace(host=rest) if "." in rest.removesuffix(".") else origin


def _www(origin: Origin) -> Origin:
    """``www.www.site`` is no spelling of ``site``."""
    return origin if origin.host.startswith("www.www.") else _without_label("www", origin)


def _mobile(origin: Origin) -> Origin:
    """``m.site``, ``mobile.site`` and ``en.m.site`` are ``site`` and ``en.site``; so is ``m.m.site``."""
    first, _, rest = origin.host.partition(".")
    if rest.startswith("m.") and "." in rest[2:]:
        return _mobile(origin._replace(host=f"{first}.{rest[2:]}"))
    folded = _without_label("mobile", _without_label("m", origin))
    return folded if folded == origin else _mobile(folded)


def _amp_origin(origin: Origin) -> Origin:
    return _without_label("amp", origin)


# --------------------------------------------------------------------------------------------------------------- path

_SUBDELIMS = re.compile("%(?:21|24|27|28|29|2A|2C|3A|40)")
_ASP_SESSION = re.compile(r"/\((?:[A-Z]\([0-9a-z]{24,}\))+\)(?=/)", re.IGNORECASE)
_INDEX = re.compile(
    r"/(?:index|default)\.(?:html?|xhtml|shtml?|php[3-8]?|phtml|aspx?|jspx?|cfml?|cgi|pl|do)$", re.IGNORECASE
)
_AMP_HTML = re.compile(r"(?<=[^.])\.amp(\.html?)?$")  # never down to a dot segment
_AMP_FOLDER = re.compile(r"(?<=.)/amp/?$")


def _subdelims(text: str) -> str:
    return _SUBDELIMS.sub(lambda found: chr(int(found[0][1:], 16)), text)


def _aspsession(path: str) -> str:
    return _ASP_SESSION.sub("", path)


def _slashes(path: str) -> str:
    return re.sub("/{2,}", "/", path)


def _case(path: str) -> str:
    return normal_path(path.lower())


def _amp_path(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    if ";" not in name:  # the end of a path parameter's value says nothing
        name = _AMP_HTML.sub(lambda found: found[1] or "", name)
    return _AMP_FOLDER.sub("", folder + slash + name)


def _index(path: str) -> str:
    return _INDEX.sub("/", path)


def _slash(path: str) -> str:
    """One slash, the end of a folder's name: ``/a//`` is no spelling of ``/a``."""
    return path[:-1] if path.endswith("/") and path[-2:-1] not in {"", "/"} else path


# -------------------------------------------------------------------------------------------------------------- query

_SUBDELIMS_QUERY = re.compile("%(?:24|2C|2F|3A|3F|40)")


def _semicolon(query: str) -> str:
    return query.replace(";", "&")


def _subdelims_query(query: str) -> str:
    return _SUBDELIMS_QUERY.sub(lambda found: chr(int(found[0][1:], 16)), query)


_AMP_PAIRS = {"amp", "amp=", "amp=1", "amp=true", "outputtype=amp"}


def amp_pair(pair: str) -> bool:
    """Whether a query's pair only asks for the AMP variant of the page."""
    return pair.lower() in _AMP_PAIRS


# --------------------------------------------------------------------------------------------- before the other steps

_PCTU = re.compile("(?:%u[0-9A-Fa-f]{4})+")


def pctu(text: str) -> str:
    """Non-standard ``%u011f`` escapes (UTF-16 code units, from JavaScript's ``escape``) as UTF-8 escapes.

    Half a surrogate pair stands for no character and stays as it is.
    """

    def replace(found: re.Match[str]) -> str:
        made, start = [], 0
        for char in bytes.fromhex(found[0].replace("%u", "")).decode("utf-16-be", "surrogatepass"):
            end = start + (12 if char > "\uffff" else 6)
            lone = "\ud800" <= char <= "\udfff"
            made.append(found[0][start:end] if lone else "".join(f"%{octet:02X}" for octet in char.encode()))
            start = end
        return "".join(made)

    return _PCTU.sub(replace, text)


def unmangle(path: str, query: str) -> tuple[str, str]:
    """``/x&a=1`` without a query was meant as ``/x?a=1``; ``&`` in a folder's name is data."""
    folder, slash, name = path.rpartition("/")
    head, mark, tail = name.partition("&")
    meant = mark and not query and "=" in tail and head not in {".", ".."}  # a dot segment alone would go
    return (folder + slash + head, tail) if meant else (path, query)


ORIGIN: dict[str, Callable[[Origin], Origin]] = {
    "userinfo": _userinfo,
    "hostdot": _hostdot,
    "https": _https,
    "www": _www,
    "mobile": _mobile,
    "amp": _amp_origin,
}
PATH: dict[str, Callable[[str], str]] = {
    "subdelims": _subdelims,
    "aspsession": _aspsession,
    "slashes": _slashes,
    "case": _case,
    "amp": _amp_path,
    "index": _index,
    "slash": _slash,
}
QUERY: dict[str, Callable[[str], str]] = {"semicolon": _semicolon, "subdelims": _subdelims_query}
FOLDS = sorted({*ORIGIN, *PATH, *QUERY, "pctu", "unmangle", "duppairs"})
"""Every name that a rule's ``fold`` may contain."""
