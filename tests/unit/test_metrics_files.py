"""Files for Prometheus: who listens where, and figures for node_exporter; who is gone leaves nothing untrue behind."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.registry import CollectorRegistry

from crawler.metrics.files import Discovery, Textfile
from tests.support.prometheus import Series
from tests.unit.test_metrics_server import serving


def test_discovery_keeps_who_listens_and_drops_who_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    file.write_text('[{"targets": ["127.0.0.1:1"], "labels": {"worker": "dead"}}]')

    def workers() -> set[str]:
        return {entry["labels"]["worker"] for entry in json.loads(file.read_text())}

    async def go() -> None:
        async with serving() as one, serving() as two:
            first = Discovery(file, one.address, {"worker": "one"})
            second = Discovery(file, two.address, {"worker": "two"})
            await asyncio.to_thread(first.write)
            assert workers() == {"one"}
            await asyncio.to_thread(second.write)
            assert workers() == {"one", "two"}
            await one.stop()  # as after kill -9: nobody took its entry out
            await asyncio.to_thread(second.write)
            assert workers() == {"two"}
            await asyncio.to_thread(second.leave)
        assert json.loads(file.read_text()) == []

    asyncio.run(go())


@pytest.mark.parametrize("text", ["", "not json", "{}", "[1]", '[{"targets": []}]'])
def test_a_damaged_discovery_file_is_begun_anew(tmp_path: Path, text: str) -> None:
    file = tmp_path / "targets.json"
    file.write_text(text)
    Discovery(file, "127.0.0.1:9", {"worker": "w"}).write()
    assert json.loads(file.read_text()) == [{"targets": ["127.0.0.1:9"], "labels": {"worker": "w"}}]
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["targets.json"]


def test_textfile_has_the_worker_and_only_our_series(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    Counter("crawler_things", "Things.", ["kind"], registry=registry).labels("a").inc()
    Counter("process_things", "Not ours.", registry=registry).inc()
    textfile = Textfile(tmp_path, "host/1", registry)
    textfile.write()
    assert [path.name for path in tmp_path.iterdir()] == ["crawler_host_1.prom"]
    text = textfile.path.read_text()
    assert 'crawler_things_total{kind="a",worker="host/1"} 1.0' in text
    assert "process_things" not in text
    assert "_created" not in text
    assert Textfile(tmp_path / "own.prom", "w", registry).path.name == "own.prom"


def test_at_the_end_a_textfile_keeps_what_stays_true(tmp_path: Path) -> None:
    """node_exporter serves the file for as long as it is there: no queue, no lost worker may stay for ever."""
    registry = CollectorRegistry()
    Counter("crawler_things", "Things.", registry=registry).inc(3)
    Histogram("crawler_seconds", "Seconds.", registry=registry).observe(1)
    Gauge("crawler_frontier_queued", "Queued.", registry=registry).set(50)
    textfile = Textfile(tmp_path, "w", registry)
    textfile.write()
    assert 'crawler_frontier_queued{worker="w"} 50.0' in textfile.path.read_text()
    textfile.leave()
    names = Series.of(textfile.path.read_text()).names
    assert names == {f"crawler_{name}" for name in ("things_total", "seconds_bucket", "seconds_sum", "seconds_count")}


def test_a_folder_is_rid_of_the_files_of_dead_workers(tmp_path: Path) -> None:
    ages = {"crawler_killed.prom": 1000, ".crawler_killed.prom.x1y2": 1000, "crawler_here.prom": 60, "other.prom": 9999}
    for name, age in ages.items():
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    Textfile(tmp_path, "w", CollectorRegistry()).write()
    assert {path.name for path in tmp_path.iterdir()} == {"crawler_here.prom", "crawler_w.prom", "other.prom"}


def test_two_workers_in_one_textfile_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = (Textfile(tmp_path / "crawler.prom", name, CollectorRegistry()) for name in ("one", "two"))
    one.write()
    one.write()
    two.write()
    assert caplog.text == ""
    one.write()
    two.write()
    one.write()
    assert caplog.text.count(f"METRICS_TEXTFILE={one.path}: another worker writes it too") == 2, "one line from each"
