"""Feed files: whole lines only, one writer per file, nothing lost on a full disk, other people's files left alone."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.utils.test import get_crawler

from crawler import feeds
from crawler.feeds import LinesFile, LocalFeedStorage, flush_feeds, mend_folder, uri_params

# what the file ends with → what is left of it after mending
TAILS = [
    (b"", b""),
    (b'{"a": 1}\n', b'{"a": 1}\n'),
    (b'{"a": 1}\n{"b": ', b'{"a": 1}\n'),
    (b'{"a": 1}\n{', b'{"a": 1}\n'),
    (b'{"a": 1}\n{"b": 2}', b'{"a": 1}\n{"b": 2}\n'),
    (b'{"torn": "first', b""),
    (b'{"a": 1}\n{"b": "' + b"x" * (3 * feeds.BLOCK), b'{"a": 1}\n'),
    (b'{"a": 1}\n12', b'{"a": 1}\n'),
    ('{"a": 1}\n{"b": "ü'.encode()[:-1], b'{"a": 1}\n'),
]


@pytest.fixture
def spider() -> Iterator[Spider]:
    crawler = get_crawler(Spider, {"WORKER_NAME": "w1", "FEED_DIR": "out"})
    spider = Spider(name="books")
    spider.crawler = crawler
    yield spider
    for file in feeds._open_files:
        file.close()
    feeds._open_files.clear()


def storage(path: Path, **options: Any) -> LocalFeedStorage:
    return LocalFeedStorage(str(path), feed_options={"format": "jsonlines", **options})


@pytest.mark.parametrize(("content", "left"), TAILS)
def test_torn_last_line(tmp_path: Path, content: bytes, left: bytes) -> None:
    path = tmp_path / "w1.jsonl"
    path.write_bytes(content)
    file = LinesFile(path)
    file.write(b'{"new": 1}\n')
    file.close()
    assert path.read_bytes() == left + b'{"new": 1}\n'


@pytest.mark.parametrize(("content", "left"), TAILS)
def test_torn_line_of_a_dead_neighbour(tmp_path: Path, content: bytes, left: bytes) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_bytes(content)
    mend_folder(tmp_path)
    assert path.read_bytes() == left


def test_a_live_worker_s_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "alive.jsonl"
    path.write_bytes(b'{"half": ')
    with path.open("ab") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        mend_folder(tmp_path)
        assert path.read_bytes() == b'{"half": '
    mend_folder(tmp_path)
    assert path.read_bytes() == b""


def test_only_json_lines_files_are_mended(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b'{"half')
    (tmp_path / "items.json").write_bytes(b"[\n{}\n]")
    mend_folder(tmp_path)
    assert (tmp_path / "notes.txt").read_bytes() == b'{"half'
    assert (tmp_path / "items.json").read_bytes() == b"[\n{}\n]"


def test_an_intact_neighbour_is_not_even_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.jsonl").write_bytes(b"{}\n")
    monkeypatch.setattr(feeds, "_lock", lambda descriptor: pytest.fail("locked an intact file"))
    mend_folder(tmp_path)


def test_only_the_tail_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # a hole of 1 GiB
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"torn')
    read = 0
    pread = os.pread

    def counting(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        read += size
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counting)
    mend_folder(tmp_path)
    assert path.stat().st_size == (1 << 30) + 1
    assert read <= 2 * feeds.BLOCK


def test_flush_feeds_reaches_the_file(tmp_path: Path, spider: Spider) -> None:
    path = tmp_path / "books" / "w1.jsonl"
    file = storage(path).open(spider)
    file.write(b'{"a": 1}\n')
    assert not path.exists()
    flush_feeds()
    assert path.read_bytes() == b'{"a": 1}\n'


def test_flush_feeds_without_news_makes_no_system_call(
    tmp_path: Path, spider: Spider, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = storage(tmp_path / "w1.jsonl").open(spider)
    file.write(b"{}\n")
    flush_feeds()
    monkeypatch.setattr(os, "write", lambda *_: pytest.fail("wrote without anything to write"))
    flush_feeds()


def test_a_full_buffer_is_written_at_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "w1.jsonl"
    file = LinesFile(path)
    line = json.dumps({"text": "x" * 1000}).encode() + b"\n"
    for _ in range(feeds.BUFFER // len(line) + 1):
        file.write(line)
    assert path.read_bytes().endswith(b'"}\n')
    file.close()


def test_appends_unless_told_to_overwrite(tmp_path: Path, spider: Spider) -> None:
    path = tmp_path / "w1.jsonl"
    for options, content in [({}, b"1\n"), ({}, b"1\n1\n"), ({"overwrite": True}, b"1\n")]:
        store = storage(path, **options)
        file = store.open(spider)
        file.write(b"1\n")
        store.store(file)
        assert path.read_bytes() == content
    assert not feeds._open_files


def test_two_processes_with_one_name_do_not_share_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = LinesFile(tmp_path / "w1.jsonl"), LinesFile(tmp_path / "w1.jsonl")
    for file in (first, second):
        file.write(b"{}\n")
        file.flush()
    assert "is WORKER_NAME used twice?" in caplog.text
    assert (tmp_path / "w1.jsonl").read_bytes() == (tmp_path / "w1.2.jsonl").read_bytes() == b"{}\n"
    first.close()
    second.close()


def test_a_full_disk_loses_nothing(tmp_path: Path, spider: Spider, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w1.jsonl"
    store = storage(path)
    file = store.open(spider)
    write, left = os.write, 5

    def full_disk(descriptor: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(28, "No space left on device")
        written = write(descriptor, data[:left])
        left -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk)
        file.write(b'{"kept": 1}\n')
        with pytest.raises(OSError, match="No space left"):
            flush_feeds()
        file.write(b"{}\n" * feeds.BUFFER)  # a full buffer does not raise into the item pipeline
        with pytest.raises(OSError, match="No space left"):
            store.store(file)
        with pytest.raises(OSError, match="No space left"):
            flush_feeds()  # a feed that could not be closed still holds back the acknowledgements
    flush_feeds()
    assert path.read_bytes() == b'{"kept": 1}\n' + b"{}\n" * feeds.BUFFER


def test_a_folder_that_cannot_be_made_is_an_error_of_the_flush(tmp_path: Path, spider: Spider) -> None:
    (tmp_path / "items").write_bytes(b"")  # a file where the folder should be
    file = storage(tmp_path / "items" / "w1.jsonl").open(spider)
    file.write(b"{}\n")
    with pytest.raises(OSError, match="items"):
        flush_feeds()
    (tmp_path / "items").unlink()
    flush_feeds()
    assert (tmp_path / "items" / "w1.jsonl").read_bytes() == b"{}\n"


def test_neighbours_of_a_file_without_the_worker_s_name_are_anybody_s(tmp_path: Path, spider: Spider) -> None:
    (tmp_path / "somebody.jsonl").write_bytes(b'{"being written')
    for name in ("out.jsonl", "w1.jsonl"):
        store = storage(tmp_path / name)
        store.store(store.open(spider))
        assert (tmp_path / "somebody.jsonl").read_bytes() == (b'{"being written' if name == "out.jsonl" else b"")


def test_files_torn_during_the_crawl_are_mended_at_its_end(tmp_path: Path, spider: Spider) -> None:
    from scrapy import signals

    storage(tmp_path / "w1.jsonl").open(spider)
    (tmp_path / "w2.jsonl").write_bytes(b'{}\n{"half')
    spider.crawler.signals.send_catch_log(signals.feed_exporter_closed)
    assert (tmp_path / "w2.jsonl").read_bytes() == b"{}\n"


@pytest.mark.parametrize("options", [{"format": "csv"}, {"format": "json"}, {"postprocessing": ["a.b.Plugin"]}])
def test_other_formats_are_scrapy_s_files_and_flushed_too(
    tmp_path: Path, spider: Spider, options: dict[str, Any]
) -> None:
    path = tmp_path / "w1.out"
    path.write_bytes(b"no newline")
    file = storage(path, **options).open(spider)
    file.write(b"more")
    flush_feeds()
    assert path.read_bytes() == b"no newlinemore"


def test_a_device_is_written_as_it_is(spider: Spider) -> None:
    store = storage(Path(os.devnull))
    file = store.open(spider)
    file.write(b"{}\n")
    store.store(file)


def test_a_file_system_without_locks_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    file = LinesFile(tmp_path / "w1.jsonl")
    file.write(b"{}\n")
    with caplog.at_level(logging.WARNING):
        file.close()
    assert (tmp_path / "w1.jsonl").read_bytes() == b"{}\n"
    assert "cannot be locked" in caplog.text


@pytest.mark.parametrize(
    ("folder", "filled"),
    [("out", "out"), ("~/out", "/home/me/out"), ("s3://bucket/out", "s3://bucket/out"), ("", "items")],
)
def test_folder_in_the_path(monkeypatch: pytest.MonkeyPatch, folder: str, filled: str) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    spider = Spider(name="books")
    spider.crawler = get_crawler(Spider, {"WORKER_NAME": "w1", "FEED_DIR": folder})
    assert uri_params({}, spider)["feed_dir"] == filled


def test_a_remote_folder_is_not_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    crawler = get_crawler(Spider, {"WORKER_NAME": "w1", "FEED_DIR": "s3://bucket/out"})
    LocalFeedStorage.from_crawler(crawler, "%(feed_dir)s/%(worker)s.jsonl")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "safe"), [("host-1", "host-1"), ("../../etc/x", ".._.._etc_x"), ("a b:c", "a_b_c")])
def test_worker_in_the_path(name: str, safe: str) -> None:
    spider = Spider(name="books")
    spider.crawler = get_crawler(Spider, {"WORKER_NAME": name, "FEED_DIR": "out"})
    params = uri_params({"name": "books"}, spider)
    assert (params["name"], params["worker"], params["feed_dir"]) == ("books", safe, "out")
