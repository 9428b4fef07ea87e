"""A spider that waits for work: URLs are given to it while it runs. ``scrapy crawl feed``

Seeds come from ``scrapy seed feed https://example.com/`` or from anything that speaks Redis:
``LPUSH feed:start_urls '{"url": "https://example.com/", "meta": {"job": 7}}'``.
"""

from collections.abc import Iterator
from typing import Any

from scrapy.http import Response
from scrapy_redis.spiders import RedisSpider

from crawler.items import Page


class FeedSpider(RedisSpider):  # type: ignore[misc] # scrapy-redis has no types
    """One item per seed. It goes on waiting when all is done; ``FRONTIER_IDLE=60`` ends it after a quiet minute."""

    name = "feed"

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Page]:
        """The page as an item; its links are not followed."""
        yield Page.of(response)
