"""Which addresses are private, in which disguises, and what the guard lets through."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.test import get_crawler
from twisted.internet.address import IPv4Address

from crawler.errors import ConfigError
from crawler.guard import PrivateAddressGuard, SchemeGuard, _GuardedResolver, is_private

PRIVATE = [
    "127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "0.1.2.3", "198.18.0.1", "192.0.0.192", "168.63.129.16", "240.0.0.1", "224.0.0.1", "255.255.255.255",
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1", "4000::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::8.8.8.8",
    "localhost", "any.localhost",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
NAMES = ["example.com", "127.0.0.1.example.com", "localhost.example.com", "", "1.2.3"]  # judged when they are resolved

# Refused before anybody resolves them, so behind a proxy too.
DISGUISED = [
    "http://2130706433/", "http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://0x7f000001/", "http://017700000001/",
    "http://127.1/", "http://127.0.1/", "http://10.1/", "http://0/", "http://127.0.0.1./", "http://LOCALHOST/",
    "http://localhost./", "http://127。0。0。1/", "http://１２７.0.0.1/", "http://①②⑦.0.0.1/", "http://%31%32%37.0.0.1/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "http://[::1]/", "http://[::ffff:7f00:1]/", "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "http://[fe80::1%25eth0]/", "http://example.com@127.0.0.1/", "http://example.com:80@127.0.0.1/",
    "http://127.0.0.1:80\\@example.com/", "http://169.254.169.254/latest/meta-data/", "http://2852039166/",
    "https://[::ffff:a9fe:a9fe]/", "http://127.0.0.1#@example.com/", "http://127.0.0.1?@example.com/",
]  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE)
def test_private(host: str) -> None:
    assert is_private(host)


@pytest.mark.parametrize("host", PUBLIC + NAMES)
def test_not_private(host: str) -> None:
    assert not is_private(host)


def guard_with(**settings: Any) -> PrivateAddressGuard:
    # Without a reactor in this process Scrapy's default is the handler for aiohttp.
    handlers = dict.fromkeys(("http", "https"), "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler")
    settings["DOWNLOAD_HANDLERS"] = handlers | settings.get("DOWNLOAD_HANDLERS", {})
    return PrivateAddressGuard.from_crawler(get_crawler(Spider, settings))


@pytest.fixture
def guard() -> PrivateAddressGuard:
    return guard_with()


@pytest.mark.parametrize("meta", [{}, {"proxy": "http://proxy.example:3128"}], ids=["direct", "proxied"])
@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("url", DISGUISED)
def test_disguises(guard: PrivateAddressGuard, url: str, meta: dict[str, Any], verbatim: bool) -> None:
    with pytest.raises(IgnoreRequest, match="CRAWLER_ALLOW_PRIVATE is not set"):
        guard.process_request(Request(url, meta={**meta, "verbatim_url": verbatim}))


@pytest.mark.parametrize(
    "url", ["http://example.com/", "https://127.0.0.1.example.com/", "http://127.0.0.1@example.com/"]
)
def test_public_urls_pass(guard: PrivateAddressGuard, url: str) -> None:
    guard.process_request(Request(url))
    guard.process_request(Request(url, meta={"proxy": "http://8.8.8.8:3128"}))


def test_allowed_by_the_setting() -> None:
    with pytest.raises(NotConfigured):
        guard_with(CRAWLER_ALLOW_PRIVATE="1")


def test_every_connection_is_judged(guard: PrivateAddressGuard) -> None:
    """Whoever asks the resolver: a name that no request has in this spelling may be a page's too."""
    assert not guard.allows("never.requested.example", "10.0.0.1")
    assert guard.allows("never.requested.example", "8.8.8.8")


def test_hosts_of_ones_own() -> None:
    guard = guard_with(CRAWLER_PRIVATE_HOSTS="Intranet.example, 10.0.0.7")
    guard.process_request(Request("http://intranet.example/"))
    guard.process_request(Request("http://10.0.0.7/"))
    guard.process_request(Request("http://example.com/", meta={"proxy": "10.0.0.7:3128"}))
    assert guard.allows("intranet.example", "10.0.0.1")
    assert not guard.allows("other.example", "10.0.0.1")
    with pytest.raises(IgnoreRequest):
        guard.process_request(Request("http://10.0.0.8/"))


@pytest.mark.parametrize("value", ["http://127.0.0.1:8765/", "10.0.0.7:80", "[::1]", "[::1]:80", "10.0.0.0/8", "a/"])
def test_what_is_no_host_is_not_taken_for_one(value: str) -> None:
    said = f"^CRAWLER_PRIVATE_HOSTS={re.escape(value)}: list host names and addresses only"
    with pytest.raises(ConfigError, match=said):
        guard_with(CRAWLER_PRIVATE_HOSTS=f"10.0.0.7,{value}")
    guard_with(CRAWLER_PRIVATE_HOSTS="::1").process_request(Request("http://[::1]/"))


