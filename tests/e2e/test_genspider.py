"""``scrapy genspider``: each template's spider passes the linters and crawls as it is written."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler.commands.genspider import Command
from tests.support.pages import Answer, Pages
from tests.support.project import PROJECT, clean_env, project_env, run_scrapy

TEMPLATES = ["api", "basic", "crawl", "feed", "sitemap"]

# All of them in one process, which ends when the last one is done.
ALL = """
import sys
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings

process = AsyncCrawlerProcess(get_project_settings())
for name in sys.argv[1:]:
    process.crawl(name)
process.start()
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what `scrapy genspider` needs; its bot is called as one of the spiders."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PROJECT / "crawler", folder / "crawler", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("scrapy.cfg", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder)
    return folder


def site() -> dict[str, str | Answer]:
    """HTML that links, JSON in two pages, a sitemap."""
    return {
        "/": "<title>one</title><div class=next><a href='/two'>next</a></div> <a href='/other'>other</a>",
        "/two": "<title>two</title>",
        "/other": "<title>other</title>",
        "/seeded": "<title>seeded</title>",
        "/api": Answer(json.dumps({"results": [{"id": 1}, {"id": 2}], "next": "/api?page=2"}), "application/json"),
        "/api?page=2": Answer(json.dumps({"results": [{"id": 3}], "next": None}), "application/json"),
    }


def test_each_template_makes_a_spider_that_runs(copy: Path, redis: redis_py.Redis, redis_url: str) -> None:
    """They go where NEWSPIDER_MODULE says."""
    env = {"BOT_NAME": "my_crawl"}  # the project's name is no obstacle
    with Pages(site()) as pages:
        locs = f"<url><loc>{pages.url}/two</loc></url>"
        pages.pages["/robots.txt"] = Answer(f"Sitemap: {pages.url}/map.xml", "text/plain")
        xmlns = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        pages.pages["/map.xml"] = Answer(f"<urlset {xmlns}>{locs}</urlset>", "text/xml")
        for template in TEMPLATES:
            url = pages.url + ("/api" if template == "api" else "/")
            made = run_scrapy(["genspider", "-t", template, f"my_{template}", url], env, cwd=copy)
            assert made.returncode == 0, made.stderr
        redis.lpush("my_feed:start_urls", f"{pages.url}/two")
        redis.lpush("my_crawl:start_urls", f"{pages.url}/seeded")
        more = {"DOWNLOAD_DELAY": "0", "WORKER_NAME": "w", "FRONTIER_IDLE": "1", "METRICS_ENABLED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", ALL, *(f"my_{template}" for template in TEMPLATES)],
            cwd=copy, env=clean_env(project_env(redis_url, copy, **more)), capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert "ERROR" not in done.stderr, done.stderr

    def items(template: str, field: str) -> list[object]:
        lines = (copy / "items" / f"my_{template}" / "w.jsonl").read_text().splitlines()
        return sorted(json.loads(line)[field] for line in lines)

    assert items("api", "id") == [1, 2, 3]
    assert items("basic", "title") == ["one", "two"]
    assert items("crawl", "title") == ["one", "other", "seeded", "two"]  # the start page and seeds, too
    assert items("feed", "title") == ["two"]
    assert items("sitemap", "title") == ["two"]

    spiders = [f"crawler/spiders/my_{template}.py" for template in TEMPLATES]
    assert max(len((copy / spider).read_text().splitlines()) for spider in spiders) <= 22
    mypy = ["mypy", "--follow-imports=silent", "--disallow-untyped-defs", "--cache-dir", str(PROJECT / ".mypy_cache")]
    for tool in (["ruff", "check"], ["ruff", "format", "--check"], mypy):
        checked = subprocess.run(
            [sys.executable, "-m", *tool, *spiders], cwd=copy, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout


def test_the_list_has_ours_only() -> None:
    """TEMPLATES_DIR."""
    assert run_scrapy(["genspider", "-l"]).stdout.split() == ["Available", "templates:", *TEMPLATES]


MISTAKES = {
    "-t csvfeed new-one new.example": f"-t=csvfeed: must be one of {', '.join(TEMPLATES)}, or a .tmpl file",
    "quotes new.example": "NAME=quotes: there is such a spider; take another name, or overwrite it with --force",
    "{x} new.example": "NAME={x}: must begin with a letter and have letters, digits, _ - . only",
    "new-one": "arguments=new-one: give a name and a URL: scrapy genspider [-t TEMPLATE] NAME URL",
    "new-one ftp://new.example": "URL=ftp://new.example: must be one URL with http:// or https://",
    "new-one https://": "URL=https://: must be one URL with http:// or https://",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command()
    command.settings = Settings()
    command.settings.setmodule("crawler.settings", priority="project")
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    opts, args = parser.parse_known_args(words.split())
    command.run(args, opts)
    error = capsys.readouterr().err
    assert command.exitcode == 2
    assert error.startswith(MISTAKES[words])
    assert error.count("\n") == 1


def test_scrapy_s_own_startproject_works_in_here(tmp_path: Path) -> None:
    done = run_scrapy(["startproject", "bare", str(tmp_path / "bare")])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bare" / "bare" / "settings.py").exists()
