"""Redirects inside one class, against a real server: every page arrives, whatever the scheduler, cached or not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from crawler.canonical import RedirectMiddleware
from tests.support.project import PROJECT, project_env, run_scrapy

SPIDER = Path(__file__).with_name("redirect_spider.py")
PAGES = {"/": 1, "/adds": 1, "/strips": 1, "/cookie": 1, "/detour": 1}
LINKS = "".join(f'<a href="{path}">x</a>' for path in ("/adds", "/strips?utm_source=1", "/cookie", "/detour"))
MOVES = {
    "/adds": "/adds?utm_source=x",
    "/strips?utm_source=1": "/strips",
    "/via": "/via/2",
    "/via/2": "/via/2?utm_source=1",
    "/via/2?utm_source=1": "/via?utm_source=1",
    "/own/a": "/own/a?utm_source=1",
    "/own/a?utm_source=1": "/own/a",
    "/loop/a": "/loop/b",
    "/loop/b": "/loop/a",
    "/busy/": "/busy",
}


class Site(ThreadingHTTPServer):
    """Pages behind redirects: by status, or by meta refresh. `hits` counts requests by path, `exact` with the query."""

    daemon_threads = True

    def __init__(self, refresh: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refresh = refresh
        self.hits: Counter[str] = Counter()
        self.exact: Counter[str] = Counter()
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        seen = "seen=1" in self.headers.get("Cookie", "")
        self.server.hits[path] += 1
        self.server.exact[self.path] += 1
        if path == "/cookie" and not seen:
            self.move("/cookie", cookie=True)
        elif path == "/detour" and not seen:
            self.move("/detour/login")
        elif path == "/detour/login":
            self.move("/detour", cookie=True)
        elif path == "/busy/" and self.server.hits[path] == 1:
            self.answer(503, "")
        elif path == "/busy/start":
            self.answer(200, '<html><body><a href="/busy">x</a><a href="/busy/">x</a></body></html>')
        elif self.path in MOVES:
            self.move(MOVES[self.path])
        elif path in {"/ticker", "/ticker/cookie"}:
            head = f'<html><head><meta http-equiv="refresh" content="30; url={path}"></head></html>'
            self.answer(200, head, {"Set-Cookie": f"n={self.server.hits[path]}"} if path == "/ticker/cookie" else {})
        else:
            self.answer(200, f"<html><body>{LINKS if path == '/' else path}</body></html>")

    def move(self, target: str, *, cookie: bool = False) -> None:
        # the cookie holds for this page only, so that each page has to set its own
        own = {"Set-Cookie": f"seen=1; Path={target}"} if cookie else {}
        if self.server.refresh:
            head = f'<html><head><meta http-equiv="refresh" content="0; url={target}"></head></html>'
            self.answer(200, head, own)
        else:
            self.answer(302, "", {"Location": target, **own})

    def answer(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


STATUS_ONLY = pytest.mark.parametrize("site", [False], indirect=True)


@pytest.fixture(params=[False, True], ids=["status", "refresh"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    server = Site(request.param)
    yield server
    server.shutdown()
    server.server_close()


MIDDLEWARES = (
    '{"scrapy.downloadermiddlewares.redirect.RedirectMiddleware": null,'
    ' "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": null,'
    ' "crawler.canonical.RedirectMiddleware": 600, "crawler.canonical.MetaRefreshMiddleware": 580}'
)


def crawl(url: str, folder: Path, **settings: object) -> Counter[str]:
    """Paths of the pages that the spider was given."""
    options = {
        "REQUEST_FINGERPRINTER_CLASS": "crawler.canonical.CanonicalFingerprinter",
        "DOWNLOADER_MIDDLEWARES": MIDDLEWARES,
        "TELNETCONSOLE_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        **settings,
    }
    flags = [word for name, value in options.items() for word in ("-s", f"{name}={value}")]
    done = run_scrapy(["runspider", str(SPIDER), "-a", f"root={url}", *flags], {"PYTHONPATH": str(PROJECT)}, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "] ERROR:" not in done.stderr, done.stderr
    return Counter(line.split()[1] for line in done.stdout.splitlines() if line.startswith("PAGE"))


def test_every_page_behind_a_redirect_arrives(site: Site, tmp_path: Path) -> None:
    assert crawl(site.url, tmp_path) == PAGES
    assert site.hits == {"/": 1, "/adds": 2, "/strips": 2, "/cookie": 2, "/detour": 2, "/detour/login": 1}


def test_with_scrapy_redis(site: Site, tmp_path: Path, redis_url: str) -> None:
    pages = crawl(
        site.url,
        tmp_path,
        SCHEDULER="scrapy_redis.scheduler.Scheduler",
        DUPEFILTER_CLASS="crawler.dedup.BloomDupeFilter",
        REDIS_URL=redis_url,
    )
    assert pages == PAGES


def test_with_the_shared_frontier(site: Site, tmp_path: Path, redis_url: str) -> None:
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", ROBOTSTXT_OBEY="0")
    done = run_scrapy(["crawl", "site", "-a", f"start={site.url}"], env)
    assert done.returncode == 0, done.stderr
    items = [json.loads(line) for file in tmp_path.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert Counter(urlsplit(item["url"]).path for item in items) == PAGES
    assert site.hits == {"/": 1, "/adds": 2, "/strips": 2, "/cookie": 2, "/detour": 2, "/detour/login": 1}


def test_with_the_http_cache(site: Site, tmp_path: Path) -> None:
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    assert crawl(site.url, tmp_path, **cache) == PAGES
    first = site.hits.copy()
    assert crawl(site.url, tmp_path, **cache) == PAGES
    assert site.hits == first, "the second crawl is answered by the cache alone"


@STATUS_ONLY
def test_a_page_that_reloads_itself_is_a_page(site: Site, tmp_path: Path) -> None:
    assert crawl(f"{site.url}ticker", tmp_path) == {"/ticker": 1}
    assert site.hits["/ticker"] == 1
    assert crawl(f"{site.url}ticker/cookie", tmp_path) == {"/ticker/cookie": 1}
    assert site.hits["/ticker/cookie"] == 2


@STATUS_ONLY
def test_a_loop_is_left_at_once(site: Site, tmp_path: Path) -> None:
    crawl(f"{site.url}loop/a", tmp_path)
    assert 2 <= site.hits["/loop/a"] + site.hits["/loop/b"] <= 3


@pytest.mark.parametrize("cookies", [True, False])
def test_a_return_by_detour_under_another_spelling_is_followed(site: Site, tmp_path: Path, cookies: bool) -> None:
    assert crawl(f"{site.url}via", tmp_path, COOKIES_ENABLED=cookies) == {"/via": 1}
    assert site.exact == {"/via": 1, "/via/2": 1, "/via/2?utm_source=1": 1, "/via?utm_source=1": 1}


@STATUS_ONLY
def test_a_loop_inside_one_class_is_left_at_once(site: Site, tmp_path: Path) -> None:
    crawl(f"{site.url}own/a", tmp_path)
    assert site.exact == {"/own/a": 1, "/own/a?utm_source=1": 1}


def test_the_redirect_of_a_retry_is_no_excuse_to_fetch_a_page_twice(site: Site, tmp_path: Path) -> None:
    pages = crawl(f"{site.url}busy/start", tmp_path, RETRY_PRIORITY_ADJUST=-1)
    assert pages == {"/busy/start": 1, "/busy": 1}
    assert site.hits == {"/busy/start": 1, "/busy": 1, "/busy/": 2}


@pytest.mark.parametrize("exempt", [True, False])
def test_what_was_exempt_before_a_retry_stays_exempt(exempt: bool) -> None:
    middleware = RedirectMiddleware.from_crawler(get_crawler())
    request = Request("http://a.example/1", dont_filter=exempt)
    middleware.process_request(request)
    retry = request.replace(dont_filter=True, meta={**request.meta, "retry_times": 1})
    copied = retry.replace(url="http://a.example/3")  # by a spider, on purpose, with all of its meta
    for sent, expected in ((retry, exempt), (copied, True)):
        middleware.process_request(sent)
        moved = middleware.process_response(sent, Response(sent.url, 302, headers={"Location": "/2"}))
        assert isinstance(moved, Request)
        assert moved.dont_filter == expected
