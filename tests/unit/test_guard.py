"""Which addresses are private, and for which names the guard answers."""

from __future__ import annotations

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from crawler.guard import PrivateAddressGuard, is_private

PRIVATE = [
    "127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
NAMES = ["example.com", "localhost", "127.0.0.1.example.com", "", "1.2.3"]  # judged when they are resolved


@pytest.mark.parametrize("host", PRIVATE)
def test_private(host: str) -> None:
    assert is_private(host)


@pytest.mark.parametrize("host", PUBLIC + NAMES)
def test_not_private(host: str) -> None:
    assert not is_private(host)


@pytest.fixture
def guard() -> PrivateAddressGuard:
    return PrivateAddressGuard.from_crawler(get_crawler(Spider))


def test_only_names_of_pages_are_judged(guard: PrivateAddressGuard) -> None:
    assert guard.allows("mail.example", "10.0.0.1")
    page = Request("http://page.example/")
    guard.process_request(page)
    assert not guard.allows("page.example", "10.0.0.1")
    assert guard.allows("page.example", "8.8.8.8")
    guard.process_response(page, Response(page.url))
    assert guard.allows("page.example", "10.0.0.1")


def test_a_request_that_never_came_this_far_opens_no_door(guard: PrivateAddressGuard) -> None:
    """robots.txt forbids one page while another of the host is being resolved."""
    resolving, proxied = Request("http://a.example/1"), Request("http://a.example/3", meta={"proxy": "http://p"})
    guard.process_request(resolving)
    guard.process_exception(Request("http://a.example/2"), IgnoreRequest("forbidden"))
    guard.process_request(proxied)
    guard.process_response(proxied, Response(proxied.url))
    assert not guard.allows("a.example", "127.0.0.1")


def test_two_requests_of_a_host_end_one_by_one(guard: PrivateAddressGuard) -> None:
    first, second = Request("http://a.example/1"), Request("http://a.example/2")
    guard.process_request(first)
    guard.process_request(second)
    guard.process_exception(first, OSError("reset"))
    assert not guard.allows("a.example", "127.0.0.1")
    with pytest.raises(IgnoreRequest, match=r"a\.example has the private address 127\.0\.0\.1"):
        guard.process_exception(second, OSError("no address"))


def test_a_name_that_is_public_again_is_not_blamed(guard: PrivateAddressGuard) -> None:
    request = Request("http://a.example/")
    guard.process_request(request)
    guard.allows("a.example", "127.0.0.1")
    guard.allows("a.example", "8.8.8.8")
    guard.process_exception(request, OSError("reset"))  # raises nothing
