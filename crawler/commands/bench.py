"""``scrapy bench``: how fast Scrapy is on this machine; the frontier has benchmarks of its own (``make bench``)."""

from __future__ import annotations

from typing import Any, ClassVar

from scrapy.commands import bench

from crawler.commands.alone import ALONE, Alone


class Command(Alone, bench.Command):
    """Scrapy's command, without the shared frontier and its manners: it only talks to a server of its own."""

    alone: ClassVar[dict[str, Any]] = {
        **ALONE,
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "ROBOTSTXT_OBEY": False,
    }
