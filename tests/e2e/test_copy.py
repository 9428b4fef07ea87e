"""Copied tomorrow: a copy with its own .env and a spider of 15 lines crawls, and passes its own checks and tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py

from crawler.env import read_env_file
from tests.e2e.compose_stack import OVERRIDE
from tests.e2e.test_compose import engine_answers
from tests.support.pages import Pages
from tests.support.project import PROJECT, clean_env, project_env, run_scrapy
from tests.support.shops import quotes_site

SPIDER = '''
import scrapy


class ShopSpider(scrapy.Spider):
    """What people say, page by page."""

    name = "shop"
    start_urls = ["URL"]

    def parse(self, response):
        for quote in response.css("div.quote"):
            yield {"text": quote.css("span.text::text").get(), "tags": quote.css("a.tag::text").getall()}
        yield from response.follow_all(css="li.next a")
'''.lstrip()
VENV = Path(sys.prefix)  # what is installed there is what the copy's lock file asks for


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`make new`, as the README says it; its path is short, for the embedded server's socket lies in it."""
    folder = tmp_path_factory.mktemp("c") / "shop"
    make(PROJECT, "new", "NAME=shop", f"DIR={folder}", "CONTACT=https://shop.example/bot")
    assert len(SPIDER.splitlines()) <= 15
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def make(folder: Path, *words: str, timeout: float = 120) -> str:
    """`make WORDS`; its output. The copy's .env counts, not this process's environment."""
    env = {name: value for name, value in clean_env().items() if not name.startswith("CRAWLER_")}
    done = subprocess.run(
        ["make", *words, f"VENV={VENV}"], cwd=folder, env=env, timeout=timeout,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.mark.slow
def test_a_spider_of_15_lines_crawls(copy: Path) -> None:
    """With the copy's .env and an embedded server of its own: one run, then a second that repeats only the start."""
    with (copy / ".env").open("a") as file:
        file.write("DOWNLOAD_DELAY=0\nCRAWLER_ALLOW_PRIVATE=1\n")
    env = {name: value for name, value in clean_env().items() if not name.startswith("CRAWLER_")}
    with Pages(quotes_site(pages=3, per_page=4)) as site:
        (copy / "crawler" / "spiders" / "shop.py").write_text(SPIDER.replace("URL", f"{site.url}/"))
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-m", "scrapy", "crawl", "shop"], cwd=copy, env=env, capture_output=True, text=True,
                check=False, timeout=60,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
    assert site.hits == {"/robots.txt": site.hits["/robots.txt"], "/": 2, "/page/2/": 1, "/page/3/": 1}
    assert {headers["user-agent"] for headers in site.requests} == {"shop/1.0 (+https://shop.example/bot)"}
    lines = [line for file in (copy / "items" / "shop").iterdir() for line in file.read_text().splitlines()]
    assert len({json.loads(line)["text"] for line in lines}) == 12


@pytest.mark.slow
def test_its_own_checks_pass(copy: Path) -> None:
    make(copy, "check", timeout=600)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.skipif(not os.environ.get("COPY_TESTS"), reason="COPY_TESTS=1 runs the whole suite of the copy: minutes")
def test_its_own_tests_pass(copy: Path) -> None:
    said = make(copy, "test", timeout=2300)
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) > 1000


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_make_up_in_the_copy(copy: Path, tmp_path: Path) -> None:
    """Redis and two workers in Docker, identity and password from the copy's .env: they crawl the demo's website."""
    if not engine_answers():
        pytest.skip("no Docker engine answers")
    network = os.environ.get("BUILD_NETWORK", "")
    demo = dict(line.split("=", 1) for line in (copy / "deploy/demo.env").read_text().split("\n") if line[:1].isupper())
    env = {
        name: value for name, value in os.environ.items() if name.startswith(("DOCKER_", "PATH", "HOME", "BUILDKIT"))
    }
    env |= demo | {"DEMO_PAGES": "100", "METRICS_LINGER": "0"}
    if network:  # no registry of images is reached: stand-ins
        password = read_env_file(copy / ".env")["REDIS_PASSWORD"]
        override = OVERRIDE.format(project="shop", network=network, password=password, maxmemory="1gb")
        (tmp_path / "override.yml").write_text(override)
        env["COMPOSE_FILE"] = f"docker-compose.yml:{tmp_path / 'override.yml'}"

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=copy, env=env, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    try:
        run("make", "up", "ARGS=--detach --scale worker=2")
        run("docker", "compose", "wait", "worker")
        items = run("docker", "compose", "run", "--rm", "worker", "items", "site")
        assert len(items.splitlines()) == 100
    finally:
        run("make", "down", "ARGS=--volumes")


def test_two_copies_on_one_redis_never_meet(redis: redis_py.Redis, redis_url: str, tmp_path: Path) -> None:
    """The same spider and site under two prefixes: each crawl is whole, and no key belongs to both."""
    with Pages(quotes_site(pages=2, per_page=3)) as site:
        for name in ("shop", "news"):
            env = project_env(redis_url, tmp_path / name, REDIS_KEY_PREFIX=name, DOWNLOAD_DELAY="0", WORKER_NAME="w")
            done = run_scrapy(["crawl", "quotes", "-a", f"start={site.url}/"], env)
            assert done.returncode == 0, done.stderr
    assert (site.hits["/"], site.hits["/page/2/"]) == (2, 2)
    prefixes = {key.decode().partition(":")[0] for key in redis.scan_iter()}
    assert prefixes == {"{shop", "{news"}
