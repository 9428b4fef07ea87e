"""Everything at once: workers killed, stopped and frozen, Redis restarted and frozen, at random moments of a crawl."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.crew import CONCURRENCY, Crew
from tests.site import Site
from tests.support.server import RedisServer


class Chaos:
    """Does something bad to a crew or its server every second or so."""

    def __init__(self, seed: int, crew: Crew, server: RedisServer) -> None:
        self.rng, self.crew, self.server = random.Random(seed), crew, server
        self.events: list[str] = []
        self.stopped: set[str] = set()  # a second SIGTERM would force them to end unclean
        self.costs = 0  # pages that may be fetched again

    def strike(self) -> None:
        """One event; a worker that was taken away is replaced."""
        alive = [name for name in self.crew.running() if name not in self.stopped]
        event = self.rng.choice((self.kill, self.stop, self.freeze, self.restart_server, self.freeze_server))
        victim = self.rng.choice(alive) if alive else ""
        self.events.append(f"{event.__name__} {victim}")
        event(victim)

    def kill(self, name: str) -> None:
        """kill -9 of a worker."""
        if name:
            self.crew.kill(name)
            self.costs += CONCURRENCY
        self.replace()

    def stop(self, name: str) -> None:
        """SIGTERM to a worker."""
        if name:
            self.stopped.add(name)
            self.crew.workers[name].send_signal(signal.SIGTERM)
        self.replace()

    def freeze(self, name: str) -> None:
        """SIGSTOP to a worker, for longer than its lease or for a moment."""
        if name:
            self.crew.workers[name].send_signal(signal.SIGSTOP)
            long = self.rng.random() < 0.3
            time.sleep(12 if long else self.rng.random())
            self.costs += CONCURRENCY if long else 0
            self.crew.workers[name].send_signal(signal.SIGCONT)

    def restart_server(self, _: str) -> None:
        """kill -9 of Redis; its append-only file has everything."""
        self.server.kill()
        time.sleep(self.rng.random() * 3)
        self.server.restart()

    def freeze_server(self, _: str) -> None:
        """Redis answers nothing for a while."""
        self.server.freeze()
        time.sleep(self.rng.random() * 7)  # the time-out of a call is 5 s
        self.server.resume()

    def replace(self) -> None:
        """One more worker."""
        self.crew.start(f"w{len(self.crew.workers) + 1}")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_is_lost_in_chaos(seed: int, site: Callable[..., Site], tmp_path: Path) -> None:
    shape = "tree" if seed % 2 else "web"
    books = site(pages=1000, hosts=4, shape=shape, latency=0.3, seed=seed, flaky=0.005)
    with RedisServer(appendonly=True) as server:
        crew = Crew(books, server.url, tmp_path, FRONTIER_RUN="chaos")
        chaos = Chaos(seed, crew, server)
        crew.start("w1", "w2", "w3")
        crew.fetched(30)
        while books.status()["fetched"] < 800 and len(chaos.events) < 12:
            chaos.strike()
            time.sleep(chaos.rng.random() * 2)
        print(chaos.events)
        assert chaos.events, "the crawl was over before anything happened"
        chaos.replace()
        crew.until(lambda: not crew.running(), "all workers ended", 150)
        for name, worker in crew.workers.items():
            # A worker that is started while Redis is down says so and ends, or is stopped before it can say anything.
            began = " run chaos as " in crew.log(name)
            refused = worker.returncode == 1 and "does not answer" in crew.log(name).splitlines()[-1]
            fine = worker.returncode in (0, -9) or (not began and (refused or worker.returncode == -15))
            assert fine, f"{name} ended with {worker.returncode}\n{crew.log(name)}"
        crew.assert_complete(twice=chaos.costs)
