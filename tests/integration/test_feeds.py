"""Feeds through Scrapy's own exporter: batches, compression, overwriting, dead neighbours, a useless folder."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import Pages
from tests.support.project import PROJECT, project_env, run_scrapy
from tests.support.shops import quotes_site

# A crawl without requests: five items from start().
FIVE = """
import json, sys
import scrapy
from scrapy.crawler import AsyncCrawlerProcess

class Five(scrapy.Spider):
    name = "five"
    async def start(self):
        for number in range(5):
            yield {"number": number}

process = AsyncCrawlerProcess({
    "FEED_URI_PARAMS": "crawler.feeds.uri_params", "REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False,
    "FEED_STORAGES": {"": "crawler.feeds.LocalFeedStorage", "file": "crawler.feeds.LocalFeedStorage"},
    "LOG_LEVEL": "WARNING", **json.loads(sys.argv[1]),
})
process.crawl(Five)
process.start()
"""


def crawl(folder: Path, uri: str, worker: str = "w1", **options: Any) -> str:
    settings = {
        "FEED_DIR": str(folder), "WORKER_NAME": worker, "FEEDS": {uri: {"format": "jsonlines", **options}}
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", FIVE, json.dumps(settings)],
        cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stderr


def numbers(content: bytes) -> list[int]:
    return [json.loads(line)["number"] for line in content.splitlines()]


def test_batches(tmp_path: Path) -> None:
    log = crawl(tmp_path, "%(feed_dir)s/%(worker)s-%(batch_id)d.jsonl", batch_item_count=2)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["w1-1.jsonl", "w1-2.jsonl", "w1-3.jsonl"]
    assert [numbers(file.read_bytes()) for file in files] == [[0, 1], [2, 3], [4]]
    assert log == ""


def test_a_torn_batch_of_a_dead_worker_is_mended(tmp_path: Path) -> None:
    (tmp_path / "dead-1.jsonl").write_bytes(b'{"number": 7}\n{"num')
    log = crawl(tmp_path, "%(feed_dir)s/%(worker)s-%(batch_id)d.jsonl", batch_item_count=2)
    assert numbers((tmp_path / "dead-1.jsonl").read_bytes()) == [7]
    assert "dead-1.jsonl: cut a torn last line of 5 bytes" in log


def test_gzip(tmp_path: Path) -> None:
    plugin = "scrapy.extensions.postprocessing.GzipPlugin"
    crawl(tmp_path, "%(feed_dir)s/%(worker)s.jsonl.gz", postprocessing=[plugin])
    assert numbers(gzip.decompress((tmp_path / "w1.jsonl.gz").read_bytes())) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("overwrite", "times"), [(False, 2), (True, 1)])
def test_appending_is_the_default(tmp_path: Path, overwrite: bool, times: int) -> None:
    options: dict[str, Any] = {"overwrite": True} if overwrite else {}
    for _ in range(2):
        crawl(tmp_path, f"file://{tmp_path}/%(name)s.jsonl", **options)
    assert numbers((tmp_path / "five.jsonl").read_bytes()) == [0, 1, 2, 3, 4] * times


def test_csv_is_scrapy_s(tmp_path: Path) -> None:
    crawl(tmp_path, "%(feed_dir)s/%(worker)s.csv", format="csv")
    assert (tmp_path / "w1.csv").read_text().split() == ["number", "0", "1", "2", "3", "4"]


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_useless_feed_dir_is_one_line(redis_url: str, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = f"{tmp_path}/file{below}"
    done = run_scrapy(["crawl", "quotes"], {**project_env(redis_url, tmp_path), "FEED_DIR": folder})
    assert done.returncode != 0
    assert done.stderr.startswith(f"FEED_DIR={folder}: cannot be made a folder (")
    assert done.stderr.count("\n") == 1


def test_feed_batch_items_begins_a_new_file(redis_url: str, tmp_path: Path) -> None:
    env = project_env(redis_url, tmp_path, FEED_BATCH_ITEMS="5", DOWNLOAD_DELAY="0", WORKER_NAME="w1")
    with Pages(quotes_site(pages=3, per_page=4)) as site:
        done = run_scrapy(["crawl", "quotes", "-a", f"start={site.url}/"], env)
    assert done.returncode == 0, done.stderr
    files = sorted((tmp_path / "items" / "quotes").glob("w1-*.jsonl"))
    assert [len(file.read_text().splitlines()) for file in files] == [5, 5, 2]
    assert "“Saying 0" in files[0].read_text(encoding="utf-8"), "FEED_EXPORT_ENCODING: text stays readable"
    merged = run_scrapy(["items", "quotes"], env)
    assert (merged.returncode, len(merged.stdout.splitlines())) == (0, 12)
    assert merged.stderr == "12 items from 3 files, 0 repeats left out\n"
