"""Passwords stay out of what people read: the whole log at its most talkative, errors, metrics, items, commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import Pages
from tests.support.project import project_env, run_scrapy
from tests.support.server import RedisServer, free_port

PASSWORD = "correct-horse-battery"


@pytest.fixture
def locked() -> Iterator[RedisServer]:
    with RedisServer() as server:
        with server.client() as client:
            client.config_set("requirepass", PASSWORD)
        yield server


def url(port: int, password: str = PASSWORD) -> str:
    return f"redis://:{password}@127.0.0.1:{port}/0"


def test_a_whole_crawl(locked: RedisServer, tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.prom"
    more = {"LOG_LEVEL": "DEBUG", "METRICS_TEXTFILE": str(metrics), "DOWNLOAD_DELAY": "0"}
    env = project_env(url(locked.port), tmp_path, **more)
    with Pages({"/": '<a href="/b">b</a>', "/b": "<title>b</title>"}) as site:
        done = run_scrapy(["crawl", "site", "-a", f"start={site.url}/", "-s", "LOG_LEVEL=DEBUG"], env)
        assert done.returncode == 0, done.stderr
        assert site.hits["/b"] == 1
    said = [done.stdout, done.stderr, metrics.read_text()]
    (feed,) = (tmp_path / "items").rglob("*.jsonl")
    said.append(feed.read_text())
    assert "Overridden settings" in said[1]
    for command in (["frontier", "status", "site"], ["dedup", "status", "site"]):
        done = run_scrapy(command, env)
        assert done.returncode == 0, done.stderr
        said += [done.stdout, done.stderr]
    assert all(said[1:4])
    assert [text for text in said if PASSWORD in text] == []


def test_errors_name_the_server_without_it(locked: RedisServer, tmp_path: Path) -> None:
    crawl, status = ["crawl", "site", "-a", "start=http://127.0.0.1:1/"], ["frontier", "status", "site"]
    for command, address in (
        (crawl, url(locked.port, PASSWORD + "-wrong")),
        (crawl, url(free_port())),
        (status, f"redis://:{PASSWORD}@127.0.0.1:port/0"),
        (status, f"http://:{PASSWORD}@127.0.0.1/"),
    ):
        done = run_scrapy(command, project_env(address, tmp_path, LOG_LEVEL="DEBUG"))
        assert done.returncode != 0
        assert done.stderr.strip()
        assert PASSWORD not in done.stderr + done.stdout
