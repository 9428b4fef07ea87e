"""``scrapy frontier`` and ``scrapy dedup`` on several shards: each is visited, hosts go to theirs, sums are sums."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from scrapy import Request
from scrapy.cmdline import execute
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawler.canonical import CanonicalFingerprinter, canonical_host
from crawler.dedup import BloomDupeFilter, transfer
from crawler.frontier import payload
from crawler.frontier.message import ADD, FILTER
from crawler.frontier.script import source
from crawler.keys import Keys, shard_of
from crawler.metrics.sample import Sampler
from tests.integration import frontier_spiders
from tests.support.shard import CONSTANTS, Shard

SHARDS = 3
KEYS = Keys("crawler", "plain").spread(SHARDS)
URLS = [f"https://host{number}.example/page" for number in range(9)]


@pytest.fixture
def shards(redis: redis_py.Redis) -> list[Shard]:
    """Three shards of a running crawl: the URLs are queued and seen, three of them are dead."""
    spider = frontier_spiders.Plain()
    fingerprinter = CanonicalFingerprinter.from_crawler(get_crawler(frontier_spiders.Plain))
    answer: Any = redis.eval(source("join"), 2, KEYS[0].frontier, KEYS[0].dedup, "w", "", "payload=1", "0", "0", "3")
    for keys in KEYS[1:]:
        redis.eval(source("adopt"), 1, keys.frontier, answer[1], answer[2], "payload=1")
    found = [Shard(redis, keys, CONSTANTS | {"lease": 60_000}, seed_key="plain:start_urls") for keys in KEYS]
    memories = [BloomDupeFilter.memory_at(Settings({"BLOOM_BACKEND": "bitmap"}), redis, keys.dedup) for keys in KEYS]
    for url in URLS:
        request = Request(url)
        host, fingerprint = canonical_host(url), fingerprinter.fingerprint(request)
        number = shard_of(host, SHARDS)
        found[number].say(outbox=[(host, FILTER | ADD, fingerprint, fingerprint, 0, payload.encode(request, spider))])
        memories[number].add([fingerprint])
    for shard in found:
        [lease] = shard.say(want=1, ahead=1).leases
        shard.say(acks=[(lease.id, 0, "download: 500", "", b"")])
    return found


@pytest.fixture
def scrapy(redis_url: str, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """``scrapy ARGS`` in this process; what it prints, or if it `fails`, what it says of that."""

    def run(*args: str, fails: bool = False) -> str:
        settings = Settings({"REDIS_URL": redis_url}, priority="project")
        settings.setmodule("crawler.settings", priority=0)
        settings.setdict({"SPIDER_MODULES": [frontier_spiders.__name__], "FRONTIER_SHARDS": 1}, priority="cmdline")
        with pytest.raises(SystemExit) as exit_:
            execute(["scrapy", *args], settings)
        out, err = capfd.readouterr()
        assert bool(exit_.value.code) == fails, err
        return err if fails else out

    return run


def test_numbers_are_those_of_all_shards(shards: list[Shard], scrapy: Callable[..., str]) -> None:
    """The commands take the number of shards from the data: it is not set here."""
    facts = json.loads(scrapy("frontier", "status", "plain", "--json"))
    assert (facts["queued"], facts["dead"], facts["done"], facts["workers_live"]) == (6, 3, 3, 1)
    assert len(scrapy("frontier", "hosts", "plain", "--json").splitlines()) == 6
    assert len(scrapy("frontier", "dead", "plain", "--json").splitlines()) == 3


def test_a_host_is_looked_for_on_its_shard(
    shards: list[Shard], scrapy: Callable[..., str], redis: redis_py.Redis
) -> None:
    for url in URLS[:3]:
        found = json.loads(scrapy("frontier", "explain", "plain", url, "--json"))
        assert found["seen"] is True
        assert len(found["queued"]) + len(found["dead"]) == 1
        assert scrapy("dedup", "check", "plain", url) == f"seen  {url}\n"
    scrapy("frontier", "host", "plain", "host1.example", "--delay", "3")
    assert redis.hexists(f"{KEYS[shard_of('host1.example', SHARDS)].frontier}:hosts", "host1.example")
    assert "delay 3 s" in scrapy("frontier", "host", "plain", "host1.example")


def test_dead_letters_go_back_to_their_shards(shards: list[Shard], scrapy: Callable[..., str]) -> None:
    before = shards[0].say().ids
    assert scrapy("frontier", "requeue", "plain").startswith("3 requests queued again")
    assert shards[0].say().ids > before + 1  # whoever found all shards empty looks again
    assert json.loads(scrapy("frontier", "status", "plain", "--json"))["queued"] == 9


def test_flush_empties_every_shard_and_frees_their_number(
    shards: list[Shard], scrapy: Callable[..., str], redis: redis_py.Redis
) -> None:
    assert redis.get(f"{KEYS[0].tag}:shards") == b"3"
    assert scrapy("frontier", "flush", "plain", "--yes").startswith("plain: 6 requests dropped; what was seen is forg")
    left = {key.decode() for key in redis.scan_iter("*")}
    assert left == {f"{keys.frontier}:meta" for keys in KEYS} | {f"{keys.frontier}:memory" for keys in KEYS}
    assert [shard.say().state for shard in shards] == ["lost"] * SHARDS
    answer: Any = redis.eval(source("join"), 2, KEYS[0].frontier, KEYS[0].dedup, "w", "", "payload=1", "0", "0", "1")
    assert answer[0] == b"begun"


def test_memories_of_all_shards_go_to_files_and_come_back(
    shards: list[Shard], scrapy: Callable[..., str], redis: redis_py.Redis, tmp_path: Path
) -> None:
    scrapy("dedup", "export", "plain", str(tmp_path / "seen"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen.0", "seen.1", "seen.2"]
    scrapy("dedup", "clear", "plain", "--yes")
    assert scrapy("dedup", "check", "plain", URLS[0]).startswith("not seen")
    scrapy("dedup", "import", "plain", str(tmp_path / "seen"))
    assert scrapy("dedup", "check", "plain", *URLS).count("not seen") == 0


def test_files_of_shards_are_read_together_or_not_at_all(
    shards: list[Shard], scrapy: Callable[..., str], redis: redis_py.Redis, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    scrapy("dedup", "export", "plain", str(seen))
    redis.flushall()
    three = ["-s", f"FRONTIER_SHARDS={SHARDS}"]
    line = scrapy("dedup", "import", "plain", str(seen), fails=True)
    assert line.endswith("seen.0 is of one of several shards: set FRONTIER_SHARDS as it was\n")
    last = (tmp_path / "seen.2").rename(tmp_path / "elsewhere")
    line = scrapy("dedup", "import", "plain", str(seen), *three, fails=True)
    assert line.startswith(f"FILE={seen}.2: cannot be read (No such file or directory); all 3 shards need theirs, no")
    assert redis.keys() == []
    last.write_bytes((tmp_path / "seen.1").read_bytes())
    last.rename(tmp_path / "seen.2")
    assert "seen.2: is of shard 1 of 3, and read for shard 2 of 3" in scrapy(
        "dedup", "import", "plain", str(seen), *three, fails=True
    )
    assert redis.keys() == []


def test_an_import_on_an_empty_server_is_what_a_sharded_crawl_goes_on_from(
    shards: list[Shard], scrapy: Callable[..., str], redis: redis_py.Redis, tmp_path: Path
) -> None:
    scrapy("dedup", "export", "plain", str(tmp_path / "seen"))
    redis.flushall()
    scrapy("dedup", "import", "plain", str(tmp_path / "seen"), "-s", f"FRONTIER_SHARDS={SHARDS}")
    answer: Any = redis.eval(source("join"), 2, KEYS[0].frontier, KEYS[0].dedup, "w", "", "payload=1", "0", "0", "3")
    assert answer[0] == b"begun"
    assert scrapy("dedup", "check", "plain", *URLS).count("not seen") == 0


def test_an_import_that_a_crawl_came_before_leaves_it_its_number_of_shards(
    shards: list[Shard], scrapy: Callable[..., str], redis: redis_py.Redis, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    scrapy("dedup", "export", "plain", str(tmp_path / "seen"))
    redis.flushall()

    def join() -> Any:
        keys = KEYS[0]
        answer: Any = redis.eval(source("join"), 2, keys.frontier, keys.dedup, "w", "", "payload=1", "0", "0", "3")
        return answer[0]

    def begin(*_: Any) -> str:
        assert join() == b"begun"
        BloomDupeFilter.memory_at(Settings({"BLOOM_BACKEND": "bitmap"}), redis, KEYS[0].dedup).prepare()
        return "1"

    monkeypatch.setattr(transfer, "_new_id", begin)
    three = ["-s", f"FRONTIER_SHARDS={SHARDS}"]
    assert "a crawl began there meanwhile" in scrapy(
        "dedup", "import", "plain", str(tmp_path / "seen"), *three, fails=True
    )
    assert join() == b"joined"


def test_metrics_are_those_of_all_shards(shards: list[Shard], redis: redis_py.Redis) -> None:
    redis.rpush("plain:start_urls", "https://host.example/")
    bases = [(keys.frontier, keys.dedup) for keys in KEYS]
    sample = Sampler(lambda: redis, bases, "plain:start_urls", 0.0).read()
    assert (sample.hosts["due"], sample.workers["live"], sample.seeds) == (6, 1, 1)
    assert sample.bloom is not None
    assert sample.bloom.elements == 9
