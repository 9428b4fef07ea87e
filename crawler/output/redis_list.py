"""Items in a Redis list, as scrapy-redis puts them there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy_redis.pipelines
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.misc import load_object

from crawler import config, connection
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler


class RedisPipeline(scrapy_redis.pipelines.RedisPipeline):  # type: ignore[misc] # scrapy-redis has no types
    """scrapy-redis's pipeline (items as JSON in the list ``SPIDER:items``) on the project's own connection.

    Off unless ``REDIS_PIPELINE_ENABLED``. ``REDIS_ITEMS_KEY`` and ``REDIS_ITEMS_SERIALIZER`` mean what they mean there.
    An item that cannot be stored is a failed item: its request goes to the dead letters.
    """

    crawler: Crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured when it is off, ConfigError for a serializer that cannot be imported."""
        settings = crawler.settings
        if not config.flag(settings, "REDIS_PIPELINE_ENABLED", False):
            raise NotConfigured
        options: dict[str, Any] = {}
        if key := config.text(settings, "REDIS_ITEMS_KEY"):
            options["key"] = key
        if path := config.text(settings, "REDIS_ITEMS_SERIALIZER"):
            try:
                options["serialize_func"] = load_object(path)
            except (ImportError, NameError, ValueError) as error:
                raise ConfigError("REDIS_ITEMS_SERIALIZER", path, f"cannot be imported ({error})") from None
        pipeline = cls(connection.sync_client(settings), **options)
        pipeline.crawler = crawler
        return pipeline

    async def process_item(self, item: Any) -> Any:
        """Store the item; the crawl goes on meanwhile."""
        return await run_in_thread(self._process_item, item, self.crawler.spider)

    def close_spider(self) -> None:
        """Close the connection."""
        self.server.close()
