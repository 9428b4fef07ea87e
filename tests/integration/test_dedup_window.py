"""Windows: remembered for at least the window, gone by themselves, and no page twice while generations change."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import redis as redis_py
from scrapy.settings import Settings

from crawler.dedup import kinds, options
from crawler.dedup.memory import SeenMemory
from crawler.dedup.report import status
from crawler.dedup.sizing import CompactSizing, Sizing
from crawler.dedup.stored import read_stored, rotate
from crawler.errors import ConfigError, StoredDataError
from tests.support.server import wait_for

BASE = "{crawler:window:0}"
INNER: dict[str, Callable[[], Any]] = {
    "bitmap": lambda: kinds.bitmap(Sizing(200, 1e-6)),
    "exact": kinds.exact,
    "compact": lambda: kinds.compact(CompactSizing(200, 1e-6)),
    "layered": lambda: kinds.layered(kinds.bitmap(Sizing(200, 1e-6)), 100),
}


def memory(client: redis_py.Redis, inner: str, milliseconds: int = 3_600_000, generations: int = 4) -> SeenMemory:
    return SeenMemory(client, BASE, kinds.window(INNER[inner](), "1h/4", milliseconds, generations))


def turn(client: redis_py.Redis) -> None:
    rotate(client, read_stored(client, BASE)[0])


@pytest.mark.parametrize("inner", INNER)
def test_a_page_is_remembered_for_the_window_and_then_new(redis: redis_py.Redis, inner: str) -> None:
    some = memory(redis, inner)
    assert some.add([b"a", b"b"]) == b"11"
    epochs = {some.epoch}
    for _ in range(4):
        turn(redis)
        assert some.has([b"a", b"b"]) == b"11"
        assert some.add([b"a"]) == b"0", "looking does not renew it"
        epochs.add(some.epoch)
    turn(redis)
    assert some.add([b"a", b"b"]) == b"11"
    assert len({*epochs, some.epoch}) == 6, "what is known to be seen must be asked again"


@pytest.mark.parametrize("inner", INNER)
def test_what_is_older_than_the_window_leaves_the_server(redis: redis_py.Redis, inner: str) -> None:
    some = memory(redis, inner, milliseconds=600, generations=2)
    some.add([b"%d" % number for number in range(500)])
    wait_for(lambda: {*redis.scan_iter()} == {f"{BASE}:dedup:meta".encode()}, "only the window's own metadata is left")
    assert some.add([b"1"]) == b"1"


@pytest.mark.parametrize("inner", INNER)
def test_rotation_under_load_hands_out_no_page_twice(redis: redis_py.Redis, redis_url: str, inner: str) -> None:
    elements, verdicts = [b"%d" % number for number in range(1500)], []
    memory(redis, inner).prepare()

    def work(offset: int) -> None:
        with redis_py.Redis.from_url(redis_url) as client:
            some = memory(client, inner)
            order = elements[offset:] + elements[:offset]
            answer = b"".join(some.add(order[start : start + 50]) for start in range(0, len(order), 50))
            verdicts.append(dict(zip(order, answer, strict=True)))

    threads = [threading.Thread(target=work, args=(500 * number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(4):  # as many as the window outlives
        turn(redis)
    for thread in threads:
        thread.join()
    assert len(verdicts) == 3
    assert {sum(verdict[element] == ord("1") for verdict in verdicts) for element in elements} == {1}


def test_forgetting_reaches_every_generation(redis: redis_py.Redis) -> None:
    some = memory(redis, "exact")
    some.add([b"a"])
    turn(redis)
    some.add([b"b"])
    assert some.forget([b"a", b"b", b"c"]) == b"110"
    assert some.add([b"a", b"b"]) == b"11"


def test_another_window_is_refused_naming_both(redis: redis_py.Redis) -> None:
    memory(redis, "exact").prepare()
    with pytest.raises(StoredDataError, match=r"DEDUP_WINDOW=2h: .* with 1h;"):
        SeenMemory(redis, BASE, kinds.window(kinds.exact(), "2h", 7_200_000, 4)).prepare()
    with pytest.raises(StoredDataError, match=r"DEDUP_WINDOW_GENERATIONS=8: .* with 4;"):
        SeenMemory(redis, BASE, kinds.window(kinds.exact(), "1h", 3_600_000, 8)).prepare()
    with pytest.raises(StoredDataError, match=r"DEDUP_WINDOW=none: .* with 1h;"):
        SeenMemory(redis, BASE, kinds.exact()).prepare()
    same = SeenMemory(redis, BASE, kinds.window(kinds.exact(), "60m", 3_600_000, 4))
    assert same.add([b"a", b"a"]) == b"10"


def test_a_window_keeps_the_words_in_which_it_was_stored(redis: redis_py.Redis) -> None:
    first = SeenMemory(redis, BASE, kinds.window(kinds.exact(), "60m", 3_600_000, 4))
    first.add([b"a"])
    same = SeenMemory(redis, BASE, kinds.window(kinds.exact(), "1h", 3_600_000, 4))
    assert same.forget([b"a"]) == b"1", "which writes the metadata anew"
    assert redis.hmget(f"{BASE}:dedup:meta", "window", "forgotten") == [b"60m", b"1"]


def test_a_window_over_a_memory_without_one_is_refused_naming_both(redis: redis_py.Redis) -> None:
    SeenMemory(redis, BASE, kinds.exact()).prepare()
    with pytest.raises(StoredDataError, match=r"DEDUP_WINDOW=1h: .* with none;"):
        memory(redis, "exact").prepare()


def test_folding_reaches_older_generations(redis: redis_py.Redis) -> None:
    some = memory(redis, "layered")
    elements = [b"%d" % number for number in range(40)]
    assert some.add(elements) == b"1" * 40
    turn(redis)
    assert some.add([b"new"]) == b"1"
    while some.fold(8):
        pass
    recent = [part for part in status(redis, BASE) if part.kind.startswith("layered")]
    assert [part.elements for part in recent] == [0, 0]
    assert some.add([*elements, b"new"]) == b"0" * 41


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45", 45), ("45s", 45), ("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("1.5w", 907_200)],
)
def test_durations(text: str, seconds: float) -> None:
    assert options.seconds(text, "DEDUP_WINDOW") == seconds


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"DEDUP_WINDOW": "soon"}, "DEDUP_WINDOW=soon: must be a duration such as 45s, 90m, 12h, 30d or 4w"),
        ({"DEDUP_WINDOW": "0"}, "DEDUP_WINDOW=0: must be a duration such as 45s, 90m, 12h, 30d or 4w"),
        (
            {"DEDUP_WINDOW": "1d", "DEDUP_WINDOW_GENERATIONS": 0},
            "DEDUP_WINDOW_GENERATIONS=0: must be between 1 and 100",
        ),
    ],
)
def test_bad_windows_are_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options.exact(Settings(settings))
    assert str(caught.value) == message


def test_the_generations_of_a_window_share_the_error_rate() -> None:
    admission = options.bloom(Settings({"DEDUP_WINDOW": "30d", "BLOOM_ERROR_RATE": 1e-4}), "bitmap")
    assert 'ERROR, CAPACITY, LIMIT = "2e-05"' in admission.lua


WORK = """
import random, sys, time
import redis
from crawler.dedup.memory import SeenMemory
from tests.integration.test_dedup_window import memory

