"""Scrapy's commands in this project: what starts an embedded server, what does not, and what the exit code says."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py

from crawler.embedded.folder import data_folder, socket_path
from tests.support.project import PROJECT, project_env, run_scrapy, start_scrapy
from tests.support.server import RedisServer, wait_for

SPIDERS = """
import scrapy
from scrapy.exceptions import CloseSpider
from scrapy_redis.spiders import RedisSpider

class Plain(scrapy.Spider):
    name = "plain"
    def parse(self, response):
        yield {"title": response.css("title::text").get()}

class Fed(RedisSpider):
    name = "fed"
    def parse(self, response):
        self.logger.info("server %r", self.server.connection_pool.connection_kwargs.get("path"))
        yield {"title": response.css("title::text").get()}

class Picky(scrapy.Spider):
    name = "picky"
    def __init__(self, country, **kwargs):
        super().__init__(**kwargs)

class Broken(scrapy.Spider):
    name = "broken"
    async def start(self):
        raise RuntimeError("start is broken")
        yield
"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://elsewhere.example/")
            self.end_headers()
            return
        body = b"" if self.path == "/robots.txt" else b"<html><title>hello</title></html>"
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def page() -> Iterator[str]:
    """URL of a page titled hello."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of its own (so that it has an embedded server of its own) that uses this package."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = crawler.settings\n")
    (tmp_path / "own_spiders.py").write_text(SPIDERS)
    return tmp_path


@pytest.fixture
def env(project: Path) -> dict[str, str]:
    return project_env("", project, PYTHONPATH=f"{project}:{PROJECT}", DOWNLOAD_DELAY="0")


SPIDERS_HERE = ["-s", "SPIDER_MODULES=own_spiders"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["list"], "plain"),
        (["shell", "--nolog", "-c", "response.css('title::text').get()", "{page}"], "hello"),
        (["fetch", "--nolog", "{page}"], "hello"),
        (["parse", "--nolog", "--spider", "plain", "{page}"], "{'title': 'hello'}"),
        (["parse", "--nolog", "--spider", "fed", "{page}"], "Scraped Items"),
        (["check"], "OK"),
        (["settings", "--get", "BOT_NAME"], "crawler"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_no_server_is_started_for(args: list[str], said: str, env: dict[str, str], project: Path, page: str) -> None:
    done = run_scrapy([arg.format(page=page) for arg in args] + SPIDERS_HERE, env, cwd=project)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not (project / ".scrapy").exists()
    assert not (project / "items").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fetch", "--spider=site", "{page}"], "<title>hello</title>"),
        (["fetch", "--spider=sitemap", "{file}", "-a", "start={page}"], "<title>here</title>"),
        (["shell", "--spider=site", "-c", "spider.start_urls", "{page}"], "['{page}']"),
        (["shell", "-c", "response.css('title::text').get()", "{file}"], "here"),
        (["parse", "--spider=site", "{page}"], "'title': 'hello'"),
    ],
    ids=["fetch", "fetch-file", "shell", "shell-file", "parse"],
)
def test_a_page_of_a_spider_that_asks_where_to_start(
    args: list[str], said: str, env: dict[str, str], project: Path, page: str
) -> None:
    (file := project / "here.html").write_text("<title>here</title>")
    done = run_scrapy([arg.format(page=page, file=file.as_uri()) for arg in args] + ["--nolog"], env, cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert said.format(page=page) in done.stdout
    assert not (project / ".scrapy").exists()


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["fetch", "--spider=site", "{file}"], "start=: say where to begin: -a start=https://example.com/"),
        (["parse", "--spider=site", "page"], "URL=page: must begin with http://, https:// or file://"),
        (
            ["parse", "--spider=picky", "{page}", *SPIDERS_HERE],
            "spider=picky: cannot be made (missing a required argument",
        ),
    ],
    ids=["fetch", "no-url", "parse"],
)
def test_a_spider_that_cannot_be_made_for_a_page_is_one_line(
    args: list[str], line: str, env: dict[str, str], project: Path, page: str
) -> None:
    file = (project / "here.html").as_uri()
    done = run_scrapy([arg.format(page=page, file=file) for arg in args] + ["--nolog"], env, cwd=project)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert line in done.stderr


def test_debugging_leaves_a_shared_crawl_alone(
    env: dict[str, str], project: Path, page: str, redis: redis_py.Redis, redis_url: str
) -> None:
    redis.lpush("fed:start_urls", page)
    values = {**env, "REDIS_URL": redis_url}
    done = run_scrapy(["parse", "--nolog", "--spider", "fed", page, *SPIDERS_HERE], values, cwd=project)
    assert "Requests" in done.stdout
    assert redis.keys() == [b"fed:start_urls"]
    assert redis.llen("fed:start_urls") == 1


def test_crawl_without_redis_url_uses_the_embedded_server_and_says_so_once(
    env: dict[str, str], project: Path, page: str
) -> None:
    for turn, spider_closed in ((1, "finished"), (2, "run_finished")):
        args = ["crawl", "fed", "-s", "FRONTIER_RUN=one", "-s", "FRONTIER_IDLE=0.5", *SPIDERS_HERE]
        if turn == 1:
            seeded = run_scrapy(["seed", "fed", page, *SPIDERS_HERE], env, cwd=project)
            assert seeded.returncode == 0, seeded.stderr
        done = run_scrapy(args, env, cwd=project)
        assert done.returncode == 0, done.stderr
        path = socket_path(data_folder(project))
        assert done.stderr.count(f"REDIS_URL is not set: using the embedded server at {path}") == 1
        assert f"Spider closed ({spider_closed})" in done.stderr
        assert "Traceback" not in done.stderr
        if turn == 1:
            assert f"server '{path}'" in done.stderr, "the spider's own client goes there too"
            assert (project / "items" / "fed").is_dir()
    wait_for(lambda: not path.exists(), "end of the embedded server")


def test_exit_code_and_line_when_a_crawl_fails(env: dict[str, str], project: Path, redis_url: str) -> None:
    values = {**env, "REDIS_URL": redis_url}
    args = ["crawl", "broken", *SPIDERS_HERE, "--logfile", str(project / "log")]
    done = run_scrapy(args, values, cwd=project)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the crawl closed with reason start_error: see its log\n"
    assert "start is broken" in (project / "log").read_text()


def test_what_fails_before_there_are_any_stats_is_all_that_is_told(env: dict[str, str], project: Path) -> None:
    done = run_scrapy(["crawl", "plain", *SPIDERS_HERE, "-s", "STATS_CLASS=no.such"], env, cwd=project)
    assert done.returncode == 1
    assert "The crawl failed: ModuleNotFoundError" in done.stderr
    assert "is not set yet" not in done.stderr


@pytest.mark.slow
def test_log_of_a_slow_start_is_not_held_back_for_long(env: dict[str, str], project: Path) -> None:
    """A server that takes connections and says nothing: the log appears although the start is still waiting."""
    with RedisServer() as server:
        server.freeze()
        log = project / "log"
        values = {**env, "REDIS_URL": server.url}
        patient = ["-s", 'REDIS_PARAMS={"socket_timeout": 25}']
        process = start_scrapy(["crawl", "plain", *SPIDERS_HERE, *patient], values, log, cwd=project)
        wait_for(lambda: "Spider opened" in log.read_text(), "the log", 25)
        assert process.poll() is None
        assert process.wait(40) == 1
        server.resume()
    assert log.read_text().splitlines()[-1].startswith(f"{server.url} does not answer (Timeout")


@pytest.mark.parametrize(
    ("path", "settings", "said"),
    [
        ("", {"CRAWLER_ALLOW_PRIVATE": "0"}, "at a private address (CRAWLER_PRIVATE_HOSTS lists hosts"),
        ("away", {}, "to another site (the spider's allowed_domains)"),
    ],
    ids=["private", "redirected-offsite"],
)
def test_the_last_line_of_a_crawl_whose_start_was_refused_says_why(
    env: dict[str, str], project: Path, page: str, path: str, settings: dict[str, str], said: str
) -> None:
    env = {**env, "FRONTIER": "memory", "METRICS_ENABLED": "0", **settings}
    done = run_scrapy(["crawl", "site", "-a", f"start={page}{path}"], env, cwd=project)
    assert done.returncode == 0
    last = done.stderr.splitlines()[-1]
    assert f"WARNING: This worker fetched no page from {page}{path}: requests were refused {said}" in last
