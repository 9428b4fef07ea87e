"""kill -9 in the middle of writing a feed: after a restart every line is whole, nothing that was flushed is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.project import PROJECT
from tests.support.server import wait_for

# A crawl without requests: items from start(), flushed one by one, each number confirmed on standard output after that.
# "dies" is killed when half of the third item's line has reached the file; "waits" keeps its file open after the last.
WRITER = """
import asyncio, os, signal, sys
import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from crawler.feeds import flush_feeds

folder, worker, first, last, end = sys.argv[1:]
write = os.write

def write_half_and_die(descriptor, data):
    write(descriptor, bytes(data[: len(data) // 2]))
    os.kill(os.getpid(), signal.SIGKILL)

class Numbers(scrapy.Spider):
    name = "numbers"
    async def start(self):
        for number in range(int(first), int(last)):
            if end == "dies" and number == int(first) + 2:
                os.write = write_half_and_die
            yield {"number": number, "padding": "x" * 200_000}
            flush_feeds()
            print(number, flush=True)
        if end == "waits":
            await asyncio.sleep(3600)

process = AsyncCrawlerProcess({
    "FEEDS": {"%(feed_dir)s/%(worker)s.jsonl": {"format": "jsonlines"}},
    "FEED_DIR": folder, "WORKER_NAME": worker, "FEED_URI_PARAMS": "crawler.feeds.uri_params",
    "FEED_STORAGES": {"": "crawler.feeds.LocalFeedStorage"}, "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "WARNING",
})
process.crawl(Numbers)
process.start()
"""


def start(folder: Path, worker: str, first: int, last: int, end: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(folder), worker, str(first), str(last), end]
    return subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def run(folder: Path, worker: str, first: int, last: int, end: str = "ends") -> tuple[list[int], int]:
    """The numbers that the process confirmed, and its exit code."""
    process = start(folder, worker, first, last, end)
    out, _ = process.communicate(timeout=60)
    return [int(line) for line in out.split()], process.returncode


def numbers(path: Path) -> list[int]:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    return [json.loads(line)["number"] for line in content.splitlines()]


def test_restarted_worker_goes_on_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "w1.jsonl"
    assert run(tmp_path, "w1", 0, 10, "dies") == ([0, 1], -9)
    assert not path.read_bytes().endswith(b"\n")
    assert run(tmp_path, "w1", 100, 103) == ([100, 101, 102], 0)
    assert numbers(path) == [0, 1, 100, 101, 102]


def test_another_worker_mends_what_a_dead_one_left(tmp_path: Path) -> None:
    alive = start(tmp_path, "alive", 0, 2, "waits")
    try:
        assert run(tmp_path, "dead", 0, 10, "dies") == ([0, 1], -9)
        path = tmp_path / "alive.jsonl"
        wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") == 2, "two items of the living", seconds=30)
        with path.open("ab") as file:
            file.write(b'{"number": ')  # as if it were in the middle of a write now
        assert run(tmp_path, "third", 0, 1) == ([0], 0)
        assert numbers(tmp_path / "dead.jsonl") == [0, 1]
        assert path.read_bytes().endswith(b'{"number": ')
    finally:
        alive.kill()
        alive.communicate()
