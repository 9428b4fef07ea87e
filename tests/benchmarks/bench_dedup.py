"""How often the memories of seen pages err and what they weigh, on real servers: ``make bench-dedup``.

That writes ``docs/dedup.json``, from which ``dedup_figures.py`` makes the tables and the picture of ``docs/dedup.md``.
What is timed, and so needs a machine without other work, is in ``bench_dedup_time.py``.
"""

from __future__ import annotations

import msgpack
import pytest
import redis

from crawler.dedup import kinds
from crawler.dedup.memory import SeenMemory
from crawler.dedup.sizing import Sizing, minimum_bits
from tests.benchmarks import lua_alternatives as alternatives
from tests.benchmarks.results import record
from tests.support import seen
from tests.support.seen import batches, name_of

pytestmark = pytest.mark.timeout(1800)


def fill(memory: SeenMemory, start: int, stop: int) -> int:
    """Adds; returns how many were new."""
    return sum(memory.add(batch).count(b"1") for batch in batches(start, stop, 1000))


def wrong(memory: SeenMemory, probes: int) -> float:
    """Share of fresh elements taken for seen."""
    return sum(memory.has(batch).count(b"1") for batch in batches(10**12, 10**12 + probes, 2000)) / probes


@pytest.mark.parametrize("error", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("capacity", [10_000, 100_000, 1_000_000])
def test_error_at_capacity(redis: redis.Redis, capacity: int, error: float) -> None:
    """The first layer full: at most 1.05 of what is configured (it is planned for half, the rest is growth's)."""
    memory = SeenMemory(redis, "{b}", kinds.bitmap(Sizing(capacity, error)))
    new = fill(memory, 0, capacity)
    probes = 2_000_000 if error < 1e-3 else 300_000
    real, planned = wrong(memory, probes), Sizing(capacity, error).estimated_error(new)
    record(
        f"error {capacity} {error:g}",
        {"capacity": capacity, "configured": error, "real": real, "planned": planned, "ratio": real / error},
    )
    assert real <= 1.05 * error
    assert real <= 1.05 * planned + 3 * (planned / probes) ** 0.5


@pytest.mark.parametrize("error", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("capacity", [10_000, 100_000])
def test_error_of_the_servers_own_filter(module_client: redis.Redis, capacity: int, error: float) -> None:
    """At its capacity, and grown to four times that."""
    memory = SeenMemory(module_client, "{b}", kinds.native(Sizing(capacity, error)))
    probes = 1_000_000 if error < 1e-3 else 200_000
    fill(memory, 0, capacity)
    real = wrong(memory, probes)
    fill(memory, capacity, 4 * capacity)
    grown = wrong(memory, probes)
    record(
        f"native error {capacity} {error:g}",
        {"server": name_of(module_client), "capacity": capacity, "configured": error, "real": real, "grown": grown},
    )
    assert max(real, grown) <= 1.05 * error + 3 * (error / probes) ** 0.5


@pytest.mark.parametrize("error", [1e-2, 1e-3])
def test_error_through_growth(redis: redis.Redis, error: float) -> None:
    """From 10,000 to two million elements: never above what is configured. A full fixed filter beside it."""
    growing = SeenMemory(redis, "{b}", kinds.bitmap(Sizing(10_000, error)))
    rows, at = [], 0
    for target in (5_000, 10_000, 20_000, 30_000, 70_000, 150_000, 310_000, 630_000, 1_270_000, 2_000_000):
        fill(growing, at, target)
        at = target
        rows.append({"elements": target, "real": wrong(growing, 500_000), "configured": error})
    record(f"growth {error:g}", rows)
    assert all(row["real"] <= error for row in rows)


def test_error_of_a_full_fixed_filter(redis: redis.Redis) -> None:
    """What published filters do: a classic bitmap for 10,000 elements at 1e-2 takes whatever comes."""
    error, capacity = 1e-2, 10_000
    bits, lanes = int(capacity * minimum_bits(error)), 7
    add = redis.register_script(alternatives.setbits(lanes, bits))
    has = redis.register_script(alternatives.getbits(lanes, bits))
    rows, at = [], 0
    encode = alternatives.two_words
    for target in (5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 70_000, 100_000):
        for batch in batches(at, target, 1000):
            add(keys=["f"], args=[msgpack.packb([*map(encode, batch)], use_bin_type=False)])
        at = target
        found = sum(
            int(has(keys=["f"], args=[msgpack.packb([*map(encode, batch)], use_bin_type=False)]))
            for batch in batches(10**12, 10**12 + 20_000, 1000)
        )
        rows.append({"elements": target, "real": found / 20_000, "configured": error})
    record("fixed 0.01", rows)
    assert rows[-1]["real"] > 0.9


SIZES: list[tuple[str, float, float]] = [  # kind, error, limit in bytes
    ("bitmap", 1e-4, 1.25 * minimum_bits(1e-4) / 8),
    ("bitmap", 1e-6, 1.25 * minimum_bits(1e-6) / 8),
    ("compact", 1e-6, 5),
    ("compact", 1e-7, 5),
    ("exact", 0, 80),
]


def test_bytes_per_page(client: redis.Redis) -> None:
    count, rows = 1_000_000, []
    for kind, error, limit in SIZES:
        admission = seen.KINDS[kind](count, error or 1e-6)
        fill(SeenMemory(client, "{warm}", admission), 0, 1000)  # scripts and buffers take their part once
        client.execute_command("FLUSHALL", "SYNC")  # type: ignore[no-untyped-call]
        before = client.info("memory")["used_memory"]
        fill(SeenMemory(client, "{crawler:books:0}", admission), 0, count)
        size = (client.info("memory")["used_memory"] - before) / count
        rows.append({"server": name_of(client), "kind": kind, "error": error, "bytes": size, "limit": limit})
    client.execute_command("FLUSHALL", "SYNC")  # type: ignore[no-untyped-call]
    before = client.info("memory")["used_memory"]
    for batch in batches(0, count, 1000):
        client.sadd("books:dupefilter", *(fingerprint.hex() for fingerprint in batch))
    rows.append({"server": name_of(client), "kind": "scrapy-redis", "error": 0,
                 "bytes": (client.info("memory")["used_memory"] - before) / count, "limit": 0})  # fmt: skip
    record(f"bytes {name_of(client)}", rows)
    assert all(row["bytes"] <= row["limit"] for row in rows[:-1])
