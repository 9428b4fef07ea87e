"""Keeps the crawler out of private networks: no link or redirect makes it fetch what only this machine can reach.

A request is refused when its host is a private, loopback or link-local address, or a name that resolves to one.
Addresses are judged in the reactor's resolver, which every connection takes its address from: what was judged is what
is connected to, so that neither a redirect, nor an odd spelling, nor a name that changes its address between two
look-ups slips through. It refuses whoever asks; only ``CRAWLER_PRIVATE_HOSTS`` and the environment's proxies are let
through. Download handlers that resolve names elsewhere (Scrapy's for aiohttp and httpx) are refused at the start.

With a proxy it is the proxy that resolves names: of its requests only literal addresses can be judged here.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies
from weakref import WeakSet

import ada_url
from scrapy import signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.datatypes import LocalCache
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from scrapy.utils.url import add_http_if_no_scheme
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer, provider  # type: ignore[import-untyped] # zope ships no types

from crawler import config
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL6 = ipaddress.ip_network("2000::/3")  # all of IPv6 that is handed out to the internet
# Services of clouds for their own machines, at addresses that the registries call global: Oracle's, Azure's.
_SPECIAL4 = [ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("168.63.129.16/32")]
_REACTOR_HANDLERS = {"scrapy.core.downloader.handlers.http11", "scrapy.core.downloader.handlers.http2"}
_PUBLIC = re.compile(r"https?://[A-Za-z0-9.-]*\.(?!(?i:localhost))[A-Za-z]{2,}(?:[:/?#]|$)")  # needs no closer look
_REMEMBERED = 10_000  # refused hosts

logger = logging.getLogger(__name__)


class SchemeGuard:
    """Downloader middleware: only the URL schemes in ``CRAWLER_SCHEMES``, so that no link reads a file of this machine.

    Scrapy has handlers for ``file:``, ``ftp:``, ``s3:`` and ``data:``, and link extractors yield some of these.
    """

    def __init__(self, stats: StatsCollector, schemes: frozenset[str]) -> None:
        self._stats, self._schemes = stats, schemes

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Reads ``CRAWLER_SCHEMES``."""
        schemes = config.words(crawler.settings, "CRAWLER_SCHEMES", "http,https")
        if not schemes:
            raise ConfigError("CRAWLER_SCHEMES", "", "name at least one, e.g. http,https")
        return cls(crawler.stats, schemes)

    def process_request(self, request: Request) -> None:
        """Raises IgnoreRequest for every other scheme."""
        scheme = urlparse_cached(request).scheme
        if scheme not in self._schemes:
            self._stats.inc_value("guard/scheme")
            raise IgnoreRequest(f"scheme {scheme!r} is not in CRAWLER_SCHEMES")


class PrivateAddressGuard:
    """Downloader middleware; stands between retries (a refusal is final) and the frontier's pace (it costs none)."""

    def __init__(self, stats: StatsCollector, hosts: frozenset[str], proxies: frozenset[str]) -> None:
        self._stats, self._hosts, self._proxies = stats, hosts, proxies
        self._refused: LocalCache[str, str] = LocalCache(_REMEMBERED)  # name → private address it resolved to last
        self._logged: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured with ``CRAWLER_ALLOW_PRIVATE``."""
        settings = crawler.settings
        if config.flag(settings, "CRAWLER_ALLOW_PRIVATE", False):
            raise NotConfigured
        _check_handlers(settings)
        proxies = getproxies().values() if settings.getbool("HTTPPROXY_ENABLED") else ()
        hosts = _own_hosts(settings)
        guard = cls(crawler.stats, hosts, frozenset(map(_proxy_host, proxies)))
        crawler.signals.connect(guard.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(guard.spider_closed, signal=signals.spider_closed)
        return guard

    def spider_opened(self) -> None:
        """Stands in front of the resolver, whichever ``TWISTED_DNS_RESOLVER`` installed."""
        from twisted.internet import reactor

        resolver = reactor.nameResolver
        if not isinstance(resolver, _GuardedResolver):
            resolver = _GuardedResolver(resolver)
            reactor.installNameResolver(resolver)
        resolver.guards.add(self)

    def spider_closed(self) -> None:
        """Lets the process resolve what it likes again."""
        from twisted.internet import reactor

        if isinstance(reactor.nameResolver, _GuardedResolver):
            reactor.nameResolver.guards.discard(self)

    def process_request(self, request: Request) -> None:
        """Raises IgnoreRequest for what can be told from the URL; a name is judged when it is resolved."""
        proxy = request.meta.get("proxy")
        read, meant = _host(request.url), _whatwg_host(request.url)
        for host in {read, meant} - self._hosts:
            if is_private(host):
                raise self._refusal(host, host)
        if proxy:
            host = _proxy_host(proxy)
            if host not in self._hosts | self._proxies and is_private(host):
                raise self._refusal(host, host)
            if not meant:
                raise self._refusal(read, "", "not a host that can be judged without resolving it")
        elif read in self._proxies - self._hosts:
            raise self._refusal(read, "", "the proxy of this crawl")

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Turns the failed look-up of a refused name into a refusal, which is not tried again."""
        proxy = request.meta.get("proxy")
        host = _proxy_host(proxy) if proxy else _host(request.url)
        if not isinstance(exception, IgnoreRequest) and (address := self._refused.get(host)):
            raise self._refusal(host, address) from exception

    def allows(self, host: str, address: str) -> bool:
        """Whether `host`, just resolved, may be connected to at `address`."""
        if host in self._hosts or host in self._proxies:
            return True
        if is_private(address):
            self._refused[host] = address
            self._tell(host, f"{host} has the private address {address}")
            return False
        self._refused.pop(host, None)
        return True

    def _refusal(self, host: str, address: str, what: str = "") -> IgnoreRequest:
        self._stats.inc_value("guard/refused")
        if what:
            what = f"{host} is {what}"
        elif host == address:
            what = f"{host} is a private address"
        else:
            what = f"{host} has the private address {address}"
        self._tell(host, what)
        return IgnoreRequest(f"{what}, and CRAWLER_ALLOW_PRIVATE is not set")

    def _tell(self, host: str, what: str) -> None:
        if host not in self._logged and len(self._logged) < _REMEMBERED:
            self._logged.add(host)
            logger.error(
                "Refused: %s (set CRAWLER_ALLOW_PRIVATE=1 to crawl it, or list it in CRAWLER_PRIVATE_HOSTS)", what
            )


