"""Eight processes add the same 100,000 elements while the memory grows: each is new exactly once, for every kind."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crawler.dedup.stored import read_stored
from tests.benchmarks.results import record
from tests.support import seen

PROCESSES, ELEMENTS = 8, 100_000
WORK = """
import random, sys
import redis
from crawler.dedup.memory import SeenMemory
from tests.support.seen import KINDS

url, kind, seed, count, path = sys.argv[1:]
memory = SeenMemory(redis.Redis.from_url(url), "{b}", KINDS[kind](10_000, 6e-7 if "native" in kind else 1e-8))
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
        with running.client() as client:
            answers = seen.name_of(client)
            grown = layers(client)
    told = Counter(
        data[at : at + 20] for data in (path.read_bytes() for path in paths) for at in range(0, len(data), 20)
    )
    # A false positive among 100,000 is a one in a hundred chance. At a lower error a native filter would be made so
    # large that it does not grow (see kinds.native).
    record(f"processes {kind} {server}", {"kind": kind, "server": answers, "processes": PROCESSES, "pages": ELEMENTS,
                                          "told": len(told), "most": max(told.values())})  # fmt: skip
    assert (len(told), max(told.values())) == (ELEMENTS, 1)
    assert grown > 1 or "exact" in kind, "it was to grow meanwhile"


def layers(client: Any) -> int:
    """Of the memory under ``{b}``, or of that part of it which has most."""
    found = [0]
    for stored in read_stored(client, "{b}"):
        if stored.kind == "native":
            found.append(client.execute_command("BF.INFO", next(stored.keys()))[b"Number of filters"])
        found.append(len(stored.layers))
    return max(found)
