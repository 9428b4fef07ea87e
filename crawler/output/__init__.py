"""Where items go besides the feed files: other stores while they are scraped, one merged file afterwards."""

from crawler.output.postgres import PostgresPipeline
from crawler.output.redis_list import RedisPipeline

__all__ = ["PostgresPipeline", "RedisPipeline"]
