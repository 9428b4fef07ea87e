"""The workers of one crawl in an end-to-end test: real processes, named, killed at will, judged by the site's books."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from crawler.demo.verdict import titles_in_feeds
from tests.site import Site, SiteProcess
from tests.support.project import project_env, start_scrapy
from tests.support.prometheus import Reply, get, targets
from tests.support.server import free_port, wait_for

CONCURRENCY = 8
TEST_SPIDERS = "crawler.spiders,tests.e2e.spiders"


class Crew:
    """Workers of `spider` on `site`, sharing the server at `redis_url`; items and logs go below `folder`.

    A worker's name is its User-Agent too, so that the site's books tell who fetched what. The pace is unlimited unless
    `settings` (environment variables) say otherwise.
    """

    def __init__(
        self, site: Site | SiteProcess, redis_url: str, folder: Path, *, spider: str = "site", **settings: str
    ) -> None:
        self.site, self.folder, self.spider = site, folder, spider
        pace = {"DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": str(CONCURRENCY)}
        usual = {"CONCURRENT_REQUESTS": str(CONCURRENCY), "FRONTIER_LEASE": "10", "CRAWLER_ENV_FILE": "", **pace}
        self.env = {**project_env(redis_url, folder), **usual, **settings}
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.ended: dict[str, float] = {}  # name → when first seen ended, seconds since the epoch

    def start(self, *names: str, **settings: str) -> None:
        """Starts one worker of each name."""
        for name in names:
            env = {**self.env, "WORKER_NAME": name, "USER_AGENT": name, **settings}
            arguments = ["crawl", self.spider, "-a", f"start={self.site.start}", "-s", f"SPIDER_MODULES={TEST_SPIDERS}"]
            self.workers[name] = start_scrapy(arguments, env, self.folder / f"{name}.log")
            self.ended.pop(name, None)

    def log(self, name: str) -> str:
        """A worker's log so far."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def kill(self, name: str) -> None:
        """kill -9."""
        self.workers[name].kill()
        self.workers[name].wait()

    def fetched(self, pages: int, seconds: float = 60) -> None:
        """Waits until the site has served that many different pages."""
        self.until(lambda: self.site.status()["fetched"] >= pages, f"{pages} pages fetched", seconds)

    def fetched_by(self, name: str) -> int:
        """Page fetches of one worker so far."""
        return int(self.site.status()["agents"].get(name, [0])[0])

    def until(self, condition: Callable[[], object], what: str, seconds: float = 60) -> None:
        """Waits for `condition`; fails at once when no worker is left to bring it about."""
        wait_for(lambda: condition() or not self.running(), what, seconds)
        assert condition(), f"all workers ended before: {what}\n{self._tails()}"

    def finish(self, seconds: float = 60) -> None:
        """Waits until all workers ended by themselves; those not killed must end with exit code 0."""
        deadline = time.monotonic() + seconds
        while running := self.running():
            assert time.monotonic() < deadline, f"{running} did not end within {seconds} s\n{self._tails()}"
            time.sleep(0.05)
        codes = {name: worker.returncode for name, worker in self.workers.items() if worker.returncode != -9}
        assert set(codes.values()) <= {0}, f"{codes}\n{self._tails()}"

    def running(self) -> list[str]:
        """Names of the workers that have not ended."""
        for name, worker in self.workers.items():
            if worker.poll() is not None:
                self.ended.setdefault(name, time.time())
        return [name for name, worker in self.workers.items() if worker.poll() is None]

    def _tails(self) -> str:
        return "\n".join(f"--- {name}\n" + "\n".join(self.log(name).splitlines()[-15:]) for name in self.workers)

    def assert_complete(self, twice: int = 0) -> None:
        """Every page fetched and its item in a feed; at most `twice` pages again, none forbidden."""
        report = self.site.report()
        titles = titles_in_feeds(self.folder / "items")
        assert report.missed == [], f"never fetched\n{self._tails()}"
        assert [p["url"] for p in report.truth["pages"] if p["title"] not in titles] == [], "no item in the feeds"
        again = {page: [(round(hit.time, 2), hit.agent) for hit in hits] for page, hits in report.twice.items()}
        assert len(again) <= twice, f"fetched twice: {again}"
        assert report.count("private") == 0


class Watched(Crew):
    """A crew whose workers enter themselves into a discovery file and linger until they were scraped."""

    def __init__(self, site: Site, redis_url: str, folder: Path, **settings: str) -> None:
        self.sd_file = folder / "targets.json"
        usual = {"METRICS_SD_FILE": str(self.sd_file), "METRICS_LINGER": "60", "METRICS_PORT": str(free_port())}
        super().__init__(site, redis_url, folder, **{**usual, **settings})

    def address(self, name: str) -> str:
        """Where a worker's endpoint is, once it is there."""
        wait_for(lambda: name in targets(self.sd_file) or self.workers[name].poll() is not None, f"{name} listens", 30)
        assert name in targets(self.sd_file), self.log(name)
        return targets(self.sd_file)[name]

    def ask(self, name: str, path: str) -> Reply:
        """One of a worker's paths."""
        return get(f"http://{self.address(name)}{path}")

    def lingers(self, name: str) -> None:
        """Waits until a worker's crawl is over and it waits for the last scrape."""
        self.until(lambda: "for the last scrape" in self.log(name), f"{name} lingers")
