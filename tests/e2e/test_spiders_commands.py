"""Scrapy's own commands in this project: none joins the crawl, takes a seed, writes a feed or starts a server."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis as redis_py

from tests.support.pages import Pages
from tests.support.project import project_env, run_scrapy
from tests.support.shops import quotes_site

SEEDS = [b"http://127.0.0.1:1/seed"]


@pytest.fixture
def env(redis: redis_py.Redis, redis_url: str, tmp_path: Path) -> dict[str, str]:
    redis.rpush("feed:start_urls", *SEEDS)
    own = {"CRAWLER_ALLOW_PRIVATE": "", "DOWNLOAD_DELAY": "0", "LOG_LEVEL": "WARNING", "BROWSER": "echo %s"}
    return project_env(redis_url, tmp_path, **own)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "quotes\n"),
        (["check", "quotes"], ""),
        (["fetch", "URL/page/2/"], "Saying 4"),
        (["fetch", "--spider", "books", "URL/"], "Saying 0"),
        (["fetch", "--spider", "feed", "URL/"], "Saying 0"),
        (["parse", "--spider", "quotes", "URL/"], "“Saying 0 & more.”"),
        (["parse", "--spider", "feed", "URL/"], "'title': 'Quotes'"),
        (["parse", "--spider", "site", "-a", "start=URL/", "-d", "2", "URL/"], "/page/2/"),
        (["shell", "-c", "response.css('title::text').get()", "URL/"], "Quotes"),
        (["shell", "--spider", "feed", "-c", "response.status", "URL/"], "200"),
        (["view", "--spider", "feed", "URL/"], "file:///"),
        (["settings", "--get", "SCHEDULER"], "crawler.frontier.Scheduler"),
    ],
)
def test_beside_the_crawl(
    redis: redis_py.Redis, env: dict[str, str], tmp_path: Path, words: list[str], said: str
) -> None:
    with Pages(quotes_site()) as site:
        done = run_scrapy([word.replace("URL", site.url) for word in words], env)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert "Traceback" not in done.stderr
    assert redis.keys("*") == [b"feed:start_urls"]
    assert redis.lrange("feed:start_urls", 0, -1) == SEEDS
    assert not (tmp_path / "items").exists()


def test_output_of_parse_goes_where_it_is_told(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    with Pages(quotes_site(per_page=2)) as site:
        done = run_scrapy(["parse", "--spider", "quotes", "-o", str(file), f"{site.url}/"], env)
    assert done.returncode == 0, done.stderr
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize("words", [["fetch", "--spider", "quoets", "http://127.0.0.1:1/"], ["check", "quoets"]])
def test_an_unknown_spider_is_one_line(env: dict[str, str], words: list[str]) -> None:
    done = run_scrapy(words, env)
    assert done.returncode != 0
    assert done.stderr == "spider=quoets: no such spider; did you mean quotes?\n"


def test_a_setting_on_the_command_line_still_wins(redis: redis_py.Redis, env: dict[str, str], tmp_path: Path) -> None:
    feeds = f'{{"{tmp_path}/mine.jsonl": {{"format": "jsonlines"}}}}'
    with Pages(quotes_site()) as site:
        done = run_scrapy(["parse", "--spider", "quotes", "-s", f"FEEDS={feeds}", f"{site.url}/"], env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mine.jsonl").exists()


@pytest.mark.slow
def test_bench_measures_scrapy(env: dict[str, str], redis: redis_py.Redis) -> None:
    done = run_scrapy(["bench"], {**env, "LOG_LEVEL": "INFO"})
    assert done.returncode == 0, done.stderr
    pages = int(done.stderr.rsplit("'response_received_count': ", 1)[1].split(",")[0])
    assert pages > 100
    assert redis.keys("*") == [b"feed:start_urls"]
