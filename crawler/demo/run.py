"""One demo from the first process to the last: start, watch, kill half-way if wanted, wait for the end, judge."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from rich.console import Console
from scrapy.settings import Settings

from crawler import connection, embedded
from crawler.demo.display import Display, Moment
from crawler.demo.fleet import Fleet
from crawler.demo.verdict import Verdict, titles_in_feeds
from crawler.errors import ConfigError, CrawlerError
from crawler.keys import Keys

if TYPE_CHECKING:
    from tests.site import SiteProcess

CONCURRENCY = 16  # requests in flight per worker: what a kill may cost
LEASE = 10  # seconds until a killed worker's requests go to the others
LATENCY = 0.05  # seconds the site takes to answer: a crawl that waits for nothing shows nothing
PATIENCE = 60.0  # seconds without any page until the demo gives up
PREFIX = "demo"
_SHARDS = os.environ.get("FRONTIER_SHARDS") or "1"


@dataclass(frozen=True)
class Plan:
    """What to show: so many `workers` on so many `pages`, and whether one is killed half-way."""

    workers: int = 3
    pages: int = 1000
    kill: bool = False

    def __post_init__(self) -> None:
        for name, value, low, high in (("--workers", self.workers, 1, 64), ("--pages", self.pages, 1, 1_000_000)):
            if not low <= value <= high:
                raise ConfigError(name, value, f"must be between {low} and {high}")
        if self.kill and self.pages < 200:
            raise ConfigError("--pages", self.pages, "must be at least 200 with --kill, or the crawl ends too early")


def run(plan: Plan, console: Console) -> bool:
    """Runs `plan` and prints its table; True when everything held. All processes are gone afterwards, however it ends.

    Raises CrawlerError when the demo itself cannot run.
    """
    folder = Path(tempfile.mkdtemp(prefix="crawler-demo-"))
    keep = True
    try:
        with ExitStack() as stack:
            verdict = _Demo(plan, console, folder, stack).crawl()
        console.print(verdict.table())
        for fault in verdict.faults:
            console.print(f"FAILED: {fault}", style="red", markup=False, highlight=False, soft_wrap=True)
        keep = bool(verdict.faults)
        console.print(_summary(plan, verdict), highlight=False, soft_wrap=True)
        return not verdict.faults
    except KeyboardInterrupt:
        keep = False
        raise
    finally:
        if keep:
            console.print(f"Logs and feeds are kept in {folder}", highlight=False, soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _summary(plan: Plan, verdict: Verdict) -> str:
    if verdict.faults:
        return "The crawl did not hold what the project promises."
    once = "fetched once" if not verdict.report.twice else "fetched; again only what was in flight at the kill"
    return f"All {plan.pages} pages {once}, by {_count(plan.workers, 'worker')}, in {verdict.seconds:.1f} s."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class _Demo:
    """The parts of a running demo; what has to be stopped is on `stack`, in the order it must not survive."""

    def __init__(self, plan: Plan, console: Console, folder: Path, stack: ExitStack) -> None:
        self.plan = plan
        self.site = _start_site(plan)
        stack.callback(self.site.close)
        url = embedded.join(folder)
        stack.callback(_end_server, folder)
        self.client = connection.sync_client(Settings({"REDIS_URL": url}))
        stack.callback(self.client.close)
        self.keys = Keys(PREFIX, "site").spread(int(_SHARDS) if _SHARDS.isdecimal() else 1)
        self.items = folder / "items"
        # By name, so that the case of a host is one of the things to canonicalise.
        start = self.site.url.replace("127.0.0.1", "localhost")
        self.fleet = Fleet(folder, start, _environment(url, self.items))
        stack.callback(self.fleet.close)
        self.display = stack.enter_context(Display(console))
        self.wanted = [f"worker-{number + 1}" for number in range(plan.workers)]

    def crawl(self) -> Verdict:
        """From the first worker's start to the last one's end."""
        self.display.say(
            f"A website of {self.plan.pages} pages at {self.site.url}, {_count(self.plan.workers, 'worker')}"
        )
        for name in self.wanted:
            self.fleet.start(name)
        began = progress = time.time()
        fetched = 0
        while self.fleet.alive:
            moment = self._look()
            self.display.show(moment)
            if moment.status["fetched"] > fetched:
                fetched, progress = moment.status["fetched"], time.time()
            self._check(time.time() - progress)
            if self.plan.kill and not self.fleet.killed and fetched >= self.plan.pages / 2:
                self._kill(moment)
            time.sleep(0.05)
        self._check(0)
        return self._judge(began)

    def _look(self) -> Moment:
        status = self.site.status()
        try:
            with self.client.pipeline(transaction=False) as pipe:
                for keys in self.keys:
                    pipe.hlen(f"{keys.frontier}:requests")
                    pipe.zcard(f"{keys.frontier}:leases")
                counts = pipe.execute()
                known, leased = sum(counts[::2]), sum(counts[1::2])
        except redis.RedisError:  # a display may lack a figure
            known = leased = 0
        alive = self.fleet.alive
        states = {}
        for name in self.fleet.processes:
            running = "running" if name in status["agents"] else "starting"
            states[name] = "killed" if name in self.fleet.killed else running if name in alive else "done"
        return Moment(status, max(0, known - leased), leased, states)

    def _kill(self, moment: Moment) -> None:
        """The busiest worker dies, and another one is started."""
        counts = {name: moment.status["agents"].get(name, [0])[0] for name in self.fleet.alive}
        victim = max(counts, key=lambda name: (counts[name], name))
        self.fleet.kill(victim)
        another = f"worker-{len(self.fleet.processes) + 1}"
        self.fleet.start(another)
        self.display.say(
            f"kill -9 {victim} after {counts[victim]} pages; {another} starts; the leases end in {LEASE} s"
        )

    def _check(self, quiet: float) -> None:
        for name in self.fleet.failed:
            code = self.fleet.processes[name].returncode
            raise CrawlerError(f"{name} ended with exit code {code}: {self.fleet.last_line(name)}")
        if quiet > PATIENCE:
            waiting = ", ".join(self.fleet.alive)
            raise CrawlerError(f"no page for {PATIENCE:.0f} s, and {waiting} still running")

    def _judge(self, began: float) -> Verdict:
        if self.plan.kill and not self.fleet.killed:
            raise CrawlerError("the crawl was over before a worker could be killed: take more --pages")
        report = self.site.report()
        last = max((hit.time for hit in report.fetches), default=began)
        first = min((hit.time for hit in report.fetches), default=began)
        titles = titles_in_feeds(self.items)
        return Verdict(report, titles, self.fleet.killed, CONCURRENCY, max(0.1, last - first))


def _start_site(plan: Plan) -> SiteProcess:
    try:
        from tests.site import Options, SiteProcess
    except ImportError:
        raise CrawlerError("scrapy demo needs the project's tests/site folder: run it in the project's root") from None
    return SiteProcess(Options(pages=plan.pages, latency=LATENCY))


def _end_server(folder: Path) -> None:
    """Lets go of the embedded server and waits for its end, so that nobody writes into `folder` any more."""
    embedded.leave(folder)
    deadline = time.monotonic() + 5
    while (folder / ".scrapy" / "redis" / "server.pid").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def _environment(url: str, items: Path) -> dict[str, str]:
    return {
        "CRAWLER_ENV_FILE": "",  # the demo's settings are the demo's
        "CRAWLER_ALLOW_PRIVATE": "1",
        "REDIS_URL": url,
        "REDIS_KEY_PREFIX": PREFIX,
        "FRONTIER_RUN": "demo",
        "FRONTIER_SHARDS": _SHARDS,
        "FRONTIER_LEASE": str(LEASE),
        "FEED_DIR": str(items),
        "METRICS_ENABLED": "0",
        "DOWNLOAD_DELAY": "0",
        "CONCURRENT_REQUESTS": str(CONCURRENCY),
        "CONCURRENT_REQUESTS_PER_DOMAIN": str(CONCURRENCY),
    }
