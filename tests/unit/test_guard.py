"""Which addresses are private."""

from __future__ import annotations

import pytest

from crawler.guard import is_private

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
