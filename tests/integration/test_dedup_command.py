"""``scrapy dedup`` as a user types it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from crawler.dedup import kinds
from crawler.dedup.memory import SeenMemory
from crawler.dedup.report import status
from crawler.dedup.sizing import Sizing
from crawler.dedup.transfer import Origin, Part, export, load
from crawler.errors import ConfigError, StoredDataError
from tests.support import seen
from tests.support.dedup_command import Dedup
from tests.support.project import PROJECT, clean_env, run_scrapy, scrapy_command

BASE = "{crawler:quotes:0}"
URL = "https://a.example/page"
EXACT: dict[str, Any] = {"DUPEFILTER_CLASS": "crawler.dedup.ExactDupeFilter"}


@pytest.fixture
def dedup(capsys: pytest.CaptureFixture[str]) -> Dedup:
    return Dedup(capsys)


def test_as_a_process(redis_url: str) -> None:
    done = run_scrapy(["dedup", "status", "quotes"], env={"REDIS_URL": redis_url})
    assert (done.returncode, done.stdout) == (0, f"quotes: nothing seen yet under {BASE}\n")
    done = run_scrapy(["dedup", "plan", "--capacity", "lots"], env={"REDIS_URL": redis_url})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("--capacity=lots: must be a number")


def test_plan_needs_no_server(dedup: Dedup) -> None:
    done = dedup("redis://127.0.0.1:1/0", "plan", "--capacity", "100M", "--error-rate", "1e-6")
    assert "34.2 bits per page (theory 28.8), k = 15" in done.stdout
    assert "1,000,000,000" in done.stdout
    facts = json.loads(dedup("", "plan", "--capacity", "1M", "--error-rate", "1e-4", "--json").stdout)
    assert facts["k"] == 13
    assert facts["bytes"] / 1e6 * 8 < 1.25 * facts["theory_bits_per_page"]


def test_nothing_is_seen_before_a_crawl(dedup: Dedup, redis_url: str) -> None:
    layered: dict[str, Any] = {"DUPEFILTER_CLASS": "crawler.dedup.LayeredDupeFilter"}
    assert dedup(redis_url, "check", "quotes", URL, **layered).stdout == f"not seen  {URL}\n"
    assert "nothing seen yet" in dedup(redis_url, "status", "quotes").stdout
    assert dedup(redis_url, "forget", "quotes", URL, **layered).stdout == f"was not seen  {URL}\n"


def test_a_reader_that_has_enough_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    plan = scrapy_command(["dedup", "plan"])
    env = clean_env({"PYTHONUNBUFFERED": ""})  # as behind `| head`: what is left is written at the end
    done = subprocess.run(plan, cwd=PROJECT, env=env, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.stderr, done.returncode) == (b"", 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "--capacity", "lots"], "--capacity=lots: must be a number"),
        (["plan", "--error-rate", "1.5"], "--error-rate=1.5: must be a number between 0 and 1"),
        (["dance"], "action=dance: must be one of plan, status"),
        (["check", "quotes"], "arguments=(too few): usage: scrapy dedup check SPIDER URL..."),
        (["check", "nobody", URL], "spider=nobody: no such spider"),
        (["check", "quotes", "no url"], "URL=no url: is not one that can be crawled"),
        (["rotate", "quotes"], "DEDUP_WINDOW=(not set): quotes has no windows"),
        (["fold", "quotes"], "DUPEFILTER_CLASS=crawler.dedup.BloomDupeFilter: has no recent set"),
        (["clear", "quotes"], "--yes=(not given): this forgets all"),
        (["import", "quotes", "/nowhere/file"], "FILE=/nowhere/file: cannot be read"),
        (["export", "quotes", "/nowhere/file"], "FILE=/nowhere/file: cannot be written"),
    ],
)
def test_bad_input_is_one_line(dedup: Dedup, redis_url: str, words: list[str], message: str) -> None:
    done = dedup(redis_url, *words, ok=False)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert message in lines[-1]
    assert done.returncode == 2


def test_a_key_of_somebody_elses_is_one_line(dedup: Dedup, redis: redis_py.Redis, redis_url: str) -> None:
    redis.set(f"{BASE}:dedup:meta", "mine")
    for words in (["status", "quotes"], ["check", "quotes", URL], ["clear", "quotes", "--yes"]):
        done = dedup(redis_url, *words, ok=False)
        assert done.stderr.startswith(f"Something else wrote a key that begins with {BASE}:dedup: delete it, or choose")
    assert redis.get(f"{BASE}:dedup:meta") == b"mine"


def test_a_memory_of_one_process_is_not_looked_for_on_the_server(dedup: Dedup, redis_url: str) -> None:
    done = dedup(redis_url, "status", "quotes", ok=False, DUPEFILTER_CLASS="crawler.dedup.MemoryBloomDupeFilter")
    assert "keeps no memory on the server" in done.stderr


def test_a_bloom_filter_says_why_it_cannot_forget(dedup: Dedup, redis_url: str) -> None:
    settings: dict[str, Any] = {"DUPEFILTER_CLASS": "crawler.dedup.BloomDupeFilter", "BLOOM_BACKEND": "bitmap"}
    fingerprint = fingerprint_of(URL)
    with redis_py.Redis.from_url(redis_url) as client:
        SeenMemory(client, BASE, kinds.bitmap(Sizing(1_000_000, 1e-6))).add([fingerprint])
    assert dedup(redis_url, "check", "quotes", URL + "?utm_source=x", **settings).stdout.startswith("seen  ")
    done = dedup(redis_url, "forget", "quotes", URL, ok=False, **settings)
    assert done.returncode == 1
    assert "cannot forget one page: use ExactDupeFilter" in done.stderr
    row = dedup(redis_url, "status", "quotes").stdout.splitlines()[1].split()
    assert row[:4] == ["bitmap", "1", "1", "0.0%"]
    assert row[5] == "1e-06"


def fingerprint_of(url: str) -> bytes:
    from scrapy import Request, Spider
    from scrapy.utils.misc import build_from_crawler
    from scrapy.utils.test import get_crawler

    from crawler.canonical import CanonicalFingerprinter

    fingerprint: bytes = build_from_crawler(CanonicalFingerprinter, get_crawler(Spider)).fingerprint(Request(url))
    return fingerprint


def test_with_another_scheduler_the_key_is_the_one_that_is_set(dedup: Dedup, redis_url: str) -> None:
    settings: dict[str, Any] = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler", "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:mine",
        "DUPEFILTER_CLASS": "crawler.dedup.ExactDupeFilter",
    }  # fmt: skip
    with redis_py.Redis.from_url(redis_url) as client:
        SeenMemory(client, "quotes:mine", kinds.exact()).add([fingerprint_of(URL)])
    assert dedup(redis_url, "check", "quotes", URL, **settings).stdout.startswith("seen  ")
    del settings["SCHEDULER"]
    assert dedup(redis_url, "check", "quotes", URL, **settings).stdout.startswith("not seen  ")


def test_exact_forgets_and_layered_folds(dedup: Dedup, redis_url: str) -> None:
    fingerprint = fingerprint_of(URL)
    with redis_py.Redis.from_url(redis_url) as client:
        SeenMemory(client, BASE, kinds.layered(kinds.bitmap(Sizing(1_000_000, 1e-6)), 1_000_000)).add(
            [fingerprint, *(b"%d" % number for number in range(1000))]
        )
        settings: dict[str, Any] = {"DUPEFILTER_CLASS": "crawler.dedup.LayeredDupeFilter", "BLOOM_BACKEND": "bitmap"}
        assert dedup(redis_url, "forget", "quotes", URL, **settings).stdout.startswith("forgotten")
        assert dedup(redis_url, "check", "quotes", URL, **settings).stdout.startswith("not seen")
        assert "the recent set is empty" in dedup(redis_url, "fold", "quotes", **settings).stdout
        recent, history = status(client, BASE)
        assert (recent.elements, history.elements) == (0, 1000)


def test_rotate_gives_up_the_oldest_generation(dedup: Dedup, redis: redis_py.Redis, redis_url: str) -> None:
    settings = EXACT | {"DEDUP_WINDOW": "1h", "DEDUP_WINDOW_GENERATIONS": 2}
    SeenMemory(redis, BASE, kinds.window(kinds.exact(), "1h", 3_600_000, 2)).add([fingerprint_of(URL)])
    seen_after = []
    for _ in range(4):
        seen_after.append(dedup(redis_url, "check", "quotes", URL, **settings).stdout.startswith("seen"))
        assert re.fullmatch(r"quotes: generation \d+ begins\n", dedup(redis_url, "rotate", "quotes", **settings).stdout)
    assert seen_after == [True, True, True, False]


# Export and import ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [seen.marked(kind) for kind in seen.KINDS])
def test_an_export_read_on_another_server_answers_as_before(kind: str, tmp_path: Path) -> None:
    module = "+module" if "native" in kind else ""
    elements = [b"%d" % number for number in range(3000)]
    admission = seen.KINDS[kind](1000, 1e-6)
    with seen.start("valkey" + module) as first, first.client() as client:
        SeenMemory(client, "{one}", admission).add(elements)
        with (tmp_path / "export").open("wb") as file:
            export(client, "{one}", file, Origin("1"))
    with seen.start("valkey" + module) as second, second.client() as client:
        with (tmp_path / "export").open("rb") as file:
            load([Part(client, "{two}", file, "export", Origin("1"))])
        memory = SeenMemory(client, "{two}", admission)
        assert memory.has(elements) == b"1" * 3000
        assert memory.has([b"x%d" % number for number in range(3000)]) == b"0" * 3000
        assert memory.add([b"0", b"new"]) == b"01"
        lasting = {key for key in client.scan_iter() if client.pttl(key) < 0}
        assert lasting == ({b"{two}:dedup:meta"} if kind.startswith("window/") else set(client.scan_iter()))


def test_a_file_cut_short_or_foreign_is_refused_and_leaves_no_memory(redis: redis_py.Redis, tmp_path: Path) -> None:
    SeenMemory(redis, "{one}", kinds.exact()).add([b"%d" % number for number in range(3000)])
    whole = tmp_path / "whole"
    with whole.open("wb") as file:
        export(redis, "{one}", file, Origin("1"))
    data = whole.read_bytes()
    broken = {"cut": data[: len(data) // 2], "no end": data[:-8], "foreign": b"hello", "empty": b"", "next": b""}
    broken["next"] = data.replace(b"crawler-dedup\x02", b"crawler-dedup\x03")
    for name, content in broken.items():
        path = tmp_path / name.replace(" ", "")
        path.write_bytes(content)
        with path.open("rb") as file, pytest.raises(ConfigError, match=f"FILE={path.name}"):
            load([Part(redis, "{two}", file, path.name, Origin("1"))])
        assert not redis.exists("{two}:dedup:meta")
    with whole.open("rb") as file, pytest.raises(StoredDataError, match="seen there already"):
        load([Part(redis, "{one}", file, "whole", Origin("1"))])


def test_nothing_to_export_is_said(dedup: Dedup, redis_url: str, tmp_path: Path) -> None:
    done = dedup(redis_url, "export", "quotes", str(tmp_path / "file"), ok=False)
    assert done.returncode == 1
    assert "nothing was seen yet" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_export_is_read_with_the_rules_that_made_it(
    dedup: Dedup, redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    path, memory = tmp_path / "seen", SeenMemory(redis, BASE, kinds.exact())
    memory.add([b"page"])
    dedup(redis_url, "export", "quotes", str(path), **EXACT)
    dedup(redis_url, "clear", "quotes", "--yes", **EXACT)
    other = dedup(redis_url, "import", "quotes", str(path), ok=False, CANONICAL_GROUPS="session", **EXACT)
    assert other.stderr.startswith(f"FILE={path}: holds fingerprints of version 1-")
    assert other.stderr.count("\n") == 1
    assert redis.keys() == []
    dedup(redis_url, "import", "quotes", str(path), **EXACT)
    assert memory.has([b"page"]) == b"1"


def test_an_export_names_the_rules_that_the_frontier_was_written_with(
    dedup: Dedup, redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    SeenMemory(redis, BASE, kinds.exact()).add([b"page"])
    redis.hset(f"{BASE}:meta", "versions", "payload=1 fingerprint=1-older")
    dedup(redis_url, "export", "quotes", str(tmp_path / "seen"), **EXACT)
    dedup(redis_url, "clear", "quotes", "--yes", **EXACT)
    other = dedup(redis_url, "import", "quotes", str(tmp_path / "seen"), ok=False, **EXACT)
    assert "holds fingerprints of version 1-older, this project makes 1-" in other.stderr
