"""The item files of many workers as one: each item once, torn lines named, bounded memory, three formats."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.commands.items import Command
from crawler.output import merge as merging
from crawler.output.merge import Merge, Seen, feed_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two workers' files, one with a repeat after a crash and a torn line; and what is none of their business."""
    spider = tmp_path / "items" / "shop"
    spider.mkdir(parents=True)
    lines = [{"n": 1, "fingerprint": "a-0"}, {"n": 2, "tags": ["x", "é"], "fingerprint": "a-1"}, {"n": 9}]
    (spider / "w1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (spider / "w2-0001.jl").write_text('{"n": 1, "fingerprint": "a-0"}\n\n{"n": 9}\n{"n": 3, "fing')
    (spider / "notes.txt").write_text("not items\n")
    return tmp_path


def run(folder: Path, *words: str) -> int:
    command = Command()
    command.settings = Settings({"FEED_DIR": str(folder / "items"), "SPIDER_MODULES": ["crawler.spiders"]})
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    opts, args = parser.parse_known_args(words)
    command.run(args, opts)
    return command.exitcode


def test_each_item_once(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(folder, "shop") == 0
    out, err = capsysbinary.readouterr()
    assert [json.loads(line)["n"] for line in out.splitlines()] == [2, 9, 1, 9]  # those without a key all stay
    assert "é".encode() in out
    assert err.decode().splitlines() == [
        f"{folder}/items/shop/w2-0001.jl line 4: torn, left out",
        "4 items from 2 files, 1 repeats left out",
    ]


def test_the_newest_copy_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time of the files, not by their names (a name begins with a host and a process); within one, by line."""
    monkeypatch.setattr(merging, "BLOCK", 7)  # lines across several blocks
    day = "w-2026-11-30T10-00-0{}.5+00-00.jsonl"
    files = {
        "a-9.jsonl": (1_900_000_000.0, ["x new", "y newer", "y newest"]),
        "b-1.jsonl": (1_600_000_000.0, ["x old", "w only"]),
        "c.jsonl": (1_600_000_000.0, ["w of the same time"]),  # of these the later name
        day.format(1): (1_600_000_000.0, ["x batch 1", "z batch 1"]),
        day.format(2): (1_500_000_000.0, ["z batch 2"]),  # copied, say: the name tells
    }
    for name, (time, lines) in files.items():
        text = "".join(json.dumps({"n": line, "fingerprint": line[0]}) + "\n" for line in lines)
        (tmp_path / name).write_text(text.removesuffix("\n") if name == "c.jsonl" else text)
        os.utime(tmp_path / name, (time, time))
    merge = Merge(feed_files(tmp_path))
    for _ in range(2):
        assert [item["n"] for item in merge] == ["x new", "y newest", "w of the same time", "z batch 2"]
        assert (merge.items, merge.repeats, merge.torn) == (4, 5, [])
        with (tmp_path / "a-9.jsonl").open("a") as file:  # by a worker: for the next time
            file.write('{"n": "later", "fingerprint": "x"}\n')


def test_all_keeps_repeats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "shop", "--all") == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_csv_has_every_field_of_every_item(folder: Path, tmp_path: Path) -> None:
    assert run(folder, "shop", "-o", str(tmp_path / "out.csv")) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(encoding="utf-8"))))
    assert [row["n"] for row in rows] == ["2", "9", "1", "9"]
    assert [json.loads(row["tags"] or "0") for row in rows] == [["x", "é"], 0, 0, 0]


def test_parquet(folder: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    assert run(folder, "shop", "-o", str(tmp_path / "out.parquet")) == 0
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["n"] for row in rows] == [2, 9, 1, 9]
    assert rows[0] == {"n": 2, "tags": ["x", "é"], "fingerprint": "a-1"}
    assert not (tmp_path / "out.parquet.part").exists()


def test_a_field_of_two_types_is_no_parquet_and_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with (folder / "items" / "shop" / "w3.jsonl").open("w") as file:
        file.write('{"n": "many"}\n')
    assert run(folder, "shop", "-o", str(tmp_path / "out.parquet")) == 2
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ([], 2, "spider=(not given): name one: scrapy items SPIDER"),
        (["shop", "--format", "xml"], 2, "--format=xml: must be one of jsonl, csv, parquet"),
        (["shop", "--format", "parquet"], 2, "--format=parquet: needs a file: -o FILE.parquet"),
        (["shop", "-o", "/nowhere/x.csv"], 2, "-o=/nowhere/x.csv: cannot be written (No such file or directory)"),
        (["nope"], 2, "spider=nope: no such spider; this project has "),
        (["quotes"], 1, "no items: there is no JSON-lines file in "),
    ],
)
def test_a_mistake_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, line: str
) -> None:
    assert run(folder, *words) == code
    error = capsys.readouterr().err
    assert error.startswith(line)
    assert error.count("\n") == 1


def test_a_line_that_is_json_but_no_item_is_torn(tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").write_bytes(b'7\n{"n": 1}\n\xff\n[]\n')
    merge = Merge(feed_files(tmp_path))
    assert list(merge) == [{"n": 1}]
    assert [line for _, line in merge.torn] == [1, 3, 4]


def test_what_was_seen_takes_at_most_32_bytes_an_item() -> None:
    seen = Seen()
    assert all(seen.add(f"key {number}") for number in range(20_000))
    assert not any(seen.add(f"key {number}") for number in range(20_000))
    assert (len(seen), seen.nbytes <= 32 * len(seen)) == (20_000, True)
