"""Seeds, unserialisable requests, renamed callbacks, with real workers: good ones are crawled, bad ones named."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from scrapy import Request

from crawler.frontier import payload
from crawler.frontier.control import Control
from crawler.frontier.deadletters import DeadLetter, DeadLetters
from crawler.frontier.seedkey import SeedKey
from tests.integration import frontier_spiders
from tests.support.pages import Answer, Pages
from tests.support.project import project_env, run_scrapy, start_scrapy
from tests.support.server import wait_for

FAST = {"DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "16", "CRAWLER_ENV_FILE": "", "WORKER_NAME": "w1"}
MODULES = ["-s", f"SPIDER_MODULES={frontier_spiders.__name__}"]


@pytest.fixture
def site() -> Iterator[Pages]:
    """Pages /0 … /299, /good/N, /bad/N and /."""
    paths = ["/", *(f"/{n}" for n in range(300)), *(f"/{kind}/{n}" for kind in ("good", "bad") for n in range(200))]
    pages: dict[str, str | Answer] = dict.fromkeys(paths, "<title>page</title>")
    with Pages(pages) as running:
        yield running


def crawl(redis_url: str, folder: Path, spider: str, *args: str, **env: str) -> tuple[list[dict[str, Any]], str]:
    """The items of one worker that ended by itself, and its log."""
    done = run_scrapy(["crawl", spider, *MODULES, *args], project_env(redis_url, folder, **FAST, **env), timeout=90)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    feed = folder / "items" / spider / "w1.jsonl"
    items = feed.read_text(encoding="utf-8").splitlines() if feed.exists() else []
    return [json.loads(line) for line in items], done.stderr


def dead_letters(redis: redis_py.Redis, spider: str = "plain") -> list[DeadLetter]:
    return list(DeadLetters(Control(redis, f"{{crawler:{spider}:0}}", SeedKey(f"{spider}:start_urls", "list")))())


def paths(items: list[dict[str, Any]]) -> list[str]:
    return sorted(f"/{item['url'].split('/', 3)[3]}" for item in items)


MALFORMED = {
    b"\xff\xfe": "not utf-8 text",
    b"127.0.0.1/page": "without a scheme",
    b'{"url": ': "malformed JSON",
    b'["http://127.0.0.1/"]': "not an object",
    b'{"uri": "http://127.0.0.1/"}': "unknown key 'uri'",
    b'{"url": "http://127.0.0.1/", "callback": "parse_new"}': "'plain' has no such method",
}


def test_one_malformed_seed_of_ten_costs_only_itself(
    redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path
) -> None:
    for group, bad in enumerate(MALFORMED):
        good = [f"{site.url}/{group * 9 + n}" for n in range(9)]
        redis.rpush("plain:start_urls", *good[:4], bad, *good[4:])
    items, _ = crawl(redis_url, tmp_path, "plain")
    assert paths(items) == sorted(f"/{n}" for n in range(54))
    letters = {letter.seed: letter.reason for letter in dead_letters(redis)}
    assert len(letters) == 6
    for bad, words in MALFORMED.items():
        reason = letters[bad.decode("utf-8", "replace")]
        assert reason.startswith("seed: ")
        assert words in reason
    assert redis.llen("plain:start_urls") == 0


def test_json_seeds_and_repeated_ones(redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path) -> None:
    seeds: list[Any] = [
        f"{site.url}/1", f"{site.url}/1",  # wished twice
        {"url": f"{site.url}/2", "callback": "parse_named", "cb_kwargs": {"k": [1]}, "headers": {"X-A": "b"}},
        {"url": f"{site.url}/1", "dont_filter": False},  # seen by then
    ]  # fmt: skip
    redis.lpush("plain:start_urls", *[s if isinstance(s, str) else json.dumps(s) for s in reversed(seeds)])
    items, _ = crawl(redis_url, tmp_path, "plain")
    assert paths(items) == ["/1", "/1", "/2"]
    assert [item["kwargs"] for item in items if item.get("callback") == "parse_named"] == [{"k": [1]}]
    assert [headers["x-a"] for headers in site.requests if "x-a" in headers] == ["b"]


@pytest.mark.parametrize(
    ("spider", "key"),
    [
        ("ofset", "my:ofset"),
        pytest.param("fed", "fed:start_urls", marks=pytest.mark.slow),
        pytest.param("ofzset", "ofzset:start_urls", marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_key_feeds_a_waiting_spider(
    redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path, spider: str, key: str
) -> None:
    seeds = [f"{site.url}/{n}" for n in range(20)]
    pushed = run_scrapy(["seed", spider, *MODULES, *seeds], project_env(redis_url, tmp_path))
    assert pushed.returncode == 0, pushed.stderr
    items, _ = crawl(redis_url, tmp_path, spider, FRONTIER_IDLE="1")
    assert paths(items) == sorted(f"/{n}" for n in range(20))
    assert redis.exists(key) == 0
    assert dead_letters(redis, spider) == []


def test_a_spider_with_its_own_seed_format(redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path) -> None:
    redis.lpush("own:start_urls", f"{site.url}/ 0 49", "nonsense", f"{site.url}/ 50 59")
    items, _ = crawl(redis_url, tmp_path, "own", FRONTIER_IDLE="1")
    assert paths(items) == sorted(f"/{n}" for n in range(60))
    (letter,) = dead_letters(redis, "own")
    assert letter.seed == "nonsense"
    assert letter.reason.startswith("seed: make_request_from_data raised ValueError: not enough values")


def test_400_requests_of_which_half_cannot_travel(
    redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path
) -> None:
    items, log = crawl(redis_url, tmp_path, "mixed", "-a", f"site={site.url}")
    assert paths(items) == sorted(f"/{kind}/{n}" for kind in ("good", "bad") for n in range(200))
    assert set(site.hits.values()) == {1}
    assert "'scheduler/unserializable': 200" in log
    assert 1 <= log.count("stays in this worker") <= 5  # said, not repeated 200 times
    assert "meta['lock']: a value of type _thread.lock" in log
    assert "defined inside a function" in log
    base = "{crawler:mixed:0}"
    assert [redis.hlen(f"{base}:requests"), redis.exists(f"{base}:locals"), redis.xlen(f"{base}:dead")] == [0, 0, 0]


@pytest.mark.slow
def test_items_of_what_cannot_travel_outlive_their_worker(
    redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path
) -> None:
    """The frontier forgets such a request when it is done: its items are on disk by then."""
    env = project_env(redis_url, tmp_path, **FAST, FRONTIER_LEASE="1")
    words = ["crawl", "mixed", *MODULES, "-a", f"site={site.url}"]
    first = start_scrapy(words, {**env, "WORKER_NAME": "w0"}, tmp_path / "w0.log")
    most = 0

    def some_are_done() -> bool:
        nonlocal most
        left = int(redis.hlen("{crawler:mixed:0}:locals"))
        most = max(most, left)
        return left < most

    wait_for(some_are_done, "some are done", 60)
    first.kill()
    first.wait()
    items, _ = crawl(redis_url, tmp_path, "mixed", "-a", f"site={site.url}", FRONTIER_LEASE="1")
    feed = tmp_path / "items" / "mixed" / "w0.jsonl"
    items += [json.loads(line) for line in (feed.read_text().splitlines() if feed.exists() else []) if line[-1] == "}"]
    assert set(paths(items)) == {f"/{kind}/{n}" for kind in ("good", "bad") for n in range(200)}


@pytest.mark.parametrize(
    "dupefilter", ["BloomDupeFilter", pytest.param("MemoryBloomDupeFilter", marks=pytest.mark.slow)]
)
def test_what_the_fingerprinter_refuses_is_a_dead_letter(
    redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path, dupefilter: str
) -> None:
    own = {"DUPEFILTER_CLASS": f"crawler.dedup.{dupefilter}", "DEDUP_FORGET_FAILED": "1"}
    items, log = crawl(redis_url, tmp_path, "links", "-a", f"site={site.url}", **own)
    assert paths(items) == sorted(f"/good/{n}" for n in range(10))
    letters = {letter.url: letter for letter in dead_letters(redis, "links")}
    why = {url.removeprefix(f"{site.url}/bad/"): (letter.reason, letter.worker[:2]) for url, letter in letters.items()}
    raised = ("enqueue: ZeroDivisionError: a rule of the user's", "w1")
    assert why == {"0": ("enqueue: TypeError: the fingerprinter gave str, not bytes", "w1"), "1": raised, "2": raised}
    lines = [line for line in log.splitlines() if "goes to the dead letters" in line]
    assert len(lines) == 2, "one line for each kind"
    assert "'frontier/enqueue_errors': 3" in log
    requeued = run_scrapy(["frontier", "requeue", "links", *MODULES], project_env(redis_url, tmp_path))
    assert requeued.stdout.startswith("3 requests queued again"), requeued.stderr
    base = "{crawler:links:0}"
    assert [redis.hlen(f"{base}:requests"), redis.xlen(f"{base}:dead")] == [3, 0]


def test_renamed_callbacks_go_to_the_dead_letters_at_once_and_can_come_back(
    redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path
) -> None:
    spider = frontier_spiders.Plain()
    old = [payload.encode(Request(f"{site.url}/{n}", callback=spider.parse_old), spider) for n in range(10)]
    for data in old:
        redis.xadd("{crawler:plain:0}:dead", {"reason": "test", "url": "", "host": "127.0.0.1", "payload": data})
    requeued = run_scrapy(["frontier", "requeue", "plain", *MODULES], project_env(redis_url, tmp_path))
    assert requeued.stdout.startswith("10 requests queued again"), requeued.stderr
    redis.rpush("plain:start_urls", *(f"{site.url}/{n}" for n in range(20, 25)))
    began = time.monotonic()
    items, log = crawl(redis_url, tmp_path, "plain", RENAMED="1")
    assert paths(items) == [f"/{n}" for n in range(20, 25)]
    assert time.monotonic() - began < 20
    assert "'elapsed_time_seconds': " in log
    elapsed = float(log.split("'elapsed_time_seconds': ")[1].split(",")[0])
    assert elapsed < 5, "it idled over what it could not read"
    letters = dead_letters(redis)
    assert len(letters) == 10
    assert {letter.reason for letter in letters} == {
        "payload: callback 'parse_old': spider 'plain' has no such method (renamed since it was queued?)"
    }
    assert sorted(letter.url for letter in letters) == sorted(f"{site.url}/{n}" for n in range(10))
    run_scrapy(["frontier", "requeue", "plain", *MODULES, "--reason", "parse_old"], project_env(redis_url, tmp_path))
    crawl(redis_url, tmp_path, "plain")  # the deploy is undone
    assert {path: site.hits[path] for path in (f"/{n}" for n in range(10))} == {f"/{n}": 1 for n in range(10)}
    assert dead_letters(redis) == []


def test_copied_meta_does_not_carry_what_scrapy_wrote_for_one_download(
    redis_url: str, site: Pages, tmp_path: Path
) -> None:
    items, _ = crawl(redis_url, tmp_path, "copies", "-a", f"site={site.url}")
    slots = {item["url"].removeprefix(site.url): item["slot"] for item in items}
    assert slots == {"/1": None, "/10": None, "/101": None, "/2": "mine", "/20": "mine", "/201": "mine"}


def test_a_worker_killed_while_it_takes_seeds_loses_none(
    redis_url: str, redis: redis_py.Redis, site: Pages, tmp_path: Path
) -> None:
    """Seeds are leased like requests: moved in one step, acknowledged when what they made is in the frontier."""
    env = project_env(redis_url, tmp_path, **FAST, FRONTIER_LEASE="3")
    redis.rpush("plain:start_urls", *(f"{site.url}/{n}" for n in range(300)))
    first = start_scrapy(["crawl", "plain", *MODULES], {**env, "WORKER_NAME": "w0"}, tmp_path / "w0.log")
    wait_for(lambda: len(site.hits) > 20, "some seeds crawled", 60)
    first.kill()
    first.wait()
    assert len(site.hits) < 300, "it was too quick to be killed half-way"
    crawl(redis_url, tmp_path, "plain", FRONTIER_LEASE="3")
    crawled = {path for path, hits in site.hits.items() if hits and path != "/robots.txt"}
    assert crawled == {f"/{n}" for n in range(300)}
    assert sum(hits > 1 for hits in site.hits.values()) <= 17, "only what was in flight is fetched again"
    assert dead_letters(redis) == []
