"""``make soak``: workers at full speed on an endless site; fails when memory grows or something is left over.

The site has so many chains of pages; each page links to the next of its chain, which is new, and to some that were
seen. So the queue stays as long as there are chains, while the number of pages grows for `--minutes`. Then the site
ends, the queue drains, and what is left in Redis is compared with the catalogue of keys.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import redis as redis_py

import crawler.keys
from tests.site.http import Connection, Request, Response
from tests.support.project import kill_started, project_env, start_scrapy
from tests.support.server import RedisServer

CHAINS, WORKERS, SAMPLES = 2000, 3, 60
# What may be left of a run that is over, besides the memory of what was seen.
LASTING = {"meta", "runs", "hosts", "robots", "workers", "replies", "due", "dead", "bye"}


class EndlessSite:
    """Serves pages /p/N; `open` is whether there is always another one."""

    def __init__(self) -> None:
        self.open, self.pages = True, 0
        self._loop, self._ready = asyncio.new_event_loop(), threading.Event()
        self.port = 0
        threading.Thread(target=self._run, daemon=True).start()
        self._ready.wait(10)

    def _run(self) -> None:
        async def begin() -> asyncio.Server:
            return await self._loop.create_server(lambda: Connection(self._answer, set()), "127.0.0.1", 0)

        server = self._loop.run_until_complete(begin())
        self.port = int(server.sockets[0].getsockname()[1])
        self._ready.set()
        self._loop.run_forever()

    def _answer(self, request: Request) -> Response:
        match = re.fullmatch(r"/p/(\d+)", request.target)
        if request.target != "/" and not match:
            return Response(404)
        self.pages += 1
        number = int(match[1]) if match else -1
        links = range(CHAINS) if number < 0 else range(max(0, number - 10), number)
        targets = [*links, number + CHAINS] if self.open and number >= 0 else links
        body = "".join(f'<a href="/p/{target}">x</a>' for target in targets)
        return Response(200, f"<html><title>Page {number}</title><body>{body}</body></html>".encode())


class Sample(NamedTuple):
    """Megabytes of all workers and of Redis, and pages so far."""

    workers: float
    redis: float
    pages: int
    queued: int


def look(pids: list[int], client: redis_py.Redis, site: EndlessSite) -> Sample:
    """A sample now."""
    resident = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status")
        if status.exists() and (match := re.search(r"VmRSS:\s+(\d+) kB", status.read_text())):
            resident += int(match[1])
    base = "{crawler:site:0}"
    queued = client.hlen(f"{base}:requests")
    return Sample(resident / 1024, client.info("memory")["used_memory"] / 1e6, site.pages, int(queued))


def grown(values: list[float]) -> float:
    """How much the last quarter is above the second one."""
    quarter = len(values) // 4
    return statistics.median(values[-quarter:]) - statistics.median(values[quarter : 2 * quarter])


def leftovers(client: redis_py.Redis) -> set[str]:
    """Keys that neither the catalogue nor the end of a run explains."""
    known = set(re.findall(r"^BASE:([a-z]+)", crawler.keys.__doc__ or "", re.MULTILINE))
    names = {key.decode().split("}:", 1)[-1].split(":")[0] for key in client.scan_iter(count=1000)}
    unknown = names - known - {"dedup", "audit"}
    return unknown | (names & known) - LASTING


def soak(minutes: float, folder: Path) -> list[str]:
    """What is wrong; empty when all is well."""
    site = EndlessSite()
    with RedisServer(appendonly=True) as server, server.client() as client:
        settings = {"DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "16", "LOG_LEVEL": "WARNING"}
        env = project_env(server.url, folder, BLOOM_CAPACITY="2000000", FRONTIER_RUN="soak", **settings)
        url = f"http://127.0.0.1:{site.port}/"
        workers = [
            start_scrapy(["crawl", "site", "-a", f"start={url}"], env | {"WORKER_NAME": f"w{n}"}, folder / f"w{n}.log")
            for n in range(WORKERS)
        ]
        samples = []
        print("minute  workers MB  Redis MB  pages  queued")
        for step in range(SAMPLES):
            time.sleep(60 * minutes / SAMPLES)
            samples.append(sample := look([worker.pid for worker in workers], client, site))
            if step % 3 == 2:
                print(f"{(step + 1) * minutes / SAMPLES:6.1f}  {sample.workers:10.1f}  {sample.redis:8.1f}  "
                      f"{sample.pages}  {sample.queued}", flush=True)  # fmt: skip
        site.open = False
        codes = [worker.wait(300) for worker in workers]
        drained = look([], client, site)
        print(f"drained: Redis {drained.redis:.1f} MB, {drained.pages} pages, {client.dbsize()} keys")
        more = {
            "workers": grown([sample.workers for sample in samples]),
            "Redis": grown([sample.redis for sample in samples]),
        }
        print(", ".join(f"{name} {value:+.1f} MB" for name, value in more.items()), "from quarter 2 to quarter 4")
        limits = {"workers": 0.1 * samples[-1].workers, "Redis": 0.1 * samples[-1].redis}
        faults = [f"{name} grew by {value:.1f} MB" for name, value in more.items() if value > limits[name]]
        if drained.redis > samples[-1].redis:
            faults.append("Redis holds more after the end than during the crawl")
        if left := leftovers(client):
            faults.append(f"left over in Redis: {sorted(left)}")
        if drained.queued or set(codes) != {0}:
            faults.append(f"{drained.queued} requests left, exit codes {codes}")
    return faults


def main() -> int:
    """Exit code 0 when memory is flat and nothing is left over."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition(":")[2].strip())
    parser.add_argument("--minutes", type=float, default=20)
    try:
        with tempfile.TemporaryDirectory() as folder:
            faults = soak(parser.parse_args().minutes, Path(folder))
    finally:
        kill_started()
    print("\n".join(faults) or "flat, and nothing left over")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
