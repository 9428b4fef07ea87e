"""``scrapy seed``: what it pushes where, what it refuses, and in which words."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import redis as redis_py
from scrapy.cmdline import execute
from scrapy.settings import Settings

from tests.integration import frontier_spiders
from tests.support.project import run_scrapy
from tests.support.server import RedisServer

URLS = [f"https://site.example/{n}" for n in range(10)]


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def seed(redis_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``scrapy seed ARGS`` in this process: a process each would cost a second."""

    def run(*args: str, stdin: str = "", url: str = redis_url) -> Result:
        settings = Settings({"REDIS_URL": url}, priority="project")
        settings.setmodule("crawler.settings", priority=0)
        settings.set("SPIDER_MODULES", [frontier_spiders.__name__], priority="cmdline")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as exit_:
            execute(["scrapy", "seed", *args], settings)
        out, err = capfd.readouterr()
        return Result(int(exit_.value.code or 0), out, err)

    return run


Seed = Callable[..., Result]


def waiting(redis: redis_py.Redis, key: str) -> list[str]:
    return [cast("bytes", item).decode() for item in redis.lrange(key, 0, -1)]


def test_urls_wait_in_their_order(seed: Seed, redis: redis_py.Redis) -> None:
    result = seed("plain", *URLS)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "10 seeds pushed to plain:start_urls; 10 wait there\n"
    assert waiting(redis, "plain:start_urls") == URLS
    seed("plain", "https://later.example/")
    assert waiting(redis, "plain:start_urls")[-1] == "https://later.example/"


