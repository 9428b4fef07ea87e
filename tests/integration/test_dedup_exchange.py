"""Each kind of memory inside the exchange: messages that come twice, equal requests of one message, a full memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis as redis_py

from crawler.dedup import kinds
from crawler.dedup.admission import LuaAdmission
from crawler.dedup.memory import SeenMemory
from crawler.dedup.sizing import CompactSizing, Sizing
from crawler.errors import StoredDataError
from crawler.frontier.message import ADD, FILTER, START, Message, Reply
from crawler.frontier.script import source
from crawler.keys import Keys
from tests.support import seen
from tests.support.shard import Shard


@pytest.fixture(scope="module")
def module_url() -> Iterator[str]:
    with seen.start("valkey+module") as server:
        yield server.url


class Exchanges:
    """One worker's exchanges with a shard whose memory is `admission`."""

    def __init__(self, client: redis_py.Redis, admission: LuaAdmission) -> None:
        client.flushall()
        self.client, self.admission, self.keys = client, admission, Keys("test", "spider")
        self.script = client.register_script("#!lua\n" + admission.lua + source("exchange"))
        self.shard = Shard(client, self.keys)
        self.shard.join()

    def entries(self, *numbers: int, flags: int = FILTER | ADD) -> list[tuple[str, int, bytes, bytes, int, bytes]]:
        names = [b"%d" % number for number in numbers]
        return [("a.example", flags, self.admission.encode(name), name, 0, name) for name in names]

    def __call__(self, seq: int, outbox: list[tuple[str, int, bytes, bytes, int, bytes]]) -> bytes:
        message = Message(worker="w", seq=seq, run=self.shard.run, outbox=outbox)
        packed = message.pack(self.shard.constants | {"dedup": self.admission.config()})
        keys = [self.keys.frontier, self.keys.dedup, "spider:start_urls"]
        return Reply.unpack(self.script(keys=keys, args=[packed])).verdicts

    def queued(self) -> int:
        return int(self.client.zcard(f"{self.keys.frontier}:queue:a.example"))


@pytest.fixture(params=[seen.marked(kind) for kind in seen.KINDS])
def exchanges(request: pytest.FixtureRequest) -> Iterator[Exchanges]:
    url = request.getfixturevalue("module_url" if "native" in request.param else "redis_url")
    with redis_py.Redis.from_url(url) as client:
        yield Exchanges(client, seen.KINDS[request.param](100, 1e-6))


def test_in_the_exchange_and_when_its_reply_was_lost(exchanges: Exchanges) -> None:
    for seq, start in enumerate(range(0, 1000, 200), start=1):
        outbox = exchanges.entries(*range(start, start + 250))
        first, repeated = exchanges(seq, outbox), exchanges(seq, outbox)
        assert first == (b"1" * 250 if start == 0 else b"0" * 50 + b"1" * 200)
        assert repeated == first, "executed twice"
    assert exchanges.queued() == 1050


def test_within_one_exchange_the_first_of_equal_requests_is_new(exchanges: Exchanges) -> None:
    unfiltered = exchanges.entries(2, 9, flags=0)
    assert exchanges(1, [*exchanges.entries(1, 2, 1), *unfiltered, *exchanges.entries(2, 3)]) == b"1101101"
    assert exchanges(2, exchanges.entries(3, 4, 4, 5, flags=FILTER | ADD | START)) == b"0101"
    assert exchanges(3, exchanges.entries(4, 5, 9)) == b"001", "what was not to be remembered is not"


LIMITED: dict[str, Callable[[int], LuaAdmission]] = {
    "bitmap": lambda most: kinds.bitmap(Sizing(most, 1e-6), growth=False),
    "native": lambda most: kinds.native(Sizing(most, 1e-6), growth=False),
    "compact": lambda most: kinds.compact(CompactSizing(most, 1e-6), growth=False),
    "layered/bitmap": lambda most: kinds.layered(kinds.bitmap(Sizing(most, 1e-6), growth=False), 1000),
    "layered/native": lambda most: kinds.layered(kinds.native(Sizing(most, 1e-6), growth=False), 1000),
}
Limited = tuple[redis_py.Redis, Callable[[int], LuaAdmission]]


@pytest.fixture(params=LIMITED)
def limited(request: pytest.FixtureRequest) -> Iterator[Limited]:
    """A kind of memory with a limit, and an empty server for it."""
    url = request.getfixturevalue("module_url" if "native" in request.param else "redis_url")
    with redis_py.Redis.from_url(url) as client:
        client.flushall()
        yield client, LIMITED[request.param]


def test_from_where_the_memory_is_full_nothing_of_an_exchange_is_recorded(limited: Limited) -> None:
    exchanges = Exchanges(limited[0], limited[1](10))
    assert exchanges(1, exchanges.entries(*range(8))) == b"1" * 8
    assert exchanges(2, exchanges.entries(0, 8, 9, 10, 0, 11)) == b"011222"
    assert exchanges(3, exchanges.entries(0, 9)) == b"00"
    assert exchanges.queued() == 10


def test_a_raised_capacity_lets_a_full_memory_go_on(limited: Limited) -> None:
    client, admission = limited
    elements = [b"%d" % number for number in range(16)]
    assert SeenMemory(client, "{b}", admission(10)).add(elements) == b"1" * 10 + b"F" * 6
    raised = SeenMemory(client, "{b}", admission(14))
    assert raised.add(elements) == b"0" * 10 + b"1" * 4 + b"F" * 2
    assert raised.has(elements) == b"1" * 14 + b"0" * 2, "what was refused is not remembered"
    with pytest.raises(StoredDataError, match=r"BLOOM_CAPACITY=9: .* with 10;"):
        SeenMemory(client, "{b}", admission(9)).prepare()
