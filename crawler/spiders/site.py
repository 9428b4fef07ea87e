"""A whole site, any site: follows every link that stays on it. ``scrapy crawl site -a start=https://example.com/``"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

from crawler.items import Page
from crawler.starts import start_urls


class SiteSpider(scrapy.Spider):
    """One item per page. The site is the hosts of the start URLs, with and without ``www.``, but no other subdomain."""

    name = "site"
    links = LinkExtractor()  # leaves out pictures, archives and the like by their file names

    def __init__(self, start: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start_urls(start)
        self.site = {_site(url) for url in self.start_urls}
        # Redirects that leave the site stop here; links are looked at more closely in on_site.
        self.allowed_domains = [host for host, _ in self.site]

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        """The page as an item, then its links. What is not HTML has none."""
        yield Page.of(response)
        if not self.on_site(response.url):  # a start page that redirects
            self.logger.warning("The start leads to another site: -a start=%s crawls that one", response.url)
        if isinstance(response, HtmlResponse):
            yield from response.follow_all(
                link for link in self.links.extract_links(response) if self.on_site(link.url)
            )

    def on_site(self, url: str) -> bool:
        """Whether the URL has the host (and port) of a start URL."""
        return _site(url) in self.site


def _site(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a link with port 99999, say
        return "", None
    host = parts.hostname or "" if parts.scheme in ("http", "https") else ""
    return host.removeprefix("www."), None if port in (80, 443) else port
