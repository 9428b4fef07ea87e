"""Metrics of real workers: what is documented is shown, sums are exact to the page, probes tell the truth."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.crew import Watched
from tests.site import Site
from tests.support.project import PROJECT, clean_env
from tests.support.prometheus import Series, get, promtool, scrape, targets
from tests.support.server import RedisServer, wait_for

Sites = Callable[..., Site]


def documented() -> set[str]:
    """Metrics in the table of docs/metrics.md."""
    return set(re.findall(r"^\| `(crawler_\w+)` \|", (PROJECT / "docs" / "metrics.md").read_text(), re.MULTILINE))


def test_what_is_documented_is_shown_and_the_reverse(site: Sites, redis_url: str, tmp_path: Path) -> None:
    crew = Watched(site(pages=60), redis_url, tmp_path, METRICS_TEXTFILE=str(tmp_path))
    crew.start("w1")
    address = crew.address("w1")
    crew.lingers("w1")
    text = get(f"http://{address}/metrics").text
    series, report = Series.of(text), crew.site.report()
    crew.finish()

    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in series.names if name.startswith("crawler_")}
    assert shown == documented()
    assert {sample["spider"] for _, labels in series if (sample := dict(labels)).keys() & {"spider"}} == {"site"}
    assert series.sum("crawler_responses_total") == len(report.hits)
    assert series.sum("crawler_download_seconds_count") == len(report.hits)
    assert series.sum("crawler_frontier_exchange_seconds_count") > 2
    assert series.sum("crawler_items_total", outcome="scraped") == 60
    assert series.sum("crawler_frontier_finished") == series.sum("crawler_redis_up") == 1
    assert series.sum("crawler_frontier_queued") == series.sum("crawler_worker_requests") == 0
    assert series.sum("crawler_bloom_elements") >= 60
    assert series.sum("crawler_worker_info", worker="w1") == 1

    assert targets(crew.sd_file) == {}, "who leaves takes its entry out"
    kept = Series.of((tmp_path / "crawler_w1.prom").read_text())
    assert kept.sum("crawler_items_total", outcome="scraped", worker="w1") == 60
    checked = promtool("check", "metrics", stdin=text)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_workers_on_one_machine_take_a_port_each(site: Sites, redis_url: str, tmp_path: Path) -> None:
    crew = Watched(site(pages=20, easy=True, latency=0.2), redis_url, tmp_path, FRONTIER_RUN="ports")
    crew.start("w1", "w2")
    addresses = [crew.address(name) for name in ("w1", "w2")]
    assert len(set(addresses)) == 2
    reply = get(f"http://{addresses[0]}/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
    assert reply.text.endswith("# EOF\n")
    for name in ("w1", "w2"):
        crew.lingers(name)
    fetched = [scrape(address).sum("crawler_items_total", outcome="scraped") for address in addresses]
    crew.finish()
    assert sum(fetched) == 20
    logs = crew.log("w1") + crew.log("w2")
    assert len(re.findall(r"Metrics: http://127\.0\.0\.1:\d+/metrics$", logs, re.MULTILINE)) == 1
    taken = f"(METRICS_PORT={crew.env['METRICS_PORT']} is taken)"
    assert logs.count(taken) == 1


def test_health_follows_the_exchange(site: Sites, tmp_path: Path) -> None:
    with RedisServer() as server:
        crew = Watched(site(pages=2000, easy=True, latency=2), server.url, tmp_path, DOWNLOAD_DELAY="0.2")
        crew.start("w1")
        crew.fetched(3)
        for path in ("/healthz", "/readyz", "/livez"):
            assert crew.ask("w1", path).status == 200
        before = Series.of(crew.ask("w1", "/metrics").text)
        assert before.sum("crawler_redis_up") == 1
        assert before.sum("crawler_frontier_workers", state="live") == 1

        server.freeze()
        frozen = time.monotonic()
        wait_for(lambda: crew.ask("w1", "/healthz").status == 503, "503 while Redis is frozen", 15, every=0.2)
        assert crew.ask("w1", "/readyz").status == 503
        assert crew.ask("w1", "/livez").status == 200
        assert time.monotonic() - frozen > 5, "a short silence is no illness"
        asked = time.monotonic()
        during = Series.of(crew.ask("w1", "/metrics").text)
        assert time.monotonic() - asked < 4, "a scrape waits for Redis a second or two, not for ever"
        assert during.sum("crawler_redis_up") == 0
        assert "crawler_frontier_workers" not in during.names, "better no value than an old one"

        server.resume()
        wait_for(lambda: crew.ask("w1", "/healthz").status == 200, "healthy again", 15, every=0.2)
        address = crew.address("w1")
        crew.fetched(crew.site.status()["fetched"] + 1)  # a page is under way, for two seconds
        crew.workers["w1"].terminate()  # from here on until the pages under way are through
        wait_for(lambda: get(f"http://{address}/readyz").status == 503, "not ready while it closes", 1.5)
        assert get(f"http://{address}/healthz").text == "ok\n"
        crew.finish(20)


def test_a_signal_ends_the_lingering(site: Sites, redis_url: str, tmp_path: Path) -> None:
    crew = Watched(site(pages=5, easy=True), redis_url, tmp_path)
    crew.start("w1")
    crew.lingers("w1")
    assert crew.ask("w1", "/readyz").status == 503
    assert crew.ask("w1", "/healthz").status == 200
    began = time.monotonic()
    crew.workers["w1"].send_signal(signal.SIGTERM)
    crew.finish(20)
    assert time.monotonic() - began < 5
    assert targets(crew.sd_file) == {}


def test_nobody_is_waited_for_who_never_came(site: Sites, redis_url: str, tmp_path: Path) -> None:
    more = {"METRICS_LINGER": "0.5", "DOWNLOAD_DELAY": "0.3", "METRICS_TEXTFILE": str(tmp_path)}
    crew = Watched(site(pages=4, easy=True), redis_url, tmp_path, **more)
    crew.start("w1")
    crew.finish()
    assert "Metrics:" in crew.log("w1")
    assert "for the last scrape" not in crew.log("w1")
    kept = Series.of((tmp_path / "crawler_w1.prom").read_text())
    assert kept.sum("crawler_items_total", outcome="scraped") == 4
    assert kept.names & {"crawler_worker_info", "crawler_frontier_workers", "crawler_frontier_queued"} == set()


def test_nothing_is_served_when_switched_off(site: Sites, redis_url: str, tmp_path: Path) -> None:
    crew = Watched(site(pages=5, easy=True), redis_url, tmp_path, METRICS_ENABLED="0")
    crew.start("w1")
    crew.finish()
    assert "Metrics:" not in crew.log("w1")
    assert not crew.sd_file.exists()


def test_an_unusable_address_is_one_line(site: Sites, redis_url: str, tmp_path: Path) -> None:
    crew = Watched(site(pages=5, easy=True), redis_url, tmp_path, METRICS_HOST="203.0.113.77", METRICS_LINGER="0")
    crew.start("w1")
    assert crew.workers["w1"].wait(30) == 1
    (line,) = crew.log("w1").splitlines()
    assert line.startswith("METRICS_HOST=203.0.113.77: is no address of this machine")


TWICE = """
import asyncio, re, sys
from urllib.request import urlopen
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor

