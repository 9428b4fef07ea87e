"""Eight processes add the same 100,000 elements while the memory grows: each is new exactly once, for every kind."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.results import record
from tests.support import seen
from tests.support.server import RedisServer

PROCESSES, ELEMENTS = 8, 100_000
WORK = """
import random, sys
import redis
from crawler.dedup.memory import SeenMemory
from tests.support.seen import KINDS

url, kind, seed, count, path = sys.argv[1:]
memory = SeenMemory(redis.Redis.from_url(url), "{b}", KINDS[kind](10_000, 1e-8))
elements = [number.to_bytes(20) for number in range(int(count))]
random.Random(int(seed)).shuffle(elements)
with open(path, "wb") as file:
    for start in range(0, len(elements), 128):
        batch = elements[start : start + 128]
        for element, verdict in zip(batch, memory.add(batch), strict=True):
            if verdict == ord("1"):
                file.write(element)
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("kind", "server"), seen.combinations())
def test_each_element_is_new_exactly_once(kind: str, server: str, tmp_path: Path) -> None:
    with seen.start(server) as running:
        paths = [tmp_path / str(number) for number in range(PROCESSES)]
        workers = [
            subprocess.Popen([sys.executable, "-c", WORK, running.url, kind, str(seed), str(ELEMENTS), str(path)])
            for seed, path in enumerate(paths)
        ]
        assert [worker.wait() for worker in workers] == [0] * PROCESSES
        answers = name_of(running)
    told = Counter(
        data[at : at + 20] for data in (path.read_bytes() for path in paths) for at in range(0, len(data), 20)
    )
    # At 1e-8 (compact: as configured) a false positive among 100,000 is a one in a thousand chance.
    record(f"processes {kind} {server}", {"kind": kind, "server": answers, "processes": PROCESSES, "pages": ELEMENTS,
                                          "told": len(told), "most": max(told.values())})  # fmt: skip
    assert (len(told), max(told.values())) == (ELEMENTS, 1)


def name_of(running: RedisServer) -> str:
    """Which server it is."""
    with running.client() as client:
        info = client.info("server")
    return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"