def refuses_private(settings: BaseSettings) -> Callable[[str], bool] | None:
    """Tells of a URL whether the guard of a crawl with these settings refuses its address; None when there is no guard.

    Names are not resolved here: what resolves to a private address is refused later.
    """
    middlewares = settings.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES")
    path = f"{PrivateAddressGuard.__module__}.{PrivateAddressGuard.__qualname__}"
    if middlewares.get(path) is None or config.flag(settings, "CRAWLER_ALLOW_PRIVATE", False):
        return None
    allowed = _own_hosts(settings)

    def refuses(url: str) -> bool:
        if _PUBLIC.match(url):
            return False
        return any(is_private(host) for host in {_host(url), _whatwg_host(url)} - allowed)

    return refuses


def is_private(host: str) -> bool:
    """Whether `host` is an address that is not for everybody: private, loopback, link-local, multicast, unassigned.

    Names are public, but for ``localhost`` and what ends in it (RFC 6761).

    >>> is_private("10.0.0.1"), is_private("::ffff:127.0.0.1"), is_private("8.8.8.8"), is_private("example.com")
    (True, True, False, False)
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and address not in _GLOBAL6:
            return True
        address = inner or address
    special = isinstance(address, ipaddress.IPv4Address) and any(address in network for network in _SPECIAL4)
    return special or not address.is_global or address.is_multicast


def _own_hosts(settings: BaseSettings) -> frozenset[str]:
    """``CRAWLER_PRIVATE_HOSTS``. Raises ConfigError for what no host can be called: a URL, a host with its port."""
    hosts = config.words(settings, "CRAWLER_PRIVATE_HOSTS")
    for host in sorted(hosts):
        if "/" in host or "[" in host or host.count(":") == 1:  # an IPv6 address has more colons
            remedy = "list host names and addresses only, such as intranet.example,10.0.0.7,::1: no URL, no port"
            raise ConfigError("CRAWLER_PRIVATE_HOSTS", host, remedy)
    return hosts


def _check_handlers(settings: BaseSettings) -> None:
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        handler = handlers.get(scheme)
        classes = load_object(handler).__mro__ if handler is not None else ()
        if classes and not any(cls.__module__ in _REACTOR_HANDLERS for cls in classes):
            raise ConfigError(
                "DOWNLOAD_HANDLERS", f"{scheme}: {handler}",
                "it does not connect through the reactor, where private addresses are refused; use Scrapy's HTTP/1.1 "
                "or HTTP/2 handler, or set CRAWLER_ALLOW_PRIVATE=1 and let a firewall keep private networks closed",
            )  # fmt: skip


def _host(url: str) -> str:
    """The host as Scrapy and Twisted read it, or ""."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _whatwg_host(url: str) -> str:
    """The host as browsers read it (``127.1``, ``0x7f000001`` and ``１２７．1`` are 127.0.0.1), or ""."""
    try:
        return ada_url.URL(url).hostname.strip("[]").rstrip(".")
    except ValueError:
        return ""


def _proxy_host(proxy: str) -> str:
    return _host(add_http_if_no_scheme(proxy))


@implementer(IHostnameResolver)
class _GuardedResolver:
    """The reactor's resolver, without the addresses that a guard refuses."""

    def __init__(self, resolver: Any) -> None:  # Any: zope's interfaces are not types
        self._resolver = resolver
        self.guards: WeakSet[PrivateAddressGuard] = WeakSet()

    def resolveHostName(self, resolutionReceiver: Any, hostName: str, *args: Any, **kwargs: Any) -> Any:  # noqa: N802, N803
        """As Twisted defines it."""
        host = hostName.lower().rstrip(".")
        guards = self.guards

        @provider(IResolutionReceiver)
        class Receiver:
            resolutionBegan = resolutionReceiver.resolutionBegan  # noqa: N815
            resolutionComplete = resolutionReceiver.resolutionComplete  # noqa: N815

            @staticmethod
            def addressResolved(address: Any) -> None:  # noqa: N802
                if all(guard.allows(host, str(address.host)) for guard in list(guards)):
                    resolutionReceiver.addressResolved(address)

        return self._resolver.resolveHostName(Receiver, hostName, *args, **kwargs)
