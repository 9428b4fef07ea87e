"""A site that wants to bring a worker down: bodies without end or that grow when unpacked, answers that never come.

The project's own settings, but for a time limit of 3 s; what is measured is the worker's whole memory.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
from scrapy.utils import _compression

from tests.support.project import PROJECT, clean_env

CRAWL = """
import json, resource, sys
import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.spiders import SitemapSpider
from scrapy.utils.project import get_project_settings

class Result:
    def closed(self, reason):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        print(json.dumps({"got": self.got, "failed": self.failed, "grown": peak - self.before}))
    def parse(self, response):
        self.got[response.url.partition("/")[2].partition("/")[2].partition("/")[2]] = len(response.body)
    def failure(self, failure):
        self.failed[failure.request.url.rpartition("/")[2]] = type(failure.value).__name__

class Pages(Result, scrapy.Spider):
    name = "pages"
    async def start(self):
        for path in self.paths:
            yield scrapy.Request(self.site + path, errback=self.failure, meta={"dont_retry": True})

class Sitemaps(Result, SitemapSpider):
    name = "sitemaps"

base, paths, sitemap, settings = json.loads(sys.argv[1])
spider = Sitemaps if sitemap else Pages
spider.got, spider.failed, spider.site, spider.paths = {}, {}, base, paths
spider.sitemap_urls = [base + path for path in paths]
spider.before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
process = AsyncCrawlerProcess({**get_project_settings(), **settings})
process.crawl(spider)
process.start()
"""
MIB = 1024**2
PLAIN = 400  # MiB of zeros in every bomb: a worker that unpacked one would be seen


def bomb(kind: str) -> bytes:
    """`PLAIN` MiB of zeros, packed for the Content-Encoding `kind`."""
    if kind == "zstd":
        zstd: Any = vars(_compression)["zstd"]  # the module that Scrapy unpacks with: another one from Python 3.14 on
        return bytes(zstd.compress(bytes(PLAIN * MIB), 1))
    if kind == "br":
        brotli_packer: Any = brotli.Compressor(quality=1)
        return bytes(b"".join(brotli_packer.process(bytes(MIB)) for _ in range(PLAIN)) + brotli_packer.finish())
    if kind == "gzip, gzip":
        return gzip.compress(bomb("gzip"))
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)  # stands for itself: may be repeated
    header = gzip.compress(b"")[:10] if kind == "gzip" else b""
    return header + PLAIN * block


class HostileSite:
    """Answers with whatever its method for the path sends, on a raw socket."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            request = client.recv(65536)
            path = request.split()[1].decode().lstrip("/")
            sender = getattr(self, path.partition(".")[0].replace("-", "_"), None)
            if sender is not None:
                sender(client)
            elif path == "robots.txt":
                self._send(client, b"", "Content-Type: text/plain")
            else:
                kind = path.partition("?")[0].replace("+", ", ")
                self._send(client, bomb(kind), f"Content-Type: text/html\r\nContent-Encoding: {kind}")

    def _send(self, client: socket.socket, body: bytes, headers: str) -> None:
        head = f"HTTP/1.1 200 OK\r\n{headers}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode() + body)

    def endless(self, client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while not self._ended.is_set():
            client.sendall(bytes(MIB))

    def announced(self, client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        self._ended.wait()

    def dripping(self, client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not self._ended.wait(0.1):
            client.sendall(b"x")

    def silent(self, client: socket.socket) -> None:
        self._ended.wait()

    def headers(self, client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n")
        while not self._ended.wait(0.001):
            client.sendall(b"X-More: " + bytes(8000).replace(b"\0", b"x") + b"\r\n")

    def sitemap(self, client: socket.socket) -> None:
        self._send(client, bomb("gzip"), "Content-Type: application/gzip")


@pytest.fixture
def hostile() -> Iterator[HostileSite]:
    site = HostileSite()
    yield site
    site.close()


def crawl(site: HostileSite, *paths: str, sitemap: bool = False, **settings: Any) -> tuple[dict[str, Any], str]:
    """What the spider got, what failed, how many bytes the worker grew by; and its log."""
    options = json.dumps(
        [site.url, paths, sitemap, {"CONCURRENT_REQUESTS": 1, "RETRY_ENABLED": False, "FEEDS": {}, **settings}]
    )
    env = clean_env({"FRONTIER": "memory", "DOWNLOAD_DELAY": "0", "DOWNLOAD_TIMEOUT": "3", "METRICS_ENABLED": "0"})
    done = subprocess.run(
        [sys.executable, "-c", CRAWL, options], check=False,
        cwd=PROJECT, env=env, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_bombs(hostile: HostileSite) -> None:
    kinds = ["gzip", "deflate", "br", "zstd", "gzip+gzip", *(f"gzip?{number}" for number in range(6))]
    report, log = crawl(hostile, *kinds)
    assert report["got"] == {}
    assert sorted(report["failed"]) == sorted(kinds), log
    assert report["grown"] < 160 * MIB  # one of them at a time, cut off at 64 MiB


def test_bodies_without_end(hostile: HostileSite) -> None:
    paths = ["endless", "announced", "dripping", "silent", "headers"]
    report, log = crawl(hostile, *paths, CONCURRENT_REQUESTS=5, CONCURRENT_REQUESTS_PER_DOMAIN=5)
    assert report["got"] == {}
    assert {path: report["failed"].get(path) for path in paths} == {
        "endless": "DownloadCancelledError", "announced": "DownloadCancelledError",
        "dripping": "DownloadTimeoutError", "silent": "DownloadTimeoutError", "headers": "DownloadTimeoutError",
    }, log  # fmt: skip
    assert report["grown"] < 250 * MIB


def test_sitemap_bomb(hostile: HostileSite) -> None:
    report, log = crawl(hostile, "sitemap.xml.gz", sitemap=True)
    assert "Ignoring invalid sitemap" in log
    assert report["grown"] < 250 * MIB
