"""Makes docs/dashboard.svg: a crawl with a death in it, seen by a real Prometheus, drawn from the panels' own queries.

``python -m tests.benchmarks.dashboard_picture`` takes two minutes. No Grafana takes part: deploy/grafana/preview.py
draws. Redis's own numbers are there if Debian's prometheus-redis-exporter is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.crew import Crew
from tests.site import SiteProcess
from tests.site.options import Options
from tests.support.project import PROJECT
from tests.support.prometheus import Prometheus
from tests.support.server import RedisServer, free_port, wait_for

SITE = Options(pages=2400, hosts=12, latency=0.02)


@contextmanager
def exporter(redis: RedisServer) -> Iterator[list[str]]:
    """Addresses of the exporter: one, or none where it is not installed."""
    binary = shutil.which("prometheus-redis-exporter")
    if binary is None:
        yield []
        return
    address = f"127.0.0.1:{free_port()}"
    words = [binary, "-redis.addr", redis.url, "-web.listen-address", address]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            yield [address]
        finally:
            process.kill()


def main() -> None:
    """The crawl and the picture."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, RedisServer() as redis, SiteProcess(SITE) as site:
        folder = Path(temporary)
        found = folder / "targets.json"
        settings = {"METRICS_SD_FILE": str(found), "METRICS_PORT": "0", "METRICS_LINGER": "5"}
        crew = Crew(site, redis.url, folder, DOWNLOAD_DELAY="0.25", CONCURRENT_REQUESTS_PER_DOMAIN="2", **settings)
        with exporter(redis) as exporters:
            jobs = [
                {"job_name": "crawler", "file_sd_configs": [{"files": [str(found)]}]},
                {"job_name": "redis", "static_configs": [{"targets": exporters}]},
            ]
            rules = [str(PROJECT / "deploy" / "prometheus" / "rules.yml")]
            timing = {"scrape_interval": "1s", "evaluation_interval": "1s"}
            with Prometheus(folder, {"global": timing, "rule_files": rules, "scrape_configs": jobs}) as prometheus:
                crew.start("worker-1", "worker-2", "worker-3")
                crew.fetched(SITE.pages // 3, 180)
                crew.kill("worker-2")
                wait_for(lambda: prometheus.value("max(crawler_frontier_workers{state='lost'})"), "it is lost", 60)
                crew.start("worker-4")
                crew.finish(240)
                minutes = (time.monotonic() - began) / 60
                draw = [sys.executable, "deploy/grafana/preview.py", f"http://127.0.0.1:{prometheus.port}"]
                subprocess.run([*draw, "docs/dashboard.svg", f"{minutes:.2f}"], cwd=PROJECT, check=True)
        crew.assert_complete(twice=SITE.pages)


if __name__ == "__main__":
    main()
