"""Export and import: what is damaged, foreign, late or of another kind changes nothing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any

import msgpack
import pytest
import redis as redis_py

from crawler.dedup import kinds, transfer
from crawler.dedup.memory import SeenMemory
from crawler.dedup.sizing import Sizing
from crawler.errors import ConfigError, StoredDataError
from tests.support import seen
from tests.support.dedup_command import Dedup

BASE = "{crawler:quotes:0}"
ORIGIN = transfer.Origin("1-rules")
ELEMENTS = [b"%d" % number for number in range(3000)]


@pytest.fixture
def dedup(capsys: pytest.CaptureFixture[str]) -> Dedup:
    return Dedup(capsys)


def exported(client: redis_py.Redis, kind: str = "exact") -> bytes:
    """An export of a memory of `kind` that holds ELEMENTS."""
    SeenMemory(client, "{one}", seen.KINDS[kind](1000, 1e-6)).add(ELEMENTS)
    file = io.BytesIO()
    transfer.export(client, "{one}", file, ORIGIN)
    return file.getvalue()


def load(client: redis_py.Redis, file: IO[bytes], origin: transfer.Origin = ORIGIN) -> int:
    """Reads an export into the memory under {two}."""
    [values] = transfer.load([transfer.Part(client, "{two}", file, "export", origin)])
    return values


def keys_of(client: redis_py.Redis) -> set[bytes]:
    return {key for key in client.scan_iter() if key.startswith(b"{two}")}


def edited(data: bytes, place: int, value: list[Any]) -> bytes:
    """The export with another value at a place."""
    values = list(msgpack.Unpacker(io.BytesIO(data), raw=False))
    values[place] = value
    return b"".join(msgpack.packb(one) for one in values)


@pytest.mark.parametrize("kind", ["exact", "compact", "bitmap", "layered/bitmap", "window/bitmap"])
def test_a_file_cut_anywhere_writes_nothing(redis: redis_py.Redis, kind: str) -> None:
    data = exported(redis, kind)
    for size in [*range(0, len(data), max(1, len(data) // 20)), len(data) - 1]:
        with pytest.raises(ConfigError, match="FILE=export: is "):
            load(redis, io.BytesIO(data[:size]))
    assert keys_of(redis) == set()
    load(redis, io.BytesIO(data))
    assert SeenMemory(redis, "{two}", seen.KINDS[kind](1000, 1e-6)).has(ELEMENTS) == b"1" * 3000


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (2, ["members", ":requests", [b"x"]]),
        (2, ["members", ":dedup:0:seen", [b"x"]]),
        (2, ["members", 7, [b"x"]]),
        (2, ["members", ":requests"]),
        (1, ["memory", ":queue", {"kind": "exact", "id": "1"}, 0]),
        (1, ["memory", "", {"kind": "exact"}, 0]),
        (1, ["memory", "", {"kind": "exact", "id": "1"}, "soon"]),
        (1, ["memory", 3, [], 0]),
        (1, []),
        (0, ["crawler-dedup"]),
        (0, ["crawler-dedup", 2]),
        (0, ["crawler-dedup", 2, {"shard": 0}]),
        (0, ["crawler-dedup", 2, "1"]),
    ],
)
def test_a_file_can_write_to_no_other_key(redis: redis_py.Redis, place: int, value: list[Any]) -> None:
    data = edited(exported(redis), place, value)
    with pytest.raises(ConfigError, match="FILE=export: is damaged"):
        load(redis, io.BytesIO(data))
    assert keys_of(redis) == set()


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (["crawler-dedup", 2, {"fingerprint": "2", "shard": 0, "shards": 1}],
         "FILE=export: holds fingerprints of version 2, this project makes 1-rules: use the code, the rules and the "
         "settings that wrote it; nothing was imported"),
        (["crawler-dedup", 2, {"fingerprint": "1-rules", "shard": 1, "shards": 3}],
         "FILE=export: is of shard 1 of 3, and read for shard 0 of 1: set FRONTIER_SHARDS=3, and leave the files their "
         "numbers; nothing was imported"),
        (["crawler-dedup", 3, {}], "FILE=export: has version 3, this project reads 2 and 1"),
    ],
)  # fmt: skip
def test_what_other_fingerprints_or_shards_wrote_is_refused(redis: redis_py.Redis, head: list[Any], line: str) -> None:
    data = edited(exported(redis), 0, head)
    with pytest.raises(ConfigError) as caught:
        load(redis, io.BytesIO(data))
    assert str(caught.value) == line
    assert keys_of(redis) == set()


def test_a_file_of_the_first_version_is_read(redis: redis_py.Redis) -> None:
    load(redis, io.BytesIO(edited(exported(redis), 0, ["crawler-dedup", 1])))
    assert SeenMemory(redis, "{two}", kinds.exact()).has(ELEMENTS) == b"1" * 3000


def test_of_several_files_all_are_read_or_none(redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    good = exported(redis)

    def parts(*files: bytes) -> list[transfer.Part]:
        return [transfer.Part(redis, f"{{two}}{n}", io.BytesIO(file), f"f{n}", ORIGIN) for n, file in enumerate(files)]

    with monkeypatch.context() as patched:
        patched.setattr(transfer, "_write", lambda *_: pytest.fail("the other file is damaged"))
        with pytest.raises(ConfigError, match="FILE=f1: is damaged"):
            transfer.load(parts(good, good[:-1]))
    late = parts(good, good)
    crawl = SeenMemory(redis, "{two}1", kinds.exact())
    late[1] = late[1]._replace(file=Late(good, lambda: crawl.add([b"x"])))
    with pytest.raises(StoredDataError, match="a crawl began there meanwhile"):
        transfer.load(late)
    assert {key[:6] for key in keys_of(redis)} == {b"{two}1"}, "the first part is taken back, the crawl's memory stays"


class Late(io.BytesIO):
    """A file in whose second reading, that of the import itself, something happens first."""

    def __init__(self, data: bytes, happens: Any) -> None:
        super().__init__(data)
        self._happens = happens

    def seek(self, *args: int) -> int:
        self._happens()
        return super().seek(*args)


def test_a_crawl_that_began_meanwhile_keeps_its_memory(redis: redis_py.Redis) -> None:
    crawl = SeenMemory(redis, "{two}", kinds.exact())
    file = Late(exported(redis), lambda: crawl.add([b"x", b"y"]))
    with pytest.raises(StoredDataError, match="a crawl began there meanwhile; stop it"):
        load(redis, file)
    assert crawl.has([b"x", b"y", b"1"]) == b"110"
    assert len(keys_of(redis)) == 2, "metadata and the set of the crawl"


def test_an_import_that_is_interrupted_is_taken_back(redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    data, write = exported(redis, "compact"), transfer._write
    left = iter(range(5))

    def interrupted(*args: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(*args)

    monkeypatch.setattr(transfer, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(redis, io.BytesIO(data))
    assert keys_of(redis) == set()


def test_an_import_after_one_that_was_killed(tmp_path: Path) -> None:
    """Native filters are loaded in chunks, which a half-loaded one refuses."""
    with seen.start("valkey+module") as server, server.client() as client:
        data = exported(client, "native")
        some = [value for value in msgpack.Unpacker(io.BytesIO(data), raw=False) if value[0] == "bloom"]
        client.execute_command("BF.LOADCHUNK", "{two}" + some[0][1], some[0][2], some[0][3])
        load(client, io.BytesIO(data))
        assert SeenMemory(client, "{two}", seen.KINDS["native"](1000, 1e-6)).has(ELEMENTS) == b"1" * 3000


def test_a_memory_that_the_settings_do_not_ask_for_is_not_imported(
    dedup: Dedup,
    redis: redis_py.Redis,
    redis_url: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "export"
    path.write_bytes(edited(exported(redis), 0, ["crawler-dedup", 1]))
    done = dedup(redis_url, "import", "quotes", str(path), ok=False, BLOOM_BACKEND="bitmap")
    assert done.stderr.startswith("DUPEFILTER_CLASS=bitmap: what was seen is stored with exact;")
    assert done.stderr.strip().endswith("nothing was imported")
    assert [key for key in redis.scan_iter() if key.startswith(BASE.encode())] == []
    assert (
        "values from"
        in dedup(redis_url, "import", "quotes", str(path), DUPEFILTER_CLASS="crawler.dedup.ExactDupeFilter").stdout
    )


@pytest.mark.parametrize("name", ["", "/", "."])
def test_a_folder_is_no_file(dedup: Dedup, redis: redis_py.Redis, redis_url: str, name: str) -> None:
    SeenMemory(redis, BASE, kinds.bitmap(Sizing(1_000_000, 1e-6))).add([b"a"])
    assert dedup(redis_url, "export", "quotes", name, ok=False).stderr.startswith(f"FILE={name}: ")
    assert dedup(redis_url, "import", "quotes", name, ok=False).returncode != 0
