"""One contract for every kind of memory on every server: Redis 7, Valkey 9, and both with a native Bloom module."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import pytest
import redis as redis_py

from crawler.dedup import kinds
from crawler.dedup.admission import LuaAdmission
from crawler.dedup.memory import SeenMemory, clear
from crawler.dedup.sizing import CompactSizing, Sizing
from crawler.errors import StoredDataError
from tests.support import seen
from tests.support.seen import fingerprints
from tests.support.server import RedisServer, wait_for

BASE = "{crawler:contract:0}"


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, RedisServer]]:
    started: dict[str, RedisServer] = {}
    yield started
    for server in started.values():
        server.stop()


@pytest.fixture(params=[seen.marked(*both) for both in seen.combinations()])
def place(request: pytest.FixtureRequest, servers: dict[str, RedisServer]) -> Iterator[tuple[str, redis_py.Redis]]:
    """A kind, and a client of an empty server for it."""
    kind, name = request.param
    if name not in servers:
        servers[name] = seen.start(name).start()
    with servers[name].client() as client:
        client.flushall()
        yield kind, client


def admission(kind: str, capacity: int = 1000, error: float = 1e-6) -> LuaAdmission:
    return seen.KINDS[kind](capacity, error)


def memory(place: tuple[str, redis_py.Redis], capacity: int = 1000, error: float = 1e-6) -> SeenMemory:
    return SeenMemory(place[1], BASE, admission(place[0], capacity, error))


def test_new_once_then_seen_and_looking_records_nothing(place: tuple[str, redis_py.Redis]) -> None:
    some = memory(place)
    assert some.has([b"a"]) == b"0"
    assert some.add([b"a", b"b", b"a", b""]) == b"1101"
    assert some.add([b"b", b"c"]) == b"01"
    assert some.has([b"a", b"b", b"c", b"", b"d"]) == b"11110"
    assert some.add([b"d"]) == b"1"


def test_growth_forgets_nothing_and_takes_nothing_new_for_seen(place: tuple[str, redis_py.Redis]) -> None:
    some = memory(place, capacity=100)
    for start in range(0, 3000, 250):
        assert some.add(fingerprints(start, start + 250)) == b"1" * 250
    assert some.has(fingerprints(0, 3000)) == b"1" * 3000
    assert some.has(fingerprints(5000, 7000)) == b"0" * 2000


def test_a_batch_is_told_what_its_elements_would_be_one_by_one(place: tuple[str, redis_py.Redis]) -> None:
    """With repeats inside a batch, and batches that end in the next layer."""
    kind, client = place
    draw = random.Random(4).choices(fingerprints(0, 900), k=1500)
    together = SeenMemory(client, "{together}", admission(kind, 150))
    apart = SeenMemory(client, "{apart}", admission(kind, 150))
    verdicts = b"".join(together.add(draw[at : at + 70]) for at in range(0, len(draw), 70))
    assert verdicts == b"".join(apart.add([one]) for one in draw)
    assert verdicts.count(b"1") == len(set(draw))


@pytest.mark.parametrize("make", [kinds.bitmap, kinds.compact], ids=["bitmap", "compact"])
def test_a_batch_that_is_too_much_for_a_full_memory_is_taken_as_far_as_there_is_room(
    redis: redis_py.Redis, make: Callable[..., LuaAdmission]
) -> None:
    sizing = Sizing(100, 1e-6) if make is kinds.bitmap else CompactSizing(100, 1e-6)
    memory = SeenMemory(redis, "{full}", make(sizing, growth=False))
    assert memory.add(fingerprints(0, 90)) == b"1" * 90
    assert memory.add(fingerprints(80, 130)) == b"0" * 10 + b"1" * 10 + b"F" * 30


def test_forgetting_where_the_kind_can(place: tuple[str, redis_py.Redis]) -> None:
    some = memory(place)
    some.add([b"a", b"b"])
    epoch = some.epoch
    assert some.add([b"a"]) == b"0"
    assert some.epoch == epoch, "nothing was forgotten"
    if place[0] not in seen.FORGETFUL:
        assert some.forget([b"a", b"z"]) == b"F0"
        assert some.add([b"a"]) == b"0"
        return
    assert some.forget([b"a", b"z", b"a"]) == b"100"
    assert some.add([b"a", b"b"]) == b"10"
    assert some.epoch != epoch


def test_looking_and_forgetting_begin_no_memory(place: tuple[str, redis_py.Redis]) -> None:
    """Its parameters would be fixed by a command that somebody typed before the first crawl."""
    some = memory(place)
    assert (some.has([b"a"]), some.forget([b"a"]), some.fold(10)) == (b"0", b"0", 0)
    assert place[1].keys() == []


def test_clear_leaves_nothing_and_the_epoch_tells(place: tuple[str, redis_py.Redis]) -> None:
    some = memory(place, capacity=100)
    some.add(fingerprints(0, 1000))
    epoch = some.epoch
    place[1].set("bystander", 1)
    clear(place[1], BASE)
    assert place[1].keys() == [b"bystander"]
    assert some.add(fingerprints(0, 10)) == b"1" * 10
    assert some.epoch != epoch


def test_only_keys_under_the_base_are_touched(place: tuple[str, redis_py.Redis]) -> None:
    memory(place, capacity=100).add(fingerprints(0, 1000))
    assert {key.startswith(BASE.encode()) for key in place[1].scan_iter()} == {True}


def test_another_kind_refuses_naming_both(place: tuple[str, redis_py.Redis]) -> None:
    kind, client = place
    memory(place).add([b"a"])
    before = {key: client.dump(key) for key in client.scan_iter()}
    for other in seen.KINDS:
        if other == kind or ("native" in other) != ("native" in kind):
            continue
        with pytest.raises(StoredDataError) as caught:
            SeenMemory(client, BASE, admission(other)).prepare()
        assert str(caught.value).startswith(("DUPEFILTER_CLASS=", "DEDUP_WINDOW=", "BLOOM_BACKEND="))
        if kind.startswith("window/") == other.startswith("window/"):
            assert f"={other}: " in str(caught.value)
            assert f" with {kind};" in str(caught.value)
    assert {key: client.dump(key) for key in client.scan_iter()} == before, "a refusal must write nothing"


def test_concurrent_clients_hand_out_each_element_once(place: tuple[str, redis_py.Redis]) -> None:
    kind, client = place
    elements, verdicts = fingerprints(0, 2000), []

    def work(offset: int) -> None:
        with redis_py.Redis(connection_pool=redis_py.ConnectionPool(**client.get_connection_kwargs())) as mine:
            some = SeenMemory(mine, BASE, admission(kind, capacity=150))
            order = elements[offset:] + elements[:offset]
            answer = b"".join(some.add(order[start : start + 50]) for start in range(0, len(order), 50))
            verdicts.append(dict(zip(order, answer, strict=True)))

    threads = [threading.Thread(target=work, args=(500 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(verdicts) == 4
    assert {sum(verdict[element] == ord("1") for verdict in verdicts) for element in elements} == {1}


def test_folding_while_workers_add_loses_nothing_and_hands_out_nothing_twice(redis_url: str) -> None:
    """``scrapy dedup fold`` from cron, over and over, beside three workers."""
    elements, verdicts, busy = fingerprints(0, 3000), [], threading.Event()

    def work(offset: int) -> None:
        with redis_py.Redis.from_url(redis_url) as mine:
            some = SeenMemory(mine, BASE, admission("layered/bitmap", capacity=500))
            order = elements[offset:] + elements[:offset]
            answer = b"".join(some.add(order[start : start + 50]) for start in range(0, len(order), 50))
            verdicts.append(dict(zip(order, answer, strict=True)))

    def fold() -> None:
        with redis_py.Redis.from_url(redis_url) as mine:
            some = SeenMemory(mine, BASE, admission("layered/bitmap", capacity=500))
            while not busy.is_set() or some.fold(20):
                some.fold(20)

    folder = threading.Thread(target=fold)
    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(3)]
    for thread in (folder, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    busy.set()
    folder.join()
    assert len(verdicts) == 3
    assert {sum(verdict[element] == ord("1") for verdict in verdicts) for element in elements} == {1}
    with redis_py.Redis.from_url(redis_url) as client:
        some = SeenMemory(client, BASE, admission("layered/bitmap", capacity=500))
        assert some.has(elements) == b"1" * 3000
        assert some.fold(20) == 0, "a second fold finds nothing to do"


@pytest.mark.parametrize("server", ["valkey", "redis7"])
def test_the_server_is_never_held_for_long(servers: dict[str, RedisServer], server: str) -> None:
    """256 new pages in a bitmap for 100 million: each touches memory that does not exist yet (the benchmark: 5 ms)."""
    if server not in servers:
        servers[server] = seen.start(server).start()
    with servers[server].client() as client:
        client.flushall()
        some = SeenMemory(client, BASE, admission("bitmap", capacity=100_000_000))
        some.prepare()
        client.config_set("slowlog-log-slower-than", 0)
        client.slowlog_reset()
        some.add(fingerprints(0, 256))
        longest = max(entry["duration"] for entry in client.slowlog_get(100) if b"EVALSHA" in entry["command"])
    assert longest < 60_000, "microseconds; one bitmap of that size would take hundreds of milliseconds"


@pytest.mark.parametrize("persistence", ["aof", "rdb"])
@pytest.mark.parametrize("server", seen.SERVERS)
@pytest.mark.parametrize("count", [2500, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_a_restarted_server_answers_as_before(server: str, persistence: str, count: int) -> None:
    kinds = [kind for kind, place in seen.combinations() if place == server]
    answers: dict[str, bytes] = {}
    with seen.start(server, appendonly=persistence == "aof") as running:
        with running.client() as client:
            for kind in kinds:
                some = SeenMemory(client, f"{{{kind}}}", admission(kind, capacity=count // 2, error=1e-8))
                answers[kind] = b"".join(some.add(fingerprints(at, at + 2500)) for at in range(0, count, 2500))
            if persistence == "rdb":
                client.save()
            else:
                client.config_set("appendfsync", "always")
                client.set("bystander", 1)
        running.restart()
        with running.client() as client:
            wait_for(lambda: not client.info("persistence")["loading"], "the server has loaded its data")
            for kind in kinds:
                some = SeenMemory(client, f"{{{kind}}}", admission(kind, capacity=count // 2, error=1e-8))
                probes = b"".join(some.has(fingerprints(at, at + 2500)) for at in range(0, 2 * count, 2500))
                assert probes[:count] == b"1" * count, kind
                assert probes[count:] == b"0" * count, kind
                assert answers[kind].count(b"1") == count, kind
                assert some.add(fingerprints(2 * count, 2 * count + 100)) == b"1" * 100, kind