url, inner = sys.argv[1:]
some = memory(redis.Redis.from_url(url), inner, milliseconds=600, generations=3)
elements = [b"%d" % number for number in range(40)]
some.prepare()
until = time.time() + 2.5
while time.time() < until:
    batch = random.sample(elements, 8)
    before = time.time()
    answers = some.add(batch)
    after = time.time()
    for element, answer in zip(batch, answers, strict=True):
        if answer == ord("1"):
            print(element.decode(), before, after)
"""


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
def test_processes_are_told_new_once_per_window_while_time_goes_by(redis_url: str, inner: str) -> None:
    """Generations of 0.2 s turn by themselves: a page is new again after 0.6 s at the earliest, 0.8 s at the latest."""
    workers = [
        subprocess.Popen([sys.executable, "-c", WORK, redis_url, inner], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    told: dict[str, list[tuple[float, float]]] = {}
    for worker in workers:
        for line in worker.communicate()[0].splitlines():
            element, before, after = line.split()
            told.setdefault(element, []).append((float(before), float(after)))
        assert worker.returncode == 0
    pairs = [pair for times in told.values() for pair in pairwise(sorted(times))]
    assert len(told) == 40
    assert len(pairs) >= 40, "no page was ever new again"
    for (first, _), (_, again) in pairs:
        assert again - first >= 0.6
