"""Redis misbehaves in every way while real workers crawl a tree, where each lost page loses all pages below it.

A lost reply, a cut connection and a frozen or killed server may cost time; they cost no page, no item, and (the
exchange being idempotent and leases outlasting the outage) no second fetch.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.crew import CONCURRENCY, Crew
from tests.site import Site
from tests.support.project import PROJECT, start_scrapy
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

TREE = {"shape": "tree", "latency": 0.05, "slow_seconds": 0.5, "flaky": 0.0}
EXCHANGE = b"EVALSHA"
Sites = Callable[..., Site]


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that may be frozen and killed."""
    with RedisServer(appendonly=True) as server:
        yield server


@contextmanager
def meanwhile(action: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `action(stop)` in a thread, whose error fails the test."""
    stop = threading.Event()
    errors: list[Exception] = []  # of the thread, for the test

    def run() -> None:
        try:
            action(stop)
        except Exception as error:  # noqa: BLE001 (raised below, in the test's thread)
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
    assert not errors, errors


def at_work(crew: Crew) -> None:
    """Starts two workers and waits until both have fetched."""
    crew.start("w1", "w2")
    crew.until(lambda: min(crew.fetched_by("w1"), crew.fetched_by("w2")) >= 3, "both at work")


def outages(crew: Crew) -> int:
    """How often the workers said that Redis went away; each time must be matched by its return."""
    gone = back = 0
    for name in crew.workers:
        log = crew.log(name)
        assert "Traceback" not in log, log
        gone += len(re.findall("Redis does not answer", log))
        back += len(re.findall("Redis works again after", log))
    assert gone == back
    return gone


def lost_replies(site: Site, redis_server: RedisServer, folder: Path, seed: int) -> None:
    """Replies to exchanges are lost at random moments, about ten per crawl; some without a broken connection."""
    rng = random.Random(seed)
    with Proxy(redis_server.port) as proxy:
        crew = Crew(site, proxy.url, folder)

        def lose(stop: threading.Event) -> None:
            passed = 0
            while not stop.wait(rng.uniform(0.05, 0.5)):
                if not proxy.armed and proxy.passed > passed + 10:  # never all attempts of a worker
                    passed = proxy.passed
                    proxy.drop_reply_to(EXCHANGE, silently=rng.random() < 0.1)

        at_work(crew)
        with meanwhile(lose):
            crew.finish(90)
        crew.assert_complete()
        assert proxy.dropped
        assert outages(crew)


def test_lost_replies_lose_nothing(site: Sites, redis_server: RedisServer, redis_url: str, tmp_path: Path) -> None:
    lost_replies(site(pages=150, **TREE), redis_server, tmp_path, random.randrange(1 << 30))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_lost_replies_twenty_times(
    seed: int, site: Sites, redis_server: RedisServer, redis_url: str, tmp_path: Path
) -> None:
    lost_replies(site(pages=150, seed=seed, **TREE), redis_server, tmp_path, seed)


@pytest.mark.slow
def test_connections_cut_every_second(site: Sites, redis_server: RedisServer, redis_url: str, tmp_path: Path) -> None:
    with Proxy(redis_server.port) as proxy:
        crew = Crew(site(pages=300, **{**TREE, "latency": 0.3}), proxy.url, tmp_path)

        def cut(stop: threading.Event) -> None:
            while not stop.wait(1):
                proxy.cut()

        at_work(crew)
        accepted = proxy.accepted
        with meanwhile(cut):
            crew.finish(90)
        crew.assert_complete()
        assert proxy.accepted >= accepted + 3  # a cut between two exchanges is healed without a word
        outages(crew)


def test_server_refuses_connections_for_a_while(
    site: Sites, redis_server: RedisServer, redis_url: str, tmp_path: Path
) -> None:
    with Proxy(redis_server.port) as proxy:
        crew = Crew(site(pages=150, **TREE), proxy.url, tmp_path)
        at_work(crew)
        proxy.refuse()
        time.sleep(3)
        proxy.refuse(False)
        crew.finish(90)
        crew.assert_complete()
        assert outages(crew) >= 2


def frozen(site: Site, server: RedisServer, folder: Path, seconds: float) -> None:
    crew = Crew(site, server.url, folder)
    at_work(crew)
    server.freeze()
    time.sleep(seconds)
    server.resume()
    crew.finish(90)
    crew.assert_complete()
    assert outages(crew) >= 2


def test_frozen_server(site: Sites, own_server: RedisServer, tmp_path: Path) -> None:
    frozen(site(pages=150, **TREE), own_server, tmp_path, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [10, 40])
def test_long_frozen_server(seconds: float, site: Sites, own_server: RedisServer, tmp_path: Path) -> None:
    """Longer than the leases (10 s): they are extended by the outage, nobody takes what another one works on."""
    frozen(site(pages=300, **TREE), own_server, tmp_path, seconds)


def killed(site: Site, server: RedisServer, folder: Path, times: int, seed: int) -> None:
    rng = random.Random(seed)
    crew = Crew(site, server.url, folder)
    at_work(crew)
    for number in range(1, times + 1):
        crew.fetched(number * site.status()["pages"] // (times + 2))
        time.sleep(rng.random() * 0.3)
        server.kill()
        time.sleep(rng.random() * 1.5)
        server.restart()
    crew.finish(90)
    crew.assert_complete()
    assert outages(crew)


def test_killed_server_with_an_append_only_file(site: Sites, own_server: RedisServer, tmp_path: Path) -> None:
    killed(site(pages=150, **TREE), own_server, tmp_path, 2, random.randrange(1 << 30))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_server_many_times(seed: int, site: Sites, own_server: RedisServer, tmp_path: Path) -> None:
    killed(site(pages=300, seed=seed, **TREE), own_server, tmp_path, 6, seed)


@pytest.mark.parametrize("victim", ["server", pytest.param("supervisor", marks=pytest.mark.slow)])
def test_embedded_server_killed_in_the_middle(victim: str, site: Sites, tmp_path: Path) -> None:
    """The supervisor starts the server again; a worker starts both again."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = crawler.settings\n")
    crew = Crew(site(pages=150, **TREE), "", tmp_path, PYTHONPATH=str(PROJECT))
    for name in ("w1", "w2"):
        arguments = ["crawl", "site", "-a", f"start={crew.site.start}"]
        env = {**crew.env, "WORKER_NAME": name, "USER_AGENT": name}
        crew.workers[name] = start_scrapy(arguments, env, tmp_path / f"{name}.log", cwd=tmp_path)
    servers = set()
    for pages in (30, 80):
        crew.fetched(pages)
        server = int((tmp_path / ".scrapy" / "redis" / "server.pid").read_text())
        supervisor = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(server if victim == "server" else supervisor, signal.SIGKILL)
        servers.add(server)
    crew.finish(90)
    crew.assert_complete()
    assert len(servers) == 2, "the second kill met another server"
    outages(crew)