def test_a_file_with_bad_lines(seed: Seed, redis: redis_py.Redis, tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    lines = [
        "\ufeff# a comment", URLS[0], "", f"  {URLS[1]}  \r", "no scheme", json.dumps({"url": URLS[2], "priority": 7}),
        '{"url": 5}', '{"url": "https://site.example/", "callback": "parse_gone"}', "x" * 2_000_000, URLS[3],
    ]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    result = seed("plain", "--file", str(path))
    assert result.returncode == 1
    assert waiting(redis, "plain:start_urls") == [URLS[0], URLS[1], lines[5], URLS[3]]
    assert result.stdout == "4 seeds pushed to plain:start_urls, 4 malformed; 4 wait there\n"
    faults = result.stderr.splitlines()
    assert [line.split(": ")[0] for line in faults] == [f"{path}:{n}" for n in (5, 7, 8, 9)]
    assert "without a scheme" in faults[0]
    assert "'plain' has no such method" in faults[2]
    assert "longer than 1048576 bytes" in faults[3]


def test_many_bad_lines_are_counted_not_printed(seed: Seed) -> None:
    result = seed("plain", "--file", "-", stdin="bad\n" * 1000 + URLS[0])
    assert result.stdout == "1 seeds pushed to plain:start_urls, 1000 malformed; 1 wait there\n"
    assert len(result.stderr.splitlines()) == 21


def test_priority_and_dedup_go_into_the_seeds(seed: Seed, redis: redis_py.Redis) -> None:
    own = json.dumps({"url": URLS[1], "priority": 1, "dont_filter": True})
    result = seed("plain", "--priority", "-5", "--dedup", "--file", "-", stdin=f"{URLS[0]}\n{own}\n")
    assert result.returncode == 0, result.stderr
    first, second = waiting(redis, "plain:start_urls")
    assert json.loads(first) == {"url": URLS[0], "priority": -5, "dont_filter": False}
    assert second == own


def test_going_on_after_a_stop(seed: Seed, redis: redis_py.Redis) -> None:
    seed("plain", "--first-line", "9", "--file", "-", stdin="\n".join(URLS))
    assert waiting(redis, "plain:start_urls") == URLS[8:]


def test_other_kinds_of_keys(seed: Seed, redis: redis_py.Redis) -> None:
    assert seed("ofset", *URLS, URLS[0]).returncode == 0
    assert redis.smembers("my:ofset") == {url.encode() for url in URLS}
    assert seed("ofzset", "--priority", "3", URLS[0]).returncode == 0
    assert redis.zscore("ofzset:start_urls", json.dumps({"url": URLS[0], "priority": 3}, separators=(",", ":"))) == 3
    assert seed("plain", "-s", "REDIS_START_URLS_KEY=seeds:%(name)s", URLS[0]).returncode == 0
    assert waiting(redis, "seeds:plain") == URLS[:1]
    for name, kind in (("REDIS_START_URLS_AS_SET", b"set"), ("REDIS_START_URLS_AS_ZSET", b"zset")):
        key = f"seeds:{name}"
        assert seed("plain", "-s", f"REDIS_START_URLS_KEY={key}", "-s", f"{name}=1", URLS[0]).returncode == 0
        assert redis.type(key) == kind


def test_a_spider_with_its_own_format_gets_its_lines_as_they_are(seed: Seed, redis: redis_py.Redis) -> None:
    assert seed("own", "--file", "-", stdin="http://a.example/ 1 5\n# note\nwhatever\n").returncode == 0
    assert waiting(redis, "own:start_urls") == ["http://a.example/ 1 5", "whatever"]


@pytest.mark.parametrize(
    ("args", "words", "code"),
    [
        ([], "spider=(not given): name one: scrapy seed SPIDER URL...", 2),
        (["plian", URLS[0]], "spider=plian: no such spider; did you mean plain?", 2),
        (["zzz", URLS[0]], "spider=zzz: no such spider; this project has broken, copies,", 2),
        (["plain"], "seeds=0 URLs, --file not given: give URLs or --file FILE, not both", 2),
        (["plain", URLS[0], "--file", "x"], "not both", 2),
        (["plain", URLS[0], "--dedupe=1"], "option=--dedupe=1: no such option; see scrapy seed -h", 2),
        (["plain", "--file", "/no/such/file"], "--file=/no/such/file: can't be read (No such file or directory)", 2),
        (["plain", "--file", "/tmp"], "--file=/tmp: is a folder; name a file", 2),
        (["plain", URLS[0], "--priority", "high"], "--priority=high: must be a whole number", 2),
        (["plain", URLS[0], "--first-line", "0"], "--first-line=0: must be at least 1", 2),
        (["plain", "site.example"], "argument:1: URL without a scheme: 'site.example'; write https://… in front", 1),
        (["own", "--priority", "1", "x 1 2"], "--priority/--dedup=own: this spider reads its seeds itself", 2),
        (["broken", URLS[0]], "redis_key=%(spider)s:seeds: may hold %(name)s and no other % sign", 2),
    ],
)
def test_bad_input_is_one_line(seed: Seed, redis: redis_py.Redis, args: list[str], words: str, code: int) -> None:
    result = seed(*args)
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.returncode == code
    assert redis.keys("*") == []


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_is_one_line(seed: Seed, tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.txt"
    path.write_text(text)
    result = seed("plain", "--file", str(path))
    assert result.returncode == 1
    assert (result.stdout + result.stderr).splitlines() == [
        f"{path}: no seeds in it (nothing but blank lines and comments); nothing pushed"
    ]


def test_the_key_holds_something_else(seed: Seed, redis: redis_py.Redis) -> None:
    redis.sadd("plain:start_urls", "x")
    result = seed("plain", URLS[0])
    assert result.returncode == 1
    assert result.stderr == "plain:start_urls is a set in Redis, not a list: set REDIS_START_URLS_AS_SET=1\n"


def test_addresses_that_workers_refuse_are_counted(seed: Seed, redis: redis_py.Redis) -> None:
    bad = [
        "http://127.0.0.1/a",
        "http://0x7f000001/",
        "http://[::1]/",
        "http://a.localhost/",
        '{"url": "http://10.1/"}',
    ]
    result = seed("plain", *bad, *URLS, "http://mine.internal/")
    assert result.returncode == 0
    assert result.stderr == (
        "5 of these seeds have private or local addresses, the first is http://127.0.0.1/a: with these settings "
        "workers refuse them; set CRAWLER_ALLOW_PRIVATE=1, or list the hosts in CRAWLER_PRIVATE_HOSTS\n"
    )
    assert redis.llen("plain:start_urls") == 16, "a worker with other settings may take them"
    assert seed("plain", *bad, "-s", "CRAWLER_ALLOW_PRIVATE=1").stderr == ""
    assert seed("plain", *bad[:1], *URLS, "-s", "CRAWLER_PRIVATE_HOSTS=127.0.0.1").stderr == ""


def test_no_server(seed: Seed) -> None:
    result = seed("plain", URLS[0], url="redis://127.0.0.1:1/0")
    assert result.returncode == 1
    assert "127.0.0.1:1" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_server_that_dies_half_way_says_where_to_go_on() -> None:
    from crawler.commands.seed import CHUNK, Push
    from crawler.errors import ServerError
    from crawler.frontier.seedfile import Line
    from crawler.frontier.seedkey import SeedKey

    with RedisServer() as server, server.client() as client:
        push = Push(client, SeedKey("seeds", "list"))

        def lines() -> Any:
            for number in range(1, 3 * CHUNK):
                if number == CHUNK + 10:
                    server.kill()
                yield Line(number, b"https://site.example/", 0)

        with pytest.raises(
            ServerError, match=f"after {CHUNK} seeds; {CHUNK} more, .*: go on with --first-line {CHUNK + 1}$"
        ):
            push.all(lines(), "file")


def test_seeds_in_the_embedded_server_outlive_it(tmp_path: Path) -> None:
    """No worker runs: the server that took the seeds is gone with the command, its file is not."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "scrapy.cfg").write_text("[settings]\ndefault = crawler.settings\n")
    for url in URLS[:2]:
        env = {"PYTHONPATH": str(Path(__file__).parents[2])}
        result = run_scrapy(
            ["seed", "plain", url, "-s", f"SPIDER_MODULES={frontier_spiders.__name__}"], env=env, cwd=project
        )
        assert result.returncode == 0, result.stderr
    assert result.stdout == "1 seeds pushed to plain:start_urls; 2 wait there\n"
