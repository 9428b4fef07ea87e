"""Everything that may die or stand still, ten times each at random moments, on a site that makes trouble of its own.

The site redirects, refreshes, answers 503 once and is slow at times; callbacks and pipelines raise. A tree: a page that
is lost takes all pages below it along. Whatever happens, each page is fetched, each item is in a feed, or its page is a
dead letter with the error that took it; again is fetched only what a killed, stopped or cut-off worker had begun.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.demo.verdict import titles_in_feeds
from crawler.frontier.control import Control
from crawler.frontier.deadletters import DeadLetters
from crawler.frontier.seedkey import SeedKey
from tests.e2e.crew import Crew
from tests.e2e.spiders import page_number
from tests.site import Site
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

PAGES, CONCURRENCY, LEASE = 90, 4, 4
PATIENT = 20  # the lease where a reply may be waited for as long as a client waits for one, 5 s
NAMES = ("w1", "w2", "w3")
SLOW = 1.0  # a page's seconds where a second must not suffice for all that is left
TROUBLE = {"shape": "tree", "latency": 0.1, "redirects": 0.06, "refreshes": 0.04, "moved": 0.05, "flaky": 0.04}


class Trial:
    """One crawl in which one thing goes wrong; `again`: how many pages may be fetched twice for that."""

    def __init__(self, rng: random.Random, crew: Crew, server: RedisServer, proxy: Proxy) -> None:
        self.rng, self.crew, self.server, self.proxy = rng, crew, server, proxy
        self.again = 0

    def moment(self) -> None:
        """Some instant while pages are still left."""
        self.crew.fetched(self.rng.randrange(2, PAGES * 2 // 3))
        time.sleep(self.rng.random() * 0.2)

    def kill_one(self) -> None:
        self.crew.kill(self.rng.choice(NAMES))
        self.again = CONCURRENCY

    def kill_all(self) -> None:
        for name in NAMES:
            self.crew.kill(name)
        self.crew.start("n1", "n2")
        self.again = CONCURRENCY * len(NAMES)

    def sigterm(self) -> None:
        victims = self.rng.sample(NAMES, self.rng.randrange(1, 4))
        for name in victims:
            self.crew.workers[name].send_signal(signal.SIGTERM)
        for name in victims:
            assert self.crew.workers[name].wait(15) == 0, self.crew.log(name)
        self.crew.start("n1")

    def sigstop(self) -> None:
        victim = self.crew.workers[self.rng.choice(NAMES)]
        victim.send_signal(signal.SIGSTOP)
        time.sleep(LEASE + 2)
        victim.send_signal(signal.SIGCONT)
        self.again = CONCURRENCY

    def redis_killed(self) -> None:
        self.server.kill()
        time.sleep(self.rng.random())
        self.server.restart()

    def power_cut(self) -> None:
        """What was written in the last second is gone, as with appendfsync everysec when the machine dies."""
        [log] = self.server.folder.glob("appendonlydir/*.incr.aof")
        size, moment = log.stat().st_size, time.monotonic()
        time.sleep(1)
        self.server.freeze()
        assert time.monotonic() - moment < 2
        assert self.crew.running(), "over before the cut: nobody is left to do again what it took"
        grown = log.stat().st_size - size
        self.server.kill()
        with log.open("rb+") as file:
            file.truncate(size + self.rng.randrange(grown // 10 + 1))
        self.server.start()
        self.again = PAGES  # what was done within that second is done again, and what was in flight

    def redis_frozen(self) -> None:
        self.server.freeze()
        time.sleep(LEASE + 2 * self.rng.random())
        self.server.resume()

    def connections_cut(self) -> None:
        """Every second until the end."""
        self._until_the_end(1.0, self.proxy.cut)

    def replies_lost(self) -> None:
        """One after the other, now and then without a broken connection."""

        def lose() -> None:  # not each: a worker that never gets a reply can't go on
            if not self.proxy.armed and self.rng.random() < 0.5:
                self.proxy.drop_reply_to(b"EVALSHA", silently=self.rng.random() < 0.1)

        self._until_the_end(0.3, lose)

    def _until_the_end(self, every: float, action: Callable[[], None]) -> None:
        def run() -> None:
            while self.crew.running():
                action()
                time.sleep(every)

        threading.Thread(target=run, daemon=True).start()


KINDS: dict[str, Callable[[Trial], None]] = {
    "kill -9 of one worker": Trial.kill_one,
    "kill -9 of all workers": Trial.kill_all,
    "SIGTERM": Trial.sigterm,
    "SIGSTOP past the lease": Trial.sigstop,
    "Redis kill -9, AOF always": Trial.redis_killed,
    "Redis kill -9, AOF everysec": Trial.redis_killed,
    "power cut, AOF everysec": Trial.power_cut,
    "Redis frozen": Trial.redis_frozen,
    "connections cut every second": Trial.connections_cut,
    "replies lost": Trial.replies_lost,
}


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost(kind: str, seed: int, site: Callable[..., Site], tmp_path: Path) -> None:
    rng = random.Random(f"{kind} {seed}")
    fsync = "always" if "always" in kind else "everysec"
    lease = PATIENT if kind == "replies lost" else LEASE
    trouble = TROUBLE | ({"latency": SLOW} if "power" in kind else {})
    with RedisServer(appendonly=True, options=["--appendfsync", fsync]) as server, Proxy(server.port) as proxy:
        crew = Crew(
            site(pages=PAGES, seed=seed + 1, **trouble), proxy.url, tmp_path, spider="faulty", FRONTIER_RUN="matrix",
            CONCURRENT_REQUESTS=str(CONCURRENCY), FRONTIER_LEASE=str(lease), METRICS_ENABLED="0",
        )  # fmt: skip
        crew.start(*NAMES)
        crew.until(lambda: all(" run matrix as " in crew.log(name) for name in NAMES), "all have joined")
        trial = Trial(rng, crew, server, proxy)
        trial.moment()
        KINDS[kind](trial)
        crew.finish(120)
        judge(crew, server, trial.again)


def judge(crew: Crew, server: RedisServer, again: int) -> None:
    """0 pages never fetched, 0 items missing but those that a dead letter accounts for."""
    report = crew.site.report()
    logs = "\n".join(crew.log(name) for name in crew.workers)
    assert report.missed == [], f"never fetched\n{logs[-8000:]}"
    with server.client() as client:
        letters = list(DeadLetters(Control(client, "{crawler:faulty:0}", SeedKey("faulty:start_urls", "list")))())
    assert {letter.reason.partition(":")[0] for letter in letters} <= {"callback", "pipeline"}, letters
    titles = titles_in_feeds(crew.folder / "items")
    wrong = {page for page in range(PAGES) if page % 19 == 4}  # their items never arrive
    assert {page_number(title) for title in titles} == set(range(PAGES)) - wrong
    assert {"pipeline", "callback"} == {letter.reason.partition(":")[0] for letter in letters}
    raising = wrong | {page for page in range(PAGES) if page % 17 == 3}
    assert len({letter.url.partition("utm_")[0] for letter in letters}) >= len(raising), "an error left no dead letter"
    assert len(report.twice) <= again, f"fetched twice: {report.twice}"
