"""The test site itself: its spellings, its books, its pace. A judge that errs makes every other test worthless."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import string
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

import pytest

from tests.site import Options, Report, Site, SiteProcess, plain
from tests.site.spellings import normal, spell
from tests.site.world import World

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/../%7Euser/1", "/~user/1"),
        ("/x/%2E%2e/list/3?utm_source=a&gclid=b", "/list/3"),
        ("/caf%c3%a9/1", "/café/1"),
        ("/find?q=1&page=2&", "/find?page=2&q=1"),
        ("/say?s=a+b", "/say?s=a%20b"),
        ("/%6cist/3?", "/list/3"),
        ("/list/.", "/list/"),
    ],
)
def test_equal_spellings(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/list/3", "/list/3/"),
        ("/Doc/1", "/doc/1"),
        ("/pick?v=a&v=b", "/pick?v=b&v=a"),
        ("/file/1%2Fa", "/file/1/a"),
        ("/flag?on", "/flag?on="),
        ("/read?id=1&ref=home", "/read?id=1"),
        ("/say?s=a+b", "/say?s=a%2Bb"),
    ],
)
def test_different_urls_stay_different(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def test_every_spelling_of_every_page_leads_to_it() -> None:
    world, rng = World(Options(pages=600, hosts=3)), random.Random(5)
    written = set()
    for page in range(600):
        for _ in range(10):
            url = spell(rng, "host.example", world.target(page))
            parts = urlsplit(url)
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            assert world.find(world.host(page), target) == page, url
            assert parts.scheme == "http"
            assert parts.hostname == "host.example"
            written.add(url)
    assert len(written) > 5000  # really other spellings, not the same one over and over


def test_equal_options_give_equal_sites() -> None:
    names = ["a.example", "b.example"]
    pages = [[list(World(Options(pages=50, hosts=2, seed=s)).hrefs(p, names)) for p in range(50)] for s in (7, 7, 8)]
    assert pages[0] == pages[1]
    assert pages[0] != pages[2]


def test_in_a_tree_only_the_parent_links_downwards() -> None:
    world = World(Options(pages=200, shape="tree"))
    for page in range(200):
        assert all(world.parent(ln.page) == page or ln.page <= page for ln in world.links(page) if ln.kind != "private")


def crawl(site: Site | SiteProcess) -> tuple[set[str], int]:
    """A crawler without any cleverness: every spelling is fetched; returns the titles seen and the requests made."""
    with ExitStack() as stack:
        connections = {name: stack.enter_context(connect(name)) for name in site.authorities}
        return _crawl(site, connections)


def number(authority: str) -> str:
    """``host:port`` without the port's leading zeros."""
    return re.sub(":0+", ":", authority.lower())


@contextmanager
def connect(authority: str) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(authority, timeout=10)
    try:
        yield connection
    finally:
        connection.close()


def _crawl(site: Site | SiteProcess, connections: dict[str, http.client.HTTPConnection]) -> tuple[set[str], int]:
    waiting, seen, titles = deque(site.start.split(",")), set(site.start.split(",")), set()
    requests = 0
    while waiting:
        url = waiting.popleft()
        parts = urlsplit(url)
        target = parts._replace(scheme="", netloc="", fragment="").geturl()
        for _ in range(2):  # a flaky page answers the second time
            connection = connections[number(parts.netloc)]
            connection.request("GET", quote(target, safe=string.printable), headers={"User-Agent": "plain"})
            response = connection.getresponse()
            body, requests = response.read().decode(), requests + 1
            if response.status != 503:
                break
        found = [unescape(href) for href in re.findall(r'href="([^"]*)"', body)]
        found += [unescape(href) for href in re.findall(r'content="0; url=([^"]*)"', body)]
        if location := response.getheader("Location"):
            found.append(location)
        titles |= set(re.findall(r"<title>(Page \d+)</title>", body))
        for link in (urljoin(url, href).partition("#")[0] for href in found):
            if number(urlsplit(link).netloc) in site.authorities and link not in seen and "/private/" not in link:
                seen.add(link)
                waiting.append(link)
    return titles, requests


@pytest.mark.parametrize(("shape", "hosts"), [("web", 1), ("tree", 1), ("web", 3)])
def test_every_page_can_be_reached_and_every_hit_is_booked(shape: str, hosts: int) -> None:
    options = Options(pages=120, shape=shape, hosts=hosts, slow_seconds=0.01, moved=0.1, redirects=0.1, flaky=0.05)
    with Site(options) as site:
        titles, requests = crawl(site)
        report = site.report()
        assert titles == {f"Page {n}" for n in range(120)}
        assert report.missed == []
        assert len(report.hits) == requests
        assert report.twice, "a crawler that does not canonicalise fetches pages again: the site must show it"
        assert report.agents == {"plain": len(report.fetches)}
        for kind in ("go", "redirect", "refresh", "error"):
            assert report.count(kind) > 0, kind
        assert site.status()["fetched"] == 120
        site.reset()
        assert site.report().fetched == set()


