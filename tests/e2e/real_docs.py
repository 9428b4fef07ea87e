"""A documentation tree that nobody here wrote, crawled by three workers and searched by an independent tool.

``python -m tests.e2e.real_docs [PACKAGE]`` downloads the Debian package (python3.11-doc), serves its HTML locally and
compares three sets of pages: what the crawl's items name, what the server was asked for, and what a graph search
with the standard library alone finds. Needs ``apt-get`` and ``dpkg-deb``; installs nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from tests.support.project import kill_started, project_env, start_scrapy
from tests.support.server import RedisServer

#: package → folder of its HTML, and the page to begin at
PACKAGES = {
    "python3.11-doc": ("usr/share/doc/python3.11/html", "/"),
    "debian-reference-en": ("usr/share/debian-reference", "/index.en.html"),
}


class Outcome(NamedTuple):
    """Paths of HTML pages, without query and fragment; `fetches` counts the server's answers by path."""

    searched: set[str]
    crawled: set[str]
    fetches: Counter[str]
    seconds: float


def unpack(package: str, folder: Path) -> Path:
    """Downloads `package` and unpacks it below `folder`; returns its HTML folder. RuntimeError when it cannot."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"{tool} is not installed: this needs a Debian or Ubuntu system")
    done = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True, check=False)
    archives = list(folder.glob("*.deb"))
    if done.returncode or not archives:
        raise RuntimeError(f"apt-get download {package}: {done.stderr.strip().splitlines()[-1:]}")
    subprocess.run(["dpkg-deb", "-x", str(archives[0]), str(folder / "tree")], check=True)
    return folder / "tree" / PACKAGES[package][0]


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fetches: Counter[str]

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if str(code) == "200" and self.headers.get("User-Agent", "").startswith("worker"):
            self.fetches[urlsplit(self.path).path] += 1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Says nothing."""


@contextmanager
def serve(root: Path) -> Iterator[tuple[str, Counter[str]]]:
    """A web server of `root`: its URL, and how often the workers fetched each path."""
    fetches: Counter[str] = Counter()
    handler = type("Handler", (_Handler,), {"fetches": fetches})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(root)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", fetches
    finally:
        server.shutdown()
        server.server_close()


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("a", "area") and values.get("href"):
            self.found.append(str(values["href"]).strip())
        elif tag == "base" and values.get("href"):
            self.base = str(values["href"])


def search(root: Path, start: str) -> set[str]:
    """Paths of the HTML pages that links lead to from `start`, read from the files without any crawler."""
    seen, waiting = {start}, deque([start])
    pages = set()
    while waiting:
        path = waiting.popleft()
        file = root / unquote(path).lstrip("/")
        file = file / "index.html" if path.endswith("/") else file
        if not file.is_file() or file.suffix not in (".html", ".htm"):
            continue
        pages.add(path)
        links = _Links()
        links.feed(file.read_text(encoding="utf-8", errors="replace"))
        for href in links.found:
            url = urlsplit(urldefrag(urljoin(urljoin(f"http://docs{path}", links.base), href)).url)
            if (url.scheme, url.netloc) == ("http", "docs") and url.path not in seen:
                seen.add(url.path)
                waiting.append(url.path)
    return pages


def crawl(url: str, redis_url: str, folder: Path, workers: int = 3) -> set[str]:
    """Paths of the pages that `workers` worker processes bring home as items."""
    pace = {"DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "16", "CRAWLER_ENV_FILE": ""}
    env = project_env(redis_url, folder, FRONTIER_RUN="docs", **pace)
    processes = []
    for number in range(workers):
        own = {"WORKER_NAME": f"worker-{number}", "USER_AGENT": f"worker-{number}"}
        log = folder / f"worker-{number}.log"
        processes.append(start_scrapy(["crawl", "site", "-a", f"start={url}"], {**env, **own}, log))
    for process in processes:
        if code := process.wait(600):
            raise RuntimeError(f"a worker ended with exit code {code}: logs in {folder}")
    found = set()
    for feed in (folder / "items").rglob("*.jsonl"):
        found |= {urlsplit(json.loads(line)["url"]).path for line in feed.read_text("utf-8").splitlines()}
    return found


def run(package: str, folder: Path, redis_url: str) -> Outcome:
    """Everything, below `folder`."""
    root = unpack(package, folder)
    start = PACKAGES[package][1]
    searched = search(root, start)
    with serve(root) as (url, fetches):
        began = time.monotonic()
        crawled = crawl(url + start[1:], redis_url, folder)
        seconds = time.monotonic() - began
    return Outcome(searched, crawled, Counter({p: n for p, n in fetches.items() if p in searched | crawled}), seconds)


def main(package: str) -> int:
    """Prints the figures; 0 when the sets are equal and nothing was fetched twice."""
    with tempfile.TemporaryDirectory() as name, RedisServer() as server:
        try:
            outcome = run(package, Path(name), server.url)
        finally:
            kill_started()
    twice = sorted(path for path, times in outcome.fetches.items() if times > 1)
    print(f"{package}: a graph search finds {len(outcome.searched)} pages")
    print(f"three workers find {len(outcome.crawled)} in {outcome.seconds:.0f} s")
    print("only searched:", sorted(outcome.searched - outcome.crawled)[:10])
    print("only crawled:", sorted(outcome.crawled - outcome.searched)[:10])
    print("fetched twice:", twice[:10])
    return int(outcome.searched != outcome.crawled or bool(twice))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["python3.11-doc"]))
