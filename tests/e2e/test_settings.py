"""What the settings page promises, seen from outside: by the site, in the files, in Redis and in the log."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
import redis as redis_py

from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy, start_scrapy
from tests.support.server import wait_for

WORDS = {
    "BOT_NAME": "mybot", "USER_AGENT": "mine/2", "WORKER_NAME": "w1", "REDIS_KEY_PREFIX": "other", "LOG_LEVEL": "DEBUG",
    "FRONTIER_RUN": "monday", "FRONTIER_SHARDS": "2", "FRONTIER_MAX_REPEATED_SEGMENTS": "2", "DOWNLOAD_DELAY": "0",
    "DOWNLOAD_MAXSIZE": "5000",
}  # fmt: skip
LINKS = ["/é", "/a", "/a?utm_source=x", "/moved", "/x/x/x/x/", "/large", "/forbidden"]
SITE: dict[str, str | Answer] = {
    "/": "<title>Start</title>" + "".join(f"<a href='{link}'>x</a>" for link in LINKS),
    "/%C3%A9": "<title>é</title>",
    "/a": "<title>A</title>",
    "/moved": Answer(status=302, headers={"Location": "/moved?utm_source=x"}),
    "/moved?utm_source=x": "<title>Moved</title>",
    "/large": "<title>Large</title>" + "x" * 5000,
    "/robots.txt": Answer("User-agent: mybot\nDisallow: /forbidden", "text/plain"),
}


def test_one_crawl(redis: redis_py.Redis, redis_url: str, tmp_path: Path) -> None:
    """Each assertion is about the settings that its comment names."""
    metrics, discovery = tmp_path / "metrics.prom", tmp_path / "targets.json"
    files = {"METRICS_TEXTFILE": str(metrics), "METRICS_SD_FILE": str(discovery)}
    env = project_env(redis_url, tmp_path, **WORDS, **files, METRICS_PORT="0")
    feed = tmp_path / "items" / "site" / "w1.jsonl"
    feed.parent.mkdir(parents=True)
    feed.write_text('{"title": "torn')
    with Pages(SITE) as site:
        done = run_scrapy(["crawl", "site", "-a", f"start={site.url}/"], env)
    log, keys = done.stderr, sorted(key.decode() for key in redis.keys("*"))  # type: ignore[union-attr]
    assert done.returncode == 0, log  # SPIDER_MODULES

    assert {headers["user-agent"] for headers in site.requests} == {"mine/2"}  # USER_AGENT
    assert site.hits["/robots.txt"] == 1  # ROBOTSTXT_OBEY
    assert "/forbidden" not in site.hits  # BOT_NAME, ROBOTSTXT_USER_AGENT
    assert "/x/x/x/x/" not in site.hits  # FRONTIER_MAX_REPEATED_SEGMENTS
    assert "/a?utm_source=x" not in site.hits or "/a" not in site.hits  # REQUEST_FINGERPRINTER_CLASS
    assert site.hits["/moved?utm_source=x"] == 1  # DOWNLOADER_MIDDLEWARES_BASE

    lines = feed.read_text(encoding="utf-8").splitlines()  # FEEDS, FEED_DIR, FEED_URI_PARAMS, WORKER_NAME
    items = {item["title"]: item for item in map(json.loads, lines)}  # FEED_STORAGES: the torn line is gone
    assert set(items) == {"Start", "é", "A", "Moved"}  # DOWNLOAD_MAXSIZE
    assert any('"é"' in line for line in lines)  # FEED_EXPORT_ENCODING
    assert all(item["fingerprint"] for item in items.values())  # SPIDER_MIDDLEWARES_BASE

    assert "{other:site:1}:meta" in keys  # SCHEDULER, REDIS_KEY_PREFIX, FRONTIER_SHARDS
    assert any(key.startswith("{other:site:1}:dedup:") for key in keys)  # DUPEFILTER_CLASS
    assert redis.hexists("{other:site:0}:runs", "monday")  # FRONTIER_RUN

    assert " DEBUG: Crawled (200)" in log  # LOG_LEVEL
    port = re.search(r"Metrics: http://127\.0\.0\.1:(\d+)/metrics", log)
    assert port  # EXTENSIONS
    assert int(port[1]) > 10_000  # METRICS_PORT: any free one, and none of those that follow the default
    assert 'worker="w1"' in metrics.read_text()  # METRICS_TEXTFILE
    assert discovery.exists()  # METRICS_SD_FILE
    assert "Telnet console listening" not in log  # TELNETCONSOLE_ENABLED
    assert "Remote control HTTP server" not in log  # REMOTE_CONTROL_ENABLED


def test_an_env_file(redis: redis_py.Redis, redis_url: str, tmp_path: Path) -> None:
    """CRAWLER_ENV_FILE, with a CONTACT in it; ROBOTSTXT_OBEY=0 and CRAWLER_SCHEMES beside it."""
    file = tmp_path / "my.env"
    file.write_text(f"REDIS_URL={redis_url}\nFEED_DIR={tmp_path}/items\nCONTACT=me@example.org\nDOWNLOAD_DELAY=0\n")
    pages: dict[str, str | Answer] = {"/": "<title>x</title>", "/robots.txt": Answer("User-agent: *\nDisallow: /")}
    with Pages(pages) as site:
        env = {"CRAWLER_ENV_FILE": str(file), "ROBOTSTXT_OBEY": "0", "METRICS_ENABLED": "0"}
        done = run_scrapy(["crawl", "site", "-a", f"start={site.url}/"], env)
    assert done.returncode == 0, done.stderr
    assert site.hits == {"/": 1}
    assert "me@example.org" in site.requests[0]["user-agent"]
    assert "Metrics:" not in done.stderr


class Held(Pages):
    """Nothing but robots.txt is answered before `free` is set."""

    def __init__(self, pages: dict[str, str | Answer]) -> None:
        super().__init__(pages)
        self.free = threading.Event()

    def answer(self, path: str) -> Answer:
        if path != "/robots.txt":
            self.free.wait(60)
        return super().answer(path)


def test_a_stopped_worker_waits_for_a_page_as_long_as_it_shall(redis_url: str, tmp_path: Path) -> None:
    log, env = tmp_path / "log", project_env(redis_url, tmp_path, FRONTIER_GRACE="0.1", DOWNLOAD_DELAY="0")
    site = Held({})
    with site:
        worker = start_scrapy(["crawl", "site", "-a", f"start={site.url}/"], env, log)
        wait_for(lambda: site.hits["/"], "the page is asked for", 30)
        worker.terminate()
        try:
            assert worker.wait(30) == 0, log.read_text()
        finally:
            site.free.set()
    assert "1 requests did not finish in FRONTIER_GRACE=0.1 s" in log.read_text()


@pytest.mark.slow
def test_replicas_that_are_not_there_are_waited_for(redis_url: str, tmp_path: Path) -> None:
    log, env = tmp_path / "log", project_env(redis_url, tmp_path, FRONTIER_WAIT_REPLICAS="1", DOWNLOAD_DELAY="0")
    with Pages({"/": "<title>x</title>"}) as site:
        worker = start_scrapy(["crawl", "site", "-a", f"start={site.url}/"], env, log)
        wait_for(lambda: "REPLICAS" in log.read_text() or worker.poll() is not None, "it says so, or ends", 30)
    assert "FRONTIER_WAIT_REPLICAS=1, but 0 of the replicas" in log.read_text()
