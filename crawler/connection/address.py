"""Where the settings say the server is, checked before anybody connects; no password of it is ever shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redis.connection import parse_url

from crawler import config, embedded
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SCHEMES = ("redis", "rediss", "unix")


def resolve_url(settings: BaseSettings) -> str:
    """URL of the server: ``REDIS_URL``, else ``REDIS_HOST``/``REDIS_PORT``/``REDIS_DB``, else the embedded server.

    The embedded server is started or joined by this call, and held until the process ends. ``url``, ``host``, ``port``
    and ``db`` in ``REDIS_PARAMS`` count as the settings of these names, which win. Raises ConfigError, ServerError.
    """
    return own_server(settings) or embedded.join(embedded.project_folder())


def is_cluster(settings: BaseSettings) -> bool:
    """``REDIS_CLUSTER``: the server is a node of a Redis Cluster."""
    return config.flag(settings, "REDIS_CLUSTER", False)


def masked(url: str) -> str:
    """`url` without its password, for logs and messages; works for malformed URLs too."""
    url = re.sub(r"([?&]password=)[^&#]*", r"\1***", url)
    before, slashes, rest = url.partition("//")
    userinfo, at, address = rest.rpartition("@")
    if not at:
        return url
    user, colon, _ = userinfo.partition(":")
    return f"{before}{slashes}{user + ':' if colon else ''}***@{address}"


def own_server(settings: BaseSettings) -> str:
    """URL of the server that the settings name, "" if they name none."""
    params = raw_params(settings)
    if url := strip(settings.get("REDIS_URL")) or strip(params.get("url")):
        _check_url(url)
        return url
    if host := strip(settings.get("REDIS_HOST")) or strip(params.get("host")):
        return _url_of_host(settings, host, params)
    return ""


def raw_params(settings: BaseSettings) -> dict[str, Any]:
    """``REDIS_PARAMS`` as it was set. Raises ConfigError."""
    try:
        params = settings.getdict("REDIS_PARAMS")
    except (ValueError, TypeError):  # its text may hold a password: not repeated
        remedy = 'must be a dict or a JSON object, e.g. {"password": "..."}'
        raise ConfigError("REDIS_PARAMS", "(hidden)", remedy) from None
    if "redis_cls" in params:
        remedy = "not supported, the project makes its own clients: remove it and give the address in REDIS_URL"
        raise ConfigError("REDIS_PARAMS['redis_cls']", params["redis_cls"], remedy)
    return params


def addresses(settings: BaseSettings, name: str) -> list[tuple[str, int]]:
    """``HOST:PORT`` words with commas between."""
    found = []
    for word in filter(None, config.text(settings, name).replace(" ", "").split(",")):
        host, colon, port = word.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise ConfigError(name, settings.get(name), "must be HOST:PORT, or several with commas between")
        found.append((host.strip("[]"), int(port)))
    return found


def _check_url(url: str) -> None:
    def wrong(remedy: str) -> ConfigError:
        return ConfigError("REDIS_URL", masked(url), remedy)

    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise wrong("must begin with redis://, rediss:// or unix://, e.g. redis://:PASSWORD@HOST:6379/0")
    parts = urlsplit(url)
    cut = scheme != "unix" and "@" in rest and "@" not in parts.netloc and "password=" not in parts.query
    if cut or "#" in rest:
        raise wrong("write # / ? in the password as %23 %2F %3F")
    try:
        _ = parts.port
    except ValueError:
        raise wrong("the port must be a number between 0 and 65535") from None
    if scheme == "unix" and (parts.hostname or not parts.path.startswith("/")):
        raise wrong("must name a socket by its full path: unix:///path/to/redis.sock?db=0")
    if scheme != "unix" and not re.fullmatch(r"/?\d*", parts.path):
        raise wrong("the path is the number of the database: /0")
    try:
        parse(url)
    except ValueError as error:
        raise wrong(str(error).lower().rstrip(".")) from None


def _url_of_host(settings: BaseSettings, host: str, params: dict[str, Any]) -> str:
    port = config.integer(settings, "REDIS_PORT", params.get("port") or 6379, low=1, high=65535)
    db = config.integer(settings, "REDIS_DB", params.get("db") or 0)
    if not re.fullmatch(r"[\w.:%\[\]-]+", host):
        raise ConfigError("REDIS_HOST", host, "must be a host name or an address (a URL goes into REDIS_URL)")
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"  # IPv6
    return f"{'rediss' if params.get('ssl') else 'redis'}://{host}:{port}/{db}"


def parse(url: str) -> dict[str, Any]:
    """What redis-py reads from a URL: arguments of a client."""
    return dict(parse_url(url))  # type: ignore[no-untyped-call]


def strip(value: object) -> str:
    """A setting without the blanks around it; "" for one that is not set."""
    return str(value or "").strip()
