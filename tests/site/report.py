"""What a crawl did, by the site's own books: its truth against its hits, whatever the crawler claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Hit(NamedTuple):
    """One request the site got; `kind` is page, redirect, refresh, go, error, robots, private, trap, head, unknown."""

    time: float  #: seconds since the epoch, when the request arrived
    host: int
    kind: str
    page: int  #: -1 when it is about no page
    agent: str  #: User-Agent: tells workers apart when each has its own


@dataclass(frozen=True)
class Report:
    """Figures of one crawl. `truth` and `hits` are what the site serves under /__truth__ and /__hits__."""

    truth: Mapping[str, Any]
    hits: tuple[Hit, ...]

    @classmethod
    def of(cls, truth: Mapping[str, Any], hits: Mapping[str, Any]) -> Report:
        """The report of the site's two JSON documents."""
        return cls(truth, tuple(Hit(*hit) for hit in hits["log"]))

    @property
    def pages(self) -> int:
        """Pages on the site."""
        return len(self.truth["pages"])

    @property
    def fetches(self) -> list[Hit]:
        """The hits that were a page's content, in order of arrival."""
        return [hit for hit in self.hits if hit.kind == "page"]

    @property
    def times(self) -> dict[int, int]:
        """How often each page's content was fetched; pages never fetched are absent."""
        return dict(Counter(hit.page for hit in self.fetches))

    @property
    def fetched(self) -> set[int]:
        """Pages fetched at least once."""
        return {hit.page for hit in self.fetches}

    @property
    def missed(self) -> list[str]:
        """URLs of the pages never fetched."""
        fetched = self.fetched
        return [page["url"] for page in self.truth["pages"] if page["id"] not in fetched]

    @property
    def twice(self) -> dict[int, list[Hit]]:
        """Pages fetched more than once, with their fetches in order."""
        repeated = {page for page, times in self.times.items() if times > 1}
        found: dict[int, list[Hit]] = {page: [] for page in sorted(repeated)}
        for hit in self.fetches:
            if hit.page in repeated:
                found[hit.page].append(hit)
        return found

    @property
    def links_seen(self) -> int:
        """Links on the pages fetched, each page counted once: what the crawl had to judge."""
        links = {page["id"]: page["links"] for page in self.truth["pages"]}
        return sum(links[page] for page in self.fetched)

    @property
    def duplicates_avoided(self) -> int:
        """Links that were no new URL class and led to no fetch; the start pages are nobody's link."""
        classes = len(self.fetched) + len({hit.page for hit in self.hits if hit.kind == "go"})
        return self.links_seen - (classes - len(self.truth["start"]))

    @property
    def agents(self) -> dict[str, int]:
        """Page fetches by User-Agent."""
        return dict(Counter(hit.agent for hit in self.fetches))

    def count(self, kind: str) -> int:
        """Hits of one kind."""
        return sum(hit.kind == kind for hit in self.hits)