def test_a_proxy_in_a_request_is_judged(guard: PrivateAddressGuard) -> None:
    """A seed may name one: the metadata service of a cloud answers a proxy request as well."""
    with pytest.raises(IgnoreRequest, match=r"169\.254\.169\.254 is a private address"):
        guard.process_request(Request("http://example.com/latest/", meta={"proxy": "http://169.254.169.254"}))
    with pytest.raises(IgnoreRequest, match="without resolving"):
        guard.process_request(Request("http://1.2.3.4.5/", meta={"proxy": "http://8.8.8.8"}))


def test_the_environment_s_proxy_is_let_through_but_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://squid.internal:3128")
    guard = guard_with()
    guard.process_request(Request("http://example.com/", meta={"proxy": "http://squid.internal:3128"}))
    assert guard.allows("squid.internal", "10.0.0.9")
    with pytest.raises(IgnoreRequest, match=r"squid\.internal is the proxy of this crawl"):
        guard.process_request(Request("http://squid.internal:3128/"))


def test_a_failed_look_up_becomes_a_refusal(guard: PrivateAddressGuard) -> None:
    page, proxied = Request("http://a.example/"), Request("http://b.example/", meta={"proxy": "http://a.example"})
    guard.process_exception(page, OSError("reset"))  # raises nothing: nothing was refused
    guard.allows("a.example", "127.0.0.1")
    for request in (page, proxied):
        with pytest.raises(IgnoreRequest, match=r"a\.example has the private address 127\.0\.0\.1"):
            guard.process_exception(request, OSError("no address"))
    guard.allows("a.example", "8.8.8.8")
    guard.process_exception(page, OSError("reset"))  # public again: not to blame


def test_what_was_judged_is_what_is_connected_to(guard: PrivateAddressGuard) -> None:
    class Resolver:
        def resolveHostName(self, receiver: Any, name: str) -> Any:  # noqa: N802
            receiver.resolutionBegan(None)
            for address in ("10.0.0.1", "8.8.8.8", "127.0.0.1"):
                receiver.addressResolved(IPv4Address("TCP", address, 80))
            receiver.resolutionComplete()

    class Receiver:
        def __init__(self) -> None:
            self.addresses: list[str] = []

        def resolutionBegan(self, _: Any) -> None: ...  # noqa: N802
        def resolutionComplete(self) -> None: ...  # noqa: N802

        def addressResolved(self, address: IPv4Address) -> None:  # noqa: N802
            self.addresses.append(address.host)

    resolver, receiver = _GuardedResolver(Resolver()), Receiver()
    resolver.guards.add(guard)
    resolver.resolveHostName(receiver, "Mixed.Example.")
    assert receiver.addresses == ["8.8.8.8"]


class OtherHandler:
    pass


class OwnHandler(HTTP11DownloadHandler):
    pass


@pytest.mark.parametrize(
    "handler", ["scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler", f"{__name__}.OtherHandler"]
)
def test_handlers_that_resolve_elsewhere_are_refused_at_the_start(handler: str) -> None:
    with pytest.raises(ConfigError, match=r"DOWNLOAD_HANDLERS=https: .*does not connect through the reactor"):
        guard_with(DOWNLOAD_HANDLERS={"https": handler})
    with pytest.raises(NotConfigured):
        guard_with(DOWNLOAD_HANDLERS={"https": handler}, CRAWLER_ALLOW_PRIVATE=True)


def test_handlers_that_resolve_here_are_fine() -> None:
    guard_with(DOWNLOAD_HANDLERS={"https": f"{__name__}.OwnHandler", "http": None})  # raises nothing


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.com/", "s3://bucket/key", "data:,x", "gopher://a/"]
)
def test_schemes(url: str) -> None:
    make: Callable[..., SchemeGuard] = lambda **settings: SchemeGuard.from_crawler(get_crawler(Spider, settings))  # noqa: E731
    default = make()
    with pytest.raises(IgnoreRequest, match="is not in CRAWLER_SCHEMES"):
        default.process_request(Request(url))
    for page in ("http://example.com/", "HTTPS://example.com/"):
        default.process_request(Request(page))
    make(CRAWLER_SCHEMES=f"http,{url.partition(':')[0]}").process_request(Request(url))
    with pytest.raises(ConfigError, match="CRAWLER_SCHEMES=: name at least one"):
        make(CRAWLER_SCHEMES=" ")
