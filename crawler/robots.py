"""robots.txt: what waits for it is judged by it, and a host is asked for it once a day, not once per worker.

Scrapy 2.19 lets all waiting requests of a host await one Deferred, and the first to be woken takes its result: the
others get None, which means "no rules", and are fetched whatever robots.txt says. With many requests leased at once
that is every worker's first second. ``tests/integration/test_robots.py`` holds this.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgpack
from redis.exceptions import RedisError
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapyRobotsTxtMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from crawler import config
from crawler.frontier.scheduler import shared_scheduler

if TYPE_CHECKING:
    from typing import Self

    from redis.asyncio import Redis
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.robotstxt import RobotParser

_LARGEST = 500 * 1024  # bytes that a crawler must read (RFC 9309, 2.5); the rest is not kept


class RobotsTxtMiddleware(ScrapyRobotsTxtMiddleware):
    """Takes the place of Scrapy's own, with its settings (``ROBOTSTXT_*``)."""

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """The rules for the request's host; None when it has none."""
        parser = await super().robot_parser(request)
        if parser is not None:
            return parser
        known = self._parsers.get(urlparse_cached(request).netloc)
        return None if isinstance(known, Deferred) else known

    async def _parse_robots(self, response: Response, netloc: str, request: Request) -> None:
        # Reading what DOWNLOAD_MAXSIZE lets through would keep the worker busy for a minute.
        await super()._parse_robots(response.replace(body=response.body[:_LARGEST]), netloc, request)


class RobotsCache:
    """Downloader middleware that keeps robots.txt in Redis for ``FRONTIER_ROBOTS_TTL`` seconds, for all workers.

    Stands before the politeness gate: what comes from here costs the host nothing. When Redis does not answer,
    robots.txt is fetched.
    """

    def __init__(self, crawler: Crawler, ttl: int) -> None:
        self._crawler, self._ttl = crawler, ttl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured when robots.txt is not obeyed or not to be kept."""
        ttl = config.integer(crawler.settings, "FRONTIER_ROBOTS_TTL", 86_400)
        if not ttl or not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured
        return cls(crawler, ttl)

    async def process_request(self, request: Request) -> Response | None:
        """Answers a request for robots.txt from Redis if it can."""
        key = self._key(request)
        if key is None:
            return None
        request.headers.pop("Accept-Encoding", None)  # what is kept below has to be readable without its headers
        try:
            client = await self._client()
            stored = await client.get(key) if client is not None else None
        except (RedisError, OSError):
            return None
        if not stored:
            return None
        status, body = msgpack.unpackb(stored)
        return TextResponse(request.url, status=status, body=body, request=request, flags=["cached"])

    async def process_response(self, request: Request, response: Response) -> Response:
        """Keeps what a host answered; errors of the server's side are asked again."""
        key = self._key(request)
        readable = "Content-Encoding" not in response.headers
        if key is not None and readable and "cached" not in response.flags and response.status < 500:
            stored = msgpack.packb((response.status, response.body[:_LARGEST]))
            with contextlib.suppress(RedisError, OSError):
                if (client := await self._client()) is not None:
                    await client.set(key, stored, ex=self._ttl)
        return response

    async def _client(self) -> Redis | None:
        scheduler = shared_scheduler(self._crawler)
        return None if scheduler is None else await scheduler.client()

    def _key(self, request: Request) -> str | None:
        """The cache key of a request that Scrapy's robots.txt middleware made, else None."""
        url = urlparse_cached(request)
        if url.path != "/robots.txt" or not request.meta.get("dont_obey_robotstxt"):
            return None
        scheduler = shared_scheduler(self._crawler)
        if scheduler is None or scheduler.link is None:
            return None
        return f"{scheduler.base}:robots:{url.scheme}://{url.netloc}"
