"""The audit against a real site on which one tracker's name chooses the page, and another parameter does nothing."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from redis import Redis

from tests.support.project import project_env, run_scrapy

LINKS = [f"/page?id={n}&utm_source=home" for n in range(8)]
LINKS += [f"/sale?utm_campaign={season}" for season in ("spring", "summer", "autumn", "winter")]
LINKS += [f"/clock?id={n}&utm_source=home" for n in range(3)]
LINKS += [
    f"/list?page={n}&view=grid" for n in range(32)
]  # of each one parameter is tried, which depends on its address: five "view" for sure


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.server.hits[self.path] += 1
        text = f"{url.path} {query.get('id')} {query.get('page')}"
        if url.path == "/":
            text = "".join(f'<a href="{link.replace("&", "&amp;")}">x</a>' for link in LINKS)
        elif url.path == "/sale":
            text = f"sale of {query.get('utm_campaign', 'everything')}"
        elif url.path == "/clock":
            text = f"tick {next(self.server.clock)}"
        elif url.path == "/robots.txt":
            text = ""
        body = f"<html><body><script>{next(self.server.clock)}</script>{text}</body></html>".encode()
        self.send_response(404 if url.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hits: Counter[str] = Counter()
        self.clock = itertools.count()
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.shutdown()
    server.server_close()


def test_an_audited_crawl_tells_which_rule_eats_pages(site: Site, tmp_path: Path, redis_url: str, redis: Redis) -> None:
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0", CANONICAL_AUDIT="1", CANONICAL_LEARN="1")
    start = f"http://127.0.0.1:{site.server_port}/"
    crawl = run_scrapy(["crawl", "site", "-a", f"start={start}"], env)
    assert crawl.returncode == 0, crawl.stderr
    assert "'utm_campaign' is not what" in crawl.stderr
    assert "'utm_source' is not what" not in crawl.stderr
    assert "'canonical/audit/changed'" in crawl.stderr
    assert "'canonical/audit/volatile'" in crawl.stderr

    report = run_scrapy(["canonical", "--audit", "site"], env).stdout.splitlines()
    rows = {line.split()[1]: line.split()[2:5] for line in report[1:] if "learn" not in line}
    assert rows["utm_campaign"] == ["4", "4", "0"]
    assert rows["utm_source"] == ["8", "0", "3"]

    suggested = run_scrapy(["canonical", "--suggest", "site"], env).stdout
    assert 'restore = ["utm_campaign"]' in suggested
    assert 'strip = ["view"]' in suggested
    (tmp_path / "suggested.toml").write_text(suggested)
    check = run_scrapy(["canonical", "--check", "--rules", str(tmp_path / "suggested.toml")], env)
    assert (check.returncode, check.stderr) == (0, "")

    # the items are as they would be without the audit: one per page, and one sale only, which is what it warns of
    items = [json.loads(line) for file in tmp_path.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(items) == 1 + 8 + 1 + 3 + 32
    assert redis.scard("{crawler:site:0}:audit:tried") > 20

    again = run_scrapy(["crawl", "site", "-a", f"start={start}"], {**env, "SCHEDULER_FLUSH_ON_START": "1"})
    assert "canonical/audit" not in again.stderr, "each URL is tried once"


def test_without_the_setting_nothing_is_fetched_twice(site: Site, tmp_path: Path, redis_url: str) -> None:
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0")
    crawl = run_scrapy(["crawl", "site", "-a", f"start=http://127.0.0.1:{site.server_port}/"], env)
    assert crawl.returncode == 0, crawl.stderr
    assert "crawler.canonical.AuditMiddleware" not in crawl.stderr
    assert max(site.hits.values()) == 1
    empty = run_scrapy(["canonical", "--audit", "site"], env)
    assert "Nothing was tried for site yet: crawl with -s CANONICAL_AUDIT=0.01" in empty.stderr


@pytest.mark.parametrize("value", ["1.5", "-1", "x"])
def test_a_bad_share_is_one_line(value: str, tmp_path: Path, redis_url: str) -> None:
    env = project_env(redis_url, tmp_path, CANONICAL_AUDIT=value)
    done = run_scrapy(["crawl", "site", "-a", "start=http://127.0.0.1:9/"], env)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"CANONICAL_AUDIT={value}: must be " in done.stderr
