"""What a user gets wrong is one line that names it, its value and the remedy; exit code not 0; never a traceback."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.project import PROJECT, project_env, run_scrapy
from tests.support.server import RedisServer

SPIDERS = """
import scrapy
from crawler.errors import ConfigError

class Tiny(scrapy.Spider):
    name = "tiny"
    start_urls = ["data:,x"]
    def parse(self, response):
        return None

class Picky(Tiny):
    name = "picky"
    def __init__(self, depth="1", **kwargs):
        super().__init__(**kwargs)
        if not depth.isdigit():
            raise ConfigError("-a depth", depth, "must be a whole number")

class Careless(Tiny):
    name = "careless"
    custom_settings = {"BLOOM_CAPCITY": 5000}

class Stubborn(Tiny):
    name = "stubborn"
    custom_settings = {"FRONTIER_LEASE": 0}
"""


@pytest.fixture
def env(tmp_path: Path, redis_url: str) -> dict[str, str]:
    """A working environment, whose spiders are `SPIDERS`."""
    (tmp_path / "bad_input_spiders.py").write_text(SPIDERS)
    return project_env(redis_url, tmp_path, PYTHONPATH=str(tmp_path))


def run(args: Sequence[str], env: Mapping[str, str], cwd: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    return run_scrapy([*args, "-s", "SPIDER_MODULES=bad_input_spiders"], env, cwd=cwd)


def only_line(done: subprocess.CompletedProcess[str]) -> str:
    """What was printed, after checking that it is one line, without secrets, and a failure."""
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in lines[0]
    assert "secret" not in lines[0]
    return lines[0]


def test_the_environment_of_these_tests_works(env: dict[str, str]) -> None:
    """Without it, every case below could be failing for another reason than the one it names."""
    done = run(["crawl", "tiny"], env)
    assert done.returncode == 0, done.stderr
    assert "Spider closed (finished)" in done.stderr
    assert "Traceback" not in done.stderr
    assert "no such setting" not in done.stderr


def test_settings_that_nothing_reads_and_an_agent_without_address_are_told(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("FRONTIER_LAESE=60\n")
    done = run(
        ["crawl", "careless", "-s", "DEDUP_SCOP=all"], {**env, "CRAWLER_ENV_FILE": str(file), "METRICS_PROT": "1"}
    )
    told = sorted(line.split("WARNING: ")[1] for line in done.stderr.splitlines() if "no such setting" in line)
    assert (done.returncode, told) == (0, [
        "BLOOM_CAPCITY: no such setting; did you mean BLOOM_CAPACITY?",
        "DEDUP_SCOP: no such setting; did you mean DEDUP_SCOPE?",
        "FRONTIER_LAESE: no such setting; did you mean FRONTIER_LEASE?",
        "METRICS_PROT: no such setting; did you mean METRICS_PORT?",
    ])  # fmt: skip
    assert done.stderr.count("names nobody to write to: set CONTACT") == 1


NOBODY = "127.0.0.1:1"  # a privileged port that no service uses any more
ENVIRONMENT = [
    ({"REDIS_URL": f"redis://:secret@{NOBODY}/0"}, [f"redis://:***@{NOBODY}/0 ", "refused", "start a server there"]),
    ({"REDIS_URL": "http://:secret@h:6379"}, ["REDIS_URL=http://:***@h:6379: must begin with redis://"]),
    ({"REDIS_URL": "", "REDIS_HOST": "h", "REDIS_PORT": "70000"}, ["REDIS_PORT=70000: must be between 1 and 65535"]),
    ({"BLOOM_CAPACITY": "0"}, ["BLOOM_CAPACITY=0: must be"]),
    ({"BLOOM_ERROR_RATE": "1.5"}, ["BLOOM_ERROR_RATE=1.5: must be between 0 and 1"]),
    ({"FRONTIER_LEASE": "0"}, ["FRONTIER_LEASE=0: must be at least 1"]),
    ({"DOWNLOAD_DELAY": "fast"}, ["DOWNLOAD_DELAY=fast: must be a number"]),
    ({"DEDUP_SCOPE": "{all}"}, ["DEDUP_SCOPE='{all}': must not contain braces"]),
]
MORE_ENVIRONMENT = [  # paths that are walked above already
    ({"REDIS_URL": "", "REDIS_HOST": "127.0.0.1", "REDIS_PORT": "1"}, [NOBODY, "correct REDIS_HOST"]),
    ({"REDIS_URL": "redis://no-such-host.invalid/0"}, ["redis://no-such-host.invalid/0 does not answer"]),
    ({"REDIS_URL": "unix:///no/such/redis.sock"}, ["unix:///no/such/redis.sock does not answer"]),
    ({"REDIS_URL": "localhost:6379"}, ["REDIS_URL=localhost:6379: must begin with redis://"]),
    ({"REDIS_URL": "redis://h:port/0"}, ["REDIS_URL=redis://h:port/0: the port must be a number"]),
    ({"BLOOM_CAPACITY": "many"}, ["BLOOM_CAPACITY=many: must be a whole number"]),
    ({"BLOOM_ERROR_RATE": "0"}, ["BLOOM_ERROR_RATE=0"]),
    ({"FRONTIER_ORDER": "random"}, ["FRONTIER_ORDER=random: must be one of priority, fifo, lifo"]),
    ({"REDIS_KEY_PREFIX": "a:b"}, ["REDIS_KEY_PREFIX='a:b': must not contain braces, colons"]),
]


@pytest.mark.parametrize(("values", "parts"), ENVIRONMENT, ids=str)
def test_environment(env: dict[str, str], values: dict[str, str], parts: list[str]) -> None:
    line = only_line(run(["crawl", "tiny"], {**env, **values}))
    for part in parts:
        assert part in line


@pytest.mark.slow
@pytest.mark.parametrize(("values", "parts"), MORE_ENVIRONMENT, ids=str)
def test_more_of_the_environment(env: dict[str, str], values: dict[str, str], parts: list[str]) -> None:
    test_environment(env, values, parts)


COMMAND_LINES: list[tuple[list[str], str]] = [
    (["crawl"], "spider=(not given): name one: scrapy crawl SPIDER"),
    (["crawl", "tinny"], "spider=tinny: no such spider; did you mean tiny?"),
    (["crawl", "picky", "-a", "depth=deep"], "-a depth=deep: must be a whole number"),
    (
        ["crawl", "tiny", "-a", "start=http://a.example/"],
        "-a start=http://a.example/: it would replace the method start of",
    ),
    (["crawl", "stubborn"], "FRONTIER_LEASE=0: must be at least 1"),
    (["crawl", "tiny", "-s", "REDIS_PARAMS=secret"], "REDIS_PARAMS=(hidden): must be a dict or a JSON object"),
    (["crawl", "tiny", "-s", "AUTOTHROTTLE_ENABLED=1"], "AUTOTHROTTLE_ENABLED=1: must be 0"),
    (["crawl", "tiny", "--logfile", "/no/such/folder/log"], "LOG_FILE=/no/such/folder/log: cannot be written (No such"),
    (["crawl", "tiny", "-s", "JOBDIR=/proc/job"], "JOBDIR=/proc/job: cannot be made a folder (No such"),
    (["crawl", "tiny", "-s", "DOWNLOAD_DELAY=abc"], "DOWNLOAD_DELAY=abc: must be a number"),
    (["crawl", "tiny", "-s", "ROBOTSTXT_OBEY=ja"], "ROBOTSTXT_OBEY=ja: must be 1 or 0"),
    (["crawl", "tiny", "-s", "RETRY_TIMES=x"], "RETRY_TIMES=x: must be a whole number"),
    (["crawl", "tiny", "-s", "SCHEDULER=nope"], "SCHEDULER=nope: can't be imported"),
    (["crawl", "tiny", "-s", "DUPEFILTER_CLASS=nope.X"], "DUPEFILTER_CLASS=nope.X: can't be imported"),
    (["crawl", "tiny", "-s", "FRONTIER=memory"], "FRONTIER=memory: -s comes too late for SCHEDULER"),
    (["crawl", "tiny", "-s", "FEED_BATCH_ITEMS=5"], "FEED_BATCH_ITEMS=5: -s comes too late for FEEDS"),
    (["crawl", "tiny", "--faster"], "option=--faster: there is no such option"),
    (["canonical", "--rules"], "argument --rules: expected one argument"),
    (["seed"], "spider=(not given): name one"),
    (["seed", "tiny"], "seeds=0 URLs, --file not given: give URLs or --file FILE"),
    (["seed", "tiny", "--file", "/no/such/file"], "--file=/no/such/file: can't be read"),
]
MORE_COMMAND_LINES: list[tuple[list[str], str]] = [
    (["crawl", "tiny", "-L", "LOUD"], "LOG_LEVEL=LOUD: must be DEBUG, INFO, WARNING, ERROR or CRITICAL"),
    (["crawl", "xyz"], "spider=xyz: no such spider; this project has careless, picky, stubborn, tiny"),
    (["crawl", "tiny", "picky"], "spider=tiny picky: one spider at a time"),
    (["crawl", "tiny", "-s", "BLOOM_ERROR_RATE=1.5"], "BLOOM_ERROR_RATE=1.5: must be between 0 and 1"),
    (["crawl", "tiny", "-s", "USER_AGENT=böt"], "USER_AGENT=böt: goes into a header of every request"),
    (["crawl", "tiny", "-s", "BLOOM_CAPACITY=0"], "BLOOM_CAPACITY=0: must be"),
    (["crawl", "tiny", "-s", 'REDIS_PARAMS={"redis_cls": "a.B"}'], "REDIS_PARAMS['redis_cls']=a.B: not supported"),
    (["crawl", "tiny", "-s", 'REDIS_PARAMS={"passwort": "secret"}'], "REDIS_PARAMS=passwort: redis-py has no such"),
    (["seed", "tinny", "http://a.example/"], "spider=tinny: no such spider; did you mean tiny?"),
]


@pytest.mark.parametrize(("args", "text"), COMMAND_LINES, ids=str)
def test_command_line(env: dict[str, str], args: list[str], text: str) -> None:
    assert text in only_line(run(args, env))


@pytest.mark.slow
@pytest.mark.parametrize(("args", "text"), MORE_COMMAND_LINES, ids=str)
def test_more_command_lines(env: dict[str, str], args: list[str], text: str) -> None:
    test_command_line(env, args, text)


def test_spider_modules_that_are_not_there(env: dict[str, str]) -> None:
    line = only_line(run_scrapy(["crawl", "tiny", "-s", "SPIDER_MODULES=no.such"], env))
    assert line == "SPIDER_MODULES=no.such: there is no module no"


WITH_SERVER = [["seed", "tiny", "http://a.example/"], ["frontier", "status", "tiny"], ["dedup", "status", "tiny"]]


@pytest.mark.parametrize("args", WITH_SERVER, ids=lambda args: args[0])
def test_other_commands_without_a_server(env: dict[str, str], args: list[str]) -> None:
    line = only_line(run(args, {**env, "REDIS_URL": f"redis://:secret@{NOBODY}/0"}))
    assert f"redis://:***@{NOBODY}/0 does not answer" in line


def test_empty_and_malformed_seed_files(env: dict[str, str], tmp_path: Path) -> None:
    empty, bad = tmp_path / "empty.txt", tmp_path / "bad.txt"
    empty.write_text("# nothing\n\n")
    done = run(["seed", "tiny", "--file", str(empty)], env)
    assert done.returncode != 0
    assert re.fullmatch(rf"{re.escape(str(empty))}: no seeds in it .*\n", done.stdout + done.stderr)
    bad.write_text('http://good.example/\n{"url": 5}\n')
    done = run(["seed", "tiny", "--file", str(bad)], env)
    assert done.returncode != 0
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{bad}:2: ")


def test_wrong_password(env: dict[str, str]) -> None:
    with RedisServer(password="correct") as server:
        url = server.url.replace("correct", "secret")
        line = only_line(run(["crawl", "tiny"], {**env, "REDIS_URL": url}))
    assert f"redis://:***@127.0.0.1:{server.port}/0 refuses the login" in line


def test_a_server_without_memory(env: dict[str, str]) -> None:
    with RedisServer(options=["--maxmemory", "1"]) as server:
        line = only_line(run(["crawl", "tiny"], {**env, "REDIS_URL": server.url}))
    assert line.startswith("Redis is full, nobody can join: raise its maxmemory")


def test_spider_middlewares_without_the_frontier_s(env: dict[str, str]) -> None:
    """Such a crawl would wait for ever for somebody to run ``start()``."""
    line = only_line(run(["crawl", "tiny", "-s", 'SPIDER_MIDDLEWARES={"crawler.frontier.StartOnce": null}'], env))
    assert line.startswith(
        "SPIDER_MIDDLEWARES={'crawler.frontier.StartOnce': None}: without crawler.frontier.StartOnce"
    )


def test_stored_filter_of_another_size_names_both(env: dict[str, str]) -> None:
    assert run(["crawl", "tiny"], {**env, "BLOOM_CAPACITY": "5000"}).returncode == 0
    line = only_line(run(["crawl", "tiny"], {**env, "BLOOM_CAPACITY": "7000"}))
    assert "BLOOM_CAPACITY=7000" in line
    assert "5000" in line


def test_line_is_on_stderr_and_in_the_log_when_the_log_is_a_file(env: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    values = {**env, "REDIS_URL": f"redis://:secret@{NOBODY}/0"}
    line = only_line(run(["crawl", "tiny", "--logfile", str(log)], values))
    assert only_line(run(["crawl", "tiny", "--nolog"], values)) == line
    text = log.read_text()
    assert text.splitlines()[-1].endswith(f"CRITICAL: {line}")
    assert "Scrapy 2.19.0 started" in text
    assert "Traceback" not in text
    assert "secret" not in text


def test_embedded_server_without_a_place(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = crawler.settings\n")
    (tmp_path / ".scrapy").write_text("a file where a folder should be")
    values = {**env, "REDIS_URL": "", "PYTHONPATH": f"{tmp_path}:{PROJECT}"}
    line = only_line(run(["crawl", "tiny"], values, cwd=tmp_path))
    assert f"{tmp_path}/.scrapy/redis cannot hold the embedded server" in line
    assert "set REDIS_URL=" in line


def test_errors_nobody_expected_keep_their_traceback(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bad_input_spiders.py").write_text(SPIDERS.replace("if not depth.isdigit()", "if 1 / 0"))
    done = run(["crawl", "picky"], env)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "in __init__" in done.stderr