@pytest.mark.slow
def test_worker_that_starts_during_an_outage_says_so_in_one_line(
    site: Sites, redis_server: RedisServer, redis_url: str, tmp_path: Path
) -> None:
    """Whichever command of the start is answered last, the end is one line; what it began hinders nobody."""
    books = site(pages=40, **TREE)
    with Proxy(redis_server.port) as proxy:
        for number, command in enumerate((b"PING", b"INFO", b"EVALSHA", b"HGETALL")):
            proxy.drop_reply_to(command)
            name = f"s{number}"
            crew = Crew(books, proxy.url, tmp_path)
            crew.start(name)
            code = crew.workers[name].wait(60)
            assert not proxy.armed, f"{command!r} was not sent"
            log = crew.log(name).splitlines()
            assert "Traceback" not in "".join(log), "\n".join(log)
            assert (code, len(log)) == (1, 1) or code == 0, "\n".join(log)
            if code:
                assert log[0].startswith(f"{proxy.url} does not answer (Connection closed by server)")
    crew = Crew(books, redis_url, tmp_path)
    crew.start("w1")
    crew.finish()
    crew.assert_complete()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_sigterm_during_an_outage(how: str, site: Sites, own_server: RedisServer, tmp_path: Path) -> None:
    """The workers end in time without Redis; what they could not give back comes back when the leases run out."""
    crew = Crew(site(pages=150, **TREE), own_server.url, tmp_path)
    at_work(crew)
    crew.fetched(20)
    own_server.freeze() if how == "frozen" else own_server.kill()
    time.sleep(0.5)
    for name in ("w1", "w2"):
        crew.workers[name].terminate()
    for name in ("w1", "w2"):
        assert crew.workers[name].wait(30) == 0, crew.log(name)
        assert "Traceback" not in crew.log(name), crew.log(name)
    own_server.resume() if how == "frozen" else own_server.restart()
    crew.start("w3")
    crew.finish(90)
    crew.assert_complete(twice=2 * CONCURRENCY)


@pytest.mark.slow
def test_far_away_server(site: Sites, redis_server: RedisServer, redis_url: str, tmp_path: Path) -> None:
    with Proxy(redis_server.port) as proxy:
        proxy.delay = 0.3
        crew = Crew(site(pages=150, **TREE), proxy.url, tmp_path)
        crew.start("w1", "w2")
        crew.finish(90)
        crew.assert_complete()
        assert outages(crew) == 0
