"""Keeps the crawler out of private networks: no link or redirect makes it fetch what only this machine can reach.

A request is refused when its host is a private, loopback or link-local address, or a name that resolves to one. Names
are judged where the connection's address comes from, in the reactor's resolver, so that neither a redirect nor a name
that changes its address between two look-ups slips through. Every request to the downloader passes: pages, robots.txt,
media. With a proxy it is the proxy that resolves names: then only literal addresses can be judged here. The same goes
for download handlers that do not use the reactor (Scrapy's for httpx).

``CRAWLER_ALLOW_PRIVATE=1`` turns the guard off.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakSet

from scrapy import signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer, provider  # type: ignore[import-untyped] # zope ships no types

from crawler import config

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_REMEMBERED = 10_000  # hosts whose refusal was logged

logger = logging.getLogger(__name__)


class PrivateAddressGuard:
    """Downloader middleware; stands between retries (a refusal is final) and the frontier's pace (it costs none)."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._asked: Counter[str] = Counter()  # names that requests in the downloader may be resolving
        self._counted: WeakSet[Request] = WeakSet()  # those requests: others end here too, refused by other middlewares
        self._refused: dict[str, str] = {}  # name → the private address it resolved to last
        self._logged: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured with ``CRAWLER_ALLOW_PRIVATE``."""
        if config.flag(crawler.settings, "CRAWLER_ALLOW_PRIVATE", False):
            raise NotConfigured
        guard = cls(crawler.stats)
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
        """Raises IgnoreRequest for a literal private address; a name is judged when it is resolved."""
        host = _host(request)
        if is_private(host):
            raise self._refusal(request, host)
        if not request.meta.get("proxy"):
            self._asked[host] += 1
            self._counted.add(request)

    def process_response(self, request: Request, response: Response) -> Response:
        """The host was connected to."""
        self._done(request)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Turns the failed look-up of a refused name into a refusal, which is not tried again."""
        self._done(request)
        if not isinstance(exception, IgnoreRequest) and (address := self._refused.get(_host(request))):
            raise self._refusal(request, address) from exception

    def allows(self, host: str, address: str) -> bool:
        """Whether `host`, just resolved, may be connected to at `address`."""
        if host not in self._asked:
            return True  # a proxy, a mail server: not a page
        if is_private(address):
            self._refused[host] = address
            return False
        self._refused.pop(host, None)
        return True

    def _done(self, request: Request) -> None:
        if request not in self._counted:
            return
        self._counted.discard(request)
        host = _host(request)
        self._asked[host] -= 1
        if not self._asked[host]:
            del self._asked[host]

    def _refusal(self, request: Request, address: str) -> IgnoreRequest:
        host = _host(request)
        self._stats.inc_value("guard/refused")
        what = f"{host} is a private address" if host == address else f"{host} has the private address {address}"
        if host not in self._logged and len(self._logged) < _REMEMBERED:
            self._logged.add(host)
            logger.error("Not fetched: %s: %s (set CRAWLER_ALLOW_PRIVATE=1 to crawl it)", request.url, what)
        return IgnoreRequest(f"{what}, and CRAWLER_ALLOW_PRIVATE is not set")


def is_private(host: str) -> bool:
    """Whether `host` is an address that is not for everybody: private, loopback, link-local, multicast, unassigned.

    >>> is_private("10.0.0.1"), is_private("::ffff:127.0.0.1"), is_private("8.8.8.8"), is_private("example.com")
    (True, True, False, False)
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        address = inner or address
    return not address.is_global or address.is_multicast


def _host(request: Request) -> str:
    return (urlsplit(request.url).hostname or "").rstrip(".")


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
