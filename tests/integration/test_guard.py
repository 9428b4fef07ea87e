"""No request reaches a private address: not by a link, a redirect, a changing name, robots.txt or a media download.

Offline there is no public address, so 127.0.0.1 plays one, and 127.0.0.2 is the private network.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import Answer, Pages
from tests.support.project import PROJECT, project_env, run_scrapy

CRAWL = """
import json, sys
import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.resolver import CachingThreadedResolver
from twisted.internet import defer
from crawler import guard

options = json.loads(sys.argv[1])
JUDGES = {"is_private": guard.is_private, "one": lambda host: host == "127.0.0.2"}
guard.is_private = JUDGES[options.pop("judge")]
ADDRESSES = {
    "public.example": ["127.0.0.1"], "private.example": ["127.0.0.2"],
    "changing.example": ["127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.2"],
}

class Resolver(CachingThreadedResolver):
    def getHostByName(self, name, timeout=()):
        addresses = ADDRESSES.get(name.lower().rstrip("."))
        if addresses:
            return defer.succeed(addresses.pop(0) if len(addresses) > 1 else addresses[0])
        return super().getHostByName(name, timeout)

class Spider(scrapy.Spider):
    name = "guarded"
    def __init__(self, urls, meta, **kwargs):
        super().__init__(**kwargs)
        self.urls, self.meta, self.got, self.failed = urls, meta, [], []
    async def start(self):
        for url in self.urls:
            yield scrapy.Request(url, meta=dict(self.meta), errback=self.errback, dont_filter=True)
    def parse(self, response):
        self.got.append(response.url)
        if b"image" in response.body:
            yield {"file_urls": [response.body.split()[1].decode()]}
    def errback(self, failure):
        self.failed.append([failure.request.url, type(failure.value).__name__])
    def closed(self, reason):
        stats = self.crawler.stats.get_stats()
        print(json.dumps({"got": self.got, "failed": self.failed, "stats": stats}, default=str))