async def scraped(crawl):
    items = None
    while not crawl.done():
        await asyncio.sleep(0.05)
        try:
            text = await asyncio.to_thread(lambda: urlopen(sys.argv[2]).read().decode())
            items = re.search('crawler_items_total{outcome="scraped".*} (.*)', text)[1]
        except OSError:
            pass
    return items

async def main():
    for number in (1, 2):
        runner = AsyncCrawlerRunner(get_project_settings())
        print(await scraped(runner.crawl("site", start=sys.argv[1])), flush=True)
    reactor.stop()

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
from twisted.internet import reactor
from scrapy.utils.defer import deferred_from_coro
reactor.callWhenRunning(lambda: deferred_from_coro(main()).addErrback(lambda f: (f.printTraceback(), reactor.stop())))
reactor.run()
"""


def test_a_second_crawl_in_one_process_counts_anew_on_the_same_port(
    site: Sites, redis_url: str, tmp_path: Path
) -> None:
    crew = Watched(site(pages=8, easy=True), redis_url, tmp_path, SCHEDULER_FLUSH_ON_START="1")
    arguments = [crew.site.start, f"http://127.0.0.1:{crew.env['METRICS_PORT']}/metrics"]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TWICE), *arguments],
        cwd=PROJECT, env=clean_env(crew.env), capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["8.0", "8.0"], done.stderr[-3000:]
