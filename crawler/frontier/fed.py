"""scrapy-redis's conventions for fed spiders: where their seeds come from, and who takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Spider, signals
from scrapy_redis.spiders import RedisMixin

from crawler import config, connection
from crawler.frontier.seedkey import SeedKey

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


def feed_key(spider: Spider, settings: BaseSettings) -> tuple[str, bool]:
    """The spider's seed key, and whether it is a fed spider (waits for seeds instead of ending)."""
    fed = isinstance(spider, RedisMixin) or bool(getattr(spider, "redis_key", None))
    return SeedKey.name_in(settings, spider), fed


def idle_seconds(spider: Spider, settings: BaseSettings) -> float:
    """``FRONTIER_IDLE``, else scrapy-redis's ``MAX_IDLE_TIME_BEFORE_CLOSE``; 0 waits for ever."""
    own = config.number(settings, "FRONTIER_IDLE", 0)
    return own or float(getattr(spider, "max_idle_time", None) or settings.getint("MAX_IDLE_TIME_BEFORE_CLOSE"))


def stop_polling(crawler: Crawler, spider: Spider) -> None:
    """scrapy-redis's mixin pops its key itself when idle, blocking: here the frontier takes the seeds."""
    if isinstance(spider, RedisMixin):
        crawler.signals.disconnect(spider.spider_idle, signal=signals.spider_idle)
        spider.server = connection.sync_client(crawler.settings)
