"""A site by its sitemap: no link is followed. ``scrapy crawl sitemap -a start=https://example.com/``"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy.http import Response
from scrapy.spiders import SitemapSpider

from crawler.items import Page
from crawler.starts import sitemap_url, start_urls


class SiteMapSpider(SitemapSpider):
    """One item per page of the sitemap. `start` is a sitemap, a robots.txt or any page (then its host's robots.txt)."""

    name = "sitemap"

    def __init__(self, start: str = "", **kwargs: Any) -> None:
        self.sitemap_urls = [sitemap_url(url) for url in start_urls(start)]
        super().__init__(**kwargs)

    async def start(self) -> AsyncIterator[Any]:
        """The sitemaps; read again in every run, however well their URLs are remembered."""
        async for request in super().start():
            yield request.replace(dont_filter=True)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Page]:
        """A page that the sitemap lists."""
        yield Page.of(response)
