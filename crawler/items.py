"""YOURS: what the spiders give: plain dataclasses. A dict works as well.

A field named ``fingerprint`` is filled in for every item that a page gave (see ``crawler/itemkeys.py``): a page that
had to be fetched again after a crash gives items with the same keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse

if TYPE_CHECKING:
    from typing import Self

    from scrapy.http import Response


@dataclass
class Page:
    """One fetched page of a site, HTML or not."""

    url: str
    status: int
    type: str  # media type, e.g. text/html
    title: str | None = None  # HTML only
    depth: int = 0  # links followed from the start page
    fingerprint: str = ""

    @classmethod
    def of(cls, response: Response) -> Self:
        """The page that `response` brought."""
        media_type, _, _ = (response.headers.get("Content-Type") or b"").decode("latin-1").partition(";")
        title = response.css("title::text").get("").strip() if isinstance(response, HtmlResponse) else ""
        return cls(
            url=response.url,
            status=response.status,
            type=media_type.strip().lower(),
            title=title or None,
            depth=response.meta.get("depth", 0),
        )


@dataclass
class Book:
    """One book of books.toscrape.com."""

    url: str
    title: str
    price: float
    currency: str
    rating: int  # stars, 1 to 5
    in_stock: bool
    category: str
    fingerprint: str = ""