process = AsyncCrawlerProcess({
    "DOWNLOADER_MIDDLEWARES": {"crawler.guard.SchemeGuard": 935, "crawler.guard.PrivateAddressGuard": 940},
    "LOG_LEVEL": "INFO",
    "TWISTED_DNS_RESOLVER": Resolver, "DNSCACHE_ENABLED": False, "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False, "CONCURRENT_REQUESTS": 1, "DNS_TIMEOUT": 5, "RETRY_TIMES": 1,
    "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}, "FILES_STORE": options.pop("folder"),
    **options.pop("settings"),
})
process.crawl(Spider, **options)
process.start()
"""


def crawl(
    folder: Path, urls: list[str], judge: str = "one", meta: dict[str, Any] | None = None, **settings: Any
) -> tuple[dict[str, Any], str]:
    """What the spider saw, and the log. `judge`: what is private, 127.0.0.2 alone or what really is."""
    options = json.dumps(
        {"urls": urls, "meta": meta or {}, "judge": judge, "folder": str(folder), "settings": settings}
    )
    done = subprocess.run(
        [sys.executable, "-c", CRAWL, options], cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("host", ["127.0.0.2", "private.example", "PRIVATE.example."])
def test_private_host_is_refused_once_and_for_all(tmp_path: Path, host: str) -> None:
    with Pages({"/": "secret"}, "127.0.0.2") as secret:
        port = secret.url.rpartition(":")[2]
        report, log = crawl(tmp_path, [f"http://{host}:{port}/", f"http://{host}:{port}/more"])
    assert not secret.hits
    assert [kind for _, kind in report["failed"]] == ["IgnoreRequest"] * 2
    assert "retry/count" not in report["stats"]
    assert report["stats"]["guard/refused"] == 2
    assert log.count("set CRAWLER_ALLOW_PRIVATE=1 to crawl it") == 1  # one line per host
    assert "Traceback" not in log


def test_public_host_is_fetched(tmp_path: Path) -> None:
    with Pages({"/": "page"}) as public:
        port = public.url.rpartition(":")[2]
        report, _ = crawl(tmp_path, [f"http://public.example:{port}/", f"{public.url}/"])
    assert len(report["got"]) == 2
    assert "guard/refused" not in report["stats"]


@pytest.mark.parametrize("host", ["127.0.0.2", "private.example"])
def test_redirect_into_the_private_network(tmp_path: Path, host: str) -> None:
    with Pages({"/": "secret"}, "127.0.0.2") as secret:
        port = secret.url.rpartition(":")[2]
        with Pages({"/": Answer(status=302, headers={"Location": f"http://{host}:{port}/"})}) as public:
            report, _ = crawl(tmp_path, [f"{public.url}/"])
    assert not secret.hits
    assert report["got"] == []
    assert report["stats"]["guard/refused"] == 1


def test_a_name_that_changes_its_address(tmp_path: Path) -> None:
    """The public address has nothing at this port, so each request is tried until the name has the private one."""
    with Pages({"/": "secret"}, "127.0.0.2") as secret:
        port = secret.url.rpartition(":")[2]
        report, _ = crawl(tmp_path, [f"http://changing.example:{port}/{number}" for number in range(5)])
    assert not secret.hits
    assert [kind for _, kind in report["failed"]] == ["IgnoreRequest"] * 5
    assert report["stats"]["retry/count"] == 2


def test_robots_txt_of_a_private_host_is_not_asked_for(tmp_path: Path) -> None:
    with Pages({"/": "secret"}, "127.0.0.2") as secret:
        port = secret.url.rpartition(":")[2]
        _, log = crawl(tmp_path, [f"http://private.example:{port}/"], ROBOTSTXT_OBEY=True)
    assert not secret.hits
    assert "Traceback" not in log


def test_media_in_the_private_network(tmp_path: Path) -> None:
    with Pages({"/picture": "secret"}, "127.0.0.2") as secret:
        port = secret.url.rpartition(":")[2]
        with Pages({"/": f"image http://private.example:{port}/picture"}) as public:
            report, _ = crawl(tmp_path, [f"{public.url}/"])
    assert report["got"]
    assert not secret.hits
    assert report["stats"]["guard/refused"] == 1


@pytest.mark.parametrize("listed", [True, False])
def test_a_private_proxy_has_to_be_listed(tmp_path: Path, listed: bool) -> None:
    with Pages({"http://public.example/": "by proxy"}, "127.0.0.2") as proxy:
        port = proxy.url.rpartition(":")[2]
        meta = {"proxy": f"http://private.example:{port}"}
        settings = {"CRAWLER_PRIVATE_HOSTS": "private.example"} if listed else {}
        report, _ = crawl(tmp_path, ["http://public.example/"], meta=meta, **settings)
    assert report["got"] == (["http://public.example/"] if listed else [])
    assert len(proxy.hits) == listed


def test_the_environment_s_proxy_needs_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Pages({"http://public.example/": "by proxy"}, "127.0.0.2") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        report, _ = crawl(tmp_path, ["http://public.example/", f"{proxy.url}/"])
    assert report["got"] == ["http://public.example/"]
    assert report["stats"]["guard/refused"] == 1


def test_a_meta_refresh_into_the_private_network(tmp_path: Path) -> None:
    with Pages({"/": "secret"}, "127.0.0.2") as secret:
        refresh = f'<meta http-equiv="refresh" content="0; url={secret.url}/">'
        with Pages({"/": refresh}) as public:
            report, _ = crawl(tmp_path, [f"{public.url}/"])
    assert not secret.hits
    assert report["stats"]["guard/refused"] == 1


def test_no_trick_with_the_real_resolver(tmp_path: Path) -> None:
    """The very addresses of this machine, in every spelling that its own resolver knows."""
    hosts = [
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "017700000001", "0",
        "0.0.0.0", "localhost", "LocalHost.", "127.0.0.1.", "example.com@127.0.0.1", "[::1]",
        "[::ffff:127.0.0.1]", "[::]", socket.gethostname(),
    ]  # fmt: skip
    resolver = "scrapy.resolver.CachingHostnameResolver"  # the one that knows IPv6
    with Pages({"/": "secret"}, "") as secret:
        port = secret.url.rpartition(":")[2]
        urls = [f"http://{host}:{port}/" for host in hosts]
        more: list[dict[str, Any]] = [{}, {"TWISTED_DNS_RESOLVER": resolver}]
        for settings in more:
            report, _ = crawl(tmp_path, urls, judge="is_private", **settings)
            assert not secret.hits
            assert [kind for _, kind in report["failed"]] == ["IgnoreRequest"] * len(hosts)
            assert report["stats"]["guard/refused"] == len(hosts)
        report, _ = crawl(tmp_path, urls[:5], judge="is_private", CRAWLER_ALLOW_PRIVATE=True)
        assert len(report["got"]) == secret.hits.total() == 5


def test_no_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    report, _ = crawl(tmp_path, [f"file://{tmp_path}/secret", "data:,x"])
    assert report["got"] == []
    assert report["stats"]["guard/scheme"] == 2


def test_the_flag_turns_it_off(tmp_path: Path) -> None:
    with Pages({"/": "mine"}, "127.0.0.2") as mine:
        report, _ = crawl(tmp_path, [f"{mine.url}/"], CRAWLER_ALLOW_PRIVATE="1")
    assert report["got"] == [f"{mine.url}/"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_user_who_crawls_localhost_is_told_how(redis_url: str, tmp_path: Path, host: str) -> None:
    with Pages({"/": "mine"}) as site:
        port = site.url.rpartition(":")[2]
        env = project_env(redis_url, tmp_path, CRAWLER_ALLOW_PRIVATE="")
        done = run_scrapy(["crawl", "site", "-a", f"start=http://{host}:{port}/"], env)
    assert not site.hits
    assert "set CRAWLER_ALLOW_PRIVATE=1 to crawl it" in done.stderr
    assert "Traceback" not in done.stderr
