"""The site without its server: which pages exist, who links to whom, and which URL means which page.

Pages come in pairs that differ in one thing a canonicaliser must *not* fold (a trailing slash, the case of a path, an
escaped slash, the order of a repeated parameter ...), and links are written in spellings it *must* fold. So a crawl
that misses a page folded too much, and one that fetches a page twice folded too little.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from tests.site import spellings
from tests.site.options import Options

TRAITS = ("redirects", "refreshes", "moved", "slow", "flaky")
MARK = "utm_source=redirect"  #: a page that redirects inside its class is served once its URL carries this


class Link(NamedTuple):
    """A link as a class of URLs: `kind` is page, go (moves to the page), private, trap."""

    kind: str
    page: int


class World:
    """The pages and links of one :class:`Options`. Everything is computed from the options, nothing is stored."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._keys = {(self.host(i), *spellings.normal(self.target(i))): i for i in range(options.pages)}
        assert len(self._keys) == options.pages, "two pages share a URL class"

    def host(self, page: int) -> int:
        """Number of the host that serves `page`."""
        return page % self.options.hosts

    def parent(self, page: int) -> int | None:
        """The page that links to `page` in the tree; None for the root."""
        return (page - 1) // self.options.branching if page else None

    def children(self, page: int) -> range:
        """The pages below `page` in the tree."""
        first = page * self.options.branching + 1
        return range(min(first, self.options.pages), min(first + self.options.branching, self.options.pages))

    def trait(self, page: int) -> str:
        """What is difficult about `page`: one of TRAITS, or "" for nothing. The hosts' first pages are plain."""
        if page < self.options.hosts:
            return ""
        draw = random.Random(self.options.seed * 7_368_787 + page).random()
        for name in TRAITS:
            draw -= getattr(self.options, name)
            if draw < 0:
                return name
        return ""

    def target(self, page: int) -> str:
        """Canonical path and query of `page`."""
        group, member = divmod(page // self.options.hosts, 2)
        if not group:
            return ("/", "/index.html")[member]
        return _PAIRS[group % len(_PAIRS)][member].replace("#", str(group))

    def find(self, host: int, target: str) -> int | None:
        """The page that a raw request target means on `host`, in whichever spelling; None if there is none."""
        return self._keys.get((host, *spellings.normal(target)))

    def links(self, page: int) -> list[Link]:
        """The links of `page`, each child twice; a page that is `moved` is only linked through /go/N."""
        options = self.options
        rng = random.Random(options.seed * 1_000_003 + page)
        targets = [child for child in self.children(page) for _ in (0, 1)]
        targets += [up for up in (0, self.parent(page)) if up is not None]
        if options.shape == "web":
            targets += [rng.randrange(options.pages) for _ in range(options.links)]
        found = [Link("go" if self.trait(target) == "moved" else "page", target) for target in targets]
        rng.shuffle(found)
        if options.robots and page % 10 == 0:
            found.append(Link("private", page))
        if options.traps:
            found.append(Link("trap", 0))
        return found

    def followed(self, page: int) -> int:
        """How many of its links a crawler follows: not those into a trap or past robots.txt."""
        return sum(link.kind in ("page", "go") for link in self.links(page))

    def hrefs(self, page: int, authorities: list[str]) -> Iterator[str]:
        """The links of `page` as written in its HTML; `authorities` are ``host:port`` by host number."""
        rng = random.Random(self.options.seed * 15_485_863 + page)
        for link in self.links(page):
            target = self._target_of(link)
            other = link.kind in ("page", "go") and rng.random() < self.options.spellings
            host = self.host(link.page if link.kind != "trap" else page)
            if other:
                yield spellings.spell(rng, authorities[host], target)
            elif host == self.host(page):
                yield target
            else:
                yield f"http://{authorities[host]}{target}"

    def _target_of(self, link: Link) -> str:
        if link.kind == "page":
            return self.target(link.page)
        return {"go": f"/go/{link.page}", "private": f"/private/{link.page}", "trap": "/calendar?month=1"}[link.kind]

    def truth(self, authorities: list[str]) -> dict[str, Any]:
        """All that a crawl should find, as plain data: see ``/__truth__`` in server.py."""
        pages = [self._describe(page, authorities) for page in range(self.options.pages)]
        moved = sum(page["trait"] == "moved" for page in pages)
        return {
            "start": [f"http://{name}/" for name in authorities],
            "hosts": authorities,
            "pages": pages,
            "links": sum(page["links"] for page in pages),
            "classes": len(pages) + moved,
        }

    def _describe(self, page: int, authorities: list[str]) -> dict[str, Any]:
        return {
            "id": page,
            "url": f"http://{authorities[self.host(page)]}{self.target(page)}",
            "title": title(page),
            "parent": self.parent(page),
            "trait": self.trait(page),
            "links": self.followed(page),
            "items": [item(page, number) for number in range(self.options.items)],
        }


def title(page: int) -> str:
    """Text of the page's <title> and <h1>: names the page, whatever its URL."""
    return f"Page {page}"


def item(page: int, number: int) -> str:
    """Name of the page's item `number`."""
    return f"Item {page}.{number}"


# "#" stands for the pair's number. Both members are canonical: parameters sorted, escapes in capitals.
_PAIRS = (
    ("/list/#", "/list/#/"),
    ("/Doc/#", "/doc/#"),
    ("/find?q=#", "/find?page=2&q=#"),
    ("/pick?n=#&v=a&v=b", "/pick?n=#&v=b&v=a"),
    ("/file/#%2Fa", "/file/#/a"),
    ("/caf%C3%A9/#", "/cafe/#"),
    ("/flag?n=#&on", "/flag?n=#&on="),
    ("/read?id=#", "/read?id=#&ref=home"),
    ("/~user/#", "/user/#"),
    ("/item?category=c1&id=#", "/item?category=c2&id=#"),
    ("/say?n=#&s=a%20b", "/say?n=#&s=a%2Bb"),
    ("/dir/#;v=1", "/dir/#;v=2"),
)

_GO = re.compile(r"/go/(\d+)$")


@lru_cache(maxsize=100_000)
def moved_page(target: str) -> int | None:
    """The N of a ``/go/N`` target, in whichever spelling."""
    match = _GO.match(spellings.normal(target)[0])
    return int(match[1]) if match else None
