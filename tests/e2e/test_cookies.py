"""Pinned cookie jars: a site that shows its pages to who is logged in, three workers, one of them killed."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast

import pytest

from tests.e2e.crew import Crew
from tests.site import Site

PAGES = 40
NAMES = ("w1", "w2", "w3")


class Shop:
    """``/C/login`` gives customer C a cookie, ``/C/N`` shows page N with it, and the login form without."""

    def __init__(self) -> None:
        self.shown: dict[str, list[str]] = defaultdict(list)  # path → who got the page
        self.refused: list[str] = []  # who was not logged in
        self.agents: dict[str, set[str]] = defaultdict(set)  # customer → who asked with its cookie
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.start = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, cookie: str, agent: str) -> tuple[int, str, str]:
        """Status, body and the cookie to set."""
        customer, _, page = path.removeprefix("/").partition("/")
        if page == "login":
            return 200, "<title>hello</title>", f"customer={customer}"
        if not page.isdigit():
            return 404, "", ""
        if cookie != f"customer={customer}":
            self.refused.append(agent)
            return 200, "<title>login</title>", ""
        self.shown[path].append(agent)
        self.agents[customer].add(agent)
        time.sleep(0.1)
        links = "".join(f'<a href="{n}">x</a>' for n in (2 * int(page) + 1, 2 * int(page) + 2) if n < PAGES)
        return 200, f"<title>{path}</title>{links}", ""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = self.headers
                status, body, cookie = shop.answer(self.path, headers.get("Cookie", ""), headers.get("User-Agent", ""))
                self.send_response(status)
                self.send_header("Content-Type", "text/html")
                if cookie:
                    self.send_header("Set-Cookie", f"{cookie}; Path=/")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as running:
        yield running


def crew_of(shop: Shop, redis_url: str, folder: Path, **settings: str) -> Crew:
    return Crew(cast("Site", shop), redis_url, folder, spider="jars", CONCURRENT_REQUESTS="4", **settings)


def titles(folder: Path) -> set[str]:
    """Of the pages that gave an item."""
    return {json.loads(line)["title"] for feed in folder.rglob("*.jsonl") for line in feed.read_text().splitlines()}


EVERY_PAGE = {f"/{customer}/{page}" for customer in range(3) for page in range(PAGES)}


@pytest.mark.slow
def test_a_jar_stays_with_one_worker_and_moves_as_a_whole_when_it_dies(
    shop: Shop, redis_url: str, tmp_path: Path
) -> None:
    crew = crew_of(shop, redis_url, tmp_path, FRONTIER_PIN_COOKIEJARS="1", FRONTIER_LEASE="5")
    crew.start(*NAMES)
    crew.until(lambda: len(shop.agents) == 3 and min(map(len, list(shop.shown.values()))) > 0, "all logged in")
    crew.until(lambda: len(shop.shown) > 30, "a fourth of the pages")
    assert shop.refused == [], "a worker without the cookie asked for a page"
    assert {len(agents) for agents in shop.agents.values()} == {1}
    victim = next(iter(shop.agents["0"]))
    crew.kill(victim)
    crew.finish(90)
    assert titles(tmp_path / "items") == EVERY_PAGE
    heirs = {customer: agents - {victim} for customer, agents in shop.agents.items()}
    assert max(map(len, heirs.values())) == 1, f"a jar went to two: {heirs}"
    assert 0 < len(shop.refused) <= 3 * PAGES


@pytest.mark.slow
def test_without_pins_some_pages_are_asked_for_without_the_cookie(shop: Shop, redis_url: str, tmp_path: Path) -> None:
    crew = crew_of(shop, redis_url, tmp_path)
    crew.start(*NAMES)
    crew.finish(90)
    assert titles(tmp_path / "items") == EVERY_PAGE
    assert shop.refused
