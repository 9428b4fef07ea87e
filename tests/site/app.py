"""The site without sockets: answers requests for the pages of a :class:`World` and books every hit.

========================= ==========================================================================
path                      answer
========================= ==========================================================================
``/__truth__``            JSON: start, hosts, links, classes, pages [{id, url, title, parent, trait, links, items}]
``/__hits__``             JSON: log [[time, host, kind, page, agent]], pages {id: [time]}, robots {host: [time]},
                          counts {kind: n}
``/__status__``           JSON: pages, fetched, links, agents {name: [fetches, last time]}: small, for progress
``/__reset__``            forgets all hits
========================= ==========================================================================
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from html import escape
from typing import Any

from tests.site.http import Request, Response
from tests.site.report import Hit
from tests.site.world import MARK, World, item, moved_page, title

_JSON = "application/json"
_PORT = re.compile(r":0*(\d*)$")
_NAME = re.compile(r"[a-z0-9.-]+(:\d+)?$")
# What no crawler may follow: another site, a mail address, a script.
_OUTSIDE = "".join(
    f'<a href="{url}">x</a>' for url in ("http://elsewhere.invalid/", "mailto:a@b.invalid", "javascript:x()")
)


class Application:
    """Answers requests: the site without sockets. `authorities` are ``host:port`` by host number."""

    def __init__(self, world: World, authorities: list[str]) -> None:
        self.world, self.options, self.authorities = world, world.options, authorities
        self._numbers = {name: number for number, name in enumerate(authorities)}
        self._cache: dict[tuple[int, str], bytes] = {}
        self._links = {
            page: sum(ln.kind in ("page", "go") for ln in world.links(page)) for page in range(self.options.pages)
        }
        self.delays: dict[int, float] = {}  # host → seconds before each answer of it
        self.reset()

    def reset(self) -> None:
        """Forgets all hits; flaky pages fail again."""
        self.log: list[Hit] = []
        self._failed: set[int] = set()
        self._agents: dict[str, list[float]] = {}
        self._fetched: set[int] = set()

    def __call__(self, request: Request) -> Response:
        """The answer to `request`; books the hit."""
        if request.target.startswith("/__"):
            return self._admin(request.target)
        request = request._replace(host=_PORT.sub(_port, request.host))
        host = self._numbers.get(request.host, 0 if self.options.hosts == 1 else -1)
        if host < 0:
            return Response(404, b"unknown host")
        kind, page, response = self._content(host, request)
        self._book(Hit(time.time(), host, "head" if request.method == "HEAD" else kind, page, request.agent))
        return response._replace(delay=response.delay + self.options.latency + self.delays.get(host, 0.0))

    def _content(self, host: int, request: Request) -> tuple[str, int, Response]:
        page = self.world.find(host, request.target)
        if page is not None:
            kind, response = self._page(page, request)
            return kind, page, response
        path = request.target.partition("?")[0]
        if path == "/robots.txt":
            return "robots", -1, self._robots()
        target = moved_page(request.target)
        if target is not None and target < self.options.pages and self.world.host(target) == host:
            return "go", target, Response(301, location=self.world.target(target))
        if path.startswith("/private/"):
            return "private", -1, Response(200, b"<title>private</title>")
        if path == "/calendar" and self.options.traps:
            return "trap", -1, _calendar(request.target)
        return "unknown", -1, Response(404, b"<title>not found</title>")

    def _page(self, page: int, request: Request) -> tuple[str, Response]:
        trait = self.world.trait(page)
        if trait in ("redirects", "refreshes") and MARK not in request.target:
            return self._elsewhere(trait, self.world.target(page))
        if trait == "flaky" and request.method == "GET" and page not in self._failed:
            self._failed.add(page)
            return "error", Response(503, b"<title>try again</title>")
        delay = self.options.slow_seconds if trait == "slow" else 0.0
        return "page", Response(200, self._html(page, request.host), delay=delay)

    def _elsewhere(self, trait: str, target: str) -> tuple[str, Response]:
        goal = f"{target}{'&' if '?' in target else '?'}{MARK}"
        if trait == "redirects":
            return "redirect", Response(302, location=goal)
        text = f'<html><head><meta http-equiv="refresh" content="0; url={escape(goal)}"></head></html>'
        return "refresh", Response(200, text.encode())

    def _html(self, page: int, host: str) -> bytes:
        key = page, host
        if key not in self._cache:
            # A site of one host may be known by any name (localhost, a container's): its links follow the asker's.
            own = [host] if self.options.hosts == 1 and _NAME.match(host) else self.authorities
            self._cache[key] = _render(self.world, page, own)
        return self._cache[key]

    def _robots(self) -> Response:
        if not self.options.robots:
            return Response(404, b"")
        text = "User-agent: *\nDisallow: /private/\n"
        if self.options.crawl_delay:
            text += f"Crawl-delay: {self.options.crawl_delay:g}\n"
        return Response(200, text.encode(), "text/plain")

    def _book(self, hit: Hit) -> None:
        self.log.append(hit)
        if hit.kind == "page":
            self._fetched.add(hit.page)
            agent = self._agents.setdefault(hit.agent, [0, 0.0])
            agent[0] += 1
            agent[1] = hit.time

    def _admin(self, target: str) -> Response:
        if target == "/__reset__":
            self.reset()
        documents = {"/__truth__": self.truth, "/__hits__": self.hits, "/__status__": self.status, "/__reset__": dict}
        make = documents.get(target)
        if make is None:
            return Response(404, b"there are /__truth__ /__hits__ /__status__ /__reset__")
        return Response(200, json.dumps(make()).encode(), _JSON)

    def truth(self) -> dict[str, Any]:
        """The document of ``/__truth__``."""
        return self.world.truth(self.authorities)

    def hits(self) -> dict[str, Any]:
        """The document of ``/__hits__``."""
        log = list(self.log)
        pages: dict[str, list[float]] = {}
        robots: dict[str, list[float]] = {}
        for hit in log:
            if hit.kind == "page":
                pages.setdefault(str(hit.page), []).append(hit.time)
            elif hit.kind == "robots":
                robots.setdefault(self.authorities[hit.host], []).append(hit.time)
        return {"log": log, "pages": pages, "robots": robots, "counts": Counter(hit.kind for hit in log)}

    def status(self) -> dict[str, Any]:
        """The document of ``/__status__``."""
        fetched = list(self._fetched)
        agents = {name: list(figures) for name, figures in list(self._agents.items())}
        links = sum(self._links[page] for page in fetched)
        return {"pages": self.options.pages, "fetched": len(fetched), "links": links, "agents": agents}


def _port(match: re.Match[str]) -> str:
    """The port of a Host header without leading zeros; the default port is left away."""
    return f":{match[1]}" if match[1] not in ("", "80") else ""


def _render(world: World, page: int, authorities: list[str]) -> bytes:
    links = "".join(f'<li><a href="{escape(href)}">link</a></li>' for href in world.hrefs(page, authorities))
    links += _OUTSIDE if page == 0 else ""
    items = "".join(f'<article class="item"><h2>{item(page, n)}</h2></article>' for n in range(world.options.items))
    text = f'<!doctype html><html><head><meta charset="utf-8"><title>{title(page)}</title></head>'
    return f"{text}<body><h1>{title(page)}</h1>{items}<ul>{links}</ul></body></html>".encode()


def _calendar(target: str) -> Response:
    match = re.search(r"month=(\d{1,9})", target)
    month = int(match[1]) if match else 1
    return Response(200, f'<title>Month {month}</title><a href="/calendar?month={month + 1}">next</a>'.encode())