def test_report_counts_missed_twice_and_links() -> None:
    with Site(plain(pages=3, links=0)) as site:  # the root links to 1 and 2 twice each and to itself
        truth = site.truth()
    log = [[1.0, 0, "page", 0, "a"], [2.0, 0, "page", 1, "a"], [3.0, 0, "page", 1, "b"], [4.0, 0, "robots", -1, "b"]]
    report = Report.of(truth, {"log": log})
    assert report.missed == [truth["pages"][2]["url"]]
    assert {page: [hit.agent for hit in hits] for page, hits in report.twice.items()} == {1: ["a", "b"]}
    assert report.links_seen == 5 + 2  # of page 0 and page 1
    assert report.duplicates_avoided == 7 - 1
    assert report.count("robots") == 1


def test_as_a_process_it_serves_and_stops_with_its_parent() -> None:
    with SiteProcess(plain(pages=40, hosts=2, robots=0)) as site:
        assert len(site.authorities) == 2
        titles, _ = crawl(site)
        assert len(titles) == 40
        assert site.report().twice == {}
        assert site.truth()["start"] == site.start.split(",")
        site.reset()
        assert site.hits()["log"] == []
        assert site.process.stdin is not None
        site.process.stdin.close()
        assert site.process.wait(10) == 0


def test_host_names_in_any_case_and_port() -> None:
    with Site(plain(pages=30, spellings=1.0, hosts=2), names=["localhost", "127.0.0.2"]) as site:
        port = site.authorities[0].partition(":")[2]
        with connect(f"localhost:{port}") as connection:
            for host in ("localhost", "LOCALHOST", "LocalHost"):
                connection.request("GET", "/", headers={"Host": f"{host}:0{port}"})
                assert "<title>Page 0</title>" in connection.getresponse().read().decode()
            connection.request("GET", "/", headers={"Host": "other.example"})
            response = connection.getresponse()
            assert (response.status, response.read()) == (404, b"unknown host")
        assert site.report().count("page") == 3


def test_robots_and_latency() -> None:
    with Site(plain(pages=20, latency=0.2, crawl_delay=2)) as site, connect(site.authorities[0]) as connection:
        began = time.monotonic()
        connection.request("GET", "/robots.txt")
        text = connection.getresponse().read().decode()
        assert time.monotonic() - began >= 0.2
        assert "Disallow: /private/" in text
        assert "Crawl-delay: 2" in text
        assert list(site.hits()["robots"]) == site.authorities
        connection.request("GET", "/private/0")
        assert connection.getresponse().read()
        assert site.report().count("private") == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pages", "0"], "--pages 0: must be at least 1"),
        (["--hosts", "5", "--pages", "2"], "--hosts 5: must be at most"),
        (["--shape", "ring"], "--shape ring: must be one of web, tree"),
        (["--flaky", "2"], "--flaky 2.0: must be between 0 and 1"),
        (["--names", "a,b"], "--names a,b: must be one name for each of the 1 hosts"),
    ],
)
def test_bad_flags_are_one_line(flags: list[str], message: str) -> None:
    command = [sys.executable, "-m", "tests.site", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_a_taken_port_is_one_line() -> None:
    with Site(plain(pages=1)) as site:
        port = site.authorities[0].rpartition(":")[2]
        with pytest.raises(ValueError, match=f"--port {port}: cannot listen on 127.0.0.1"):
            Site(plain(pages=1), port=int(port))


def seconds(pid: int) -> float:
    """Processor time that a process has used: other processes of the machine do not count."""
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_it_is_never_the_slowest_part() -> None:
    """At least 2,000 pages per second of its own processor time; asked by a client that writes all at once."""
    with SiteProcess(Options(pages=2000, slow=0, flaky=0, redirects=0, refreshes=0, moved=0)) as site:
        targets = [page["url"].removeprefix(site.url.rstrip("/")) for page in site.truth()["pages"]]
        began = seconds(site.process.pid)
        sent = "".join(f"GET {target} HTTP/1.1\r\nHost: {site.authorities[0]}\r\n\r\n" for target in targets)
        connection = socket.create_connection(("127.0.0.1", int(site.authorities[0].partition(":")[2])))
        connection.sendall(sent.encode())
        bodies, tail = 0, b""
        while bodies < 2000:
            data = tail + connection.recv(1 << 20)
            bodies, tail = bodies + data.count(b"</html>"), data[-6:]
        rate = 2000 / (seconds(site.process.pid) - began)
        connection.close()
        print(json.dumps({"pages_per_second": round(rate)}))
        assert rate > 2000
