"""Feed files that a crash cannot tear (in the making): the names that settings and the frontier refer to."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any

from scrapy.extensions.feedexport import FileFeedStorage

if TYPE_CHECKING:
    from scrapy import Spider

_open: set[IO[bytes]] = set()


class LocalFeedStorage(FileFeedStorage):
    """Appends to a local file and registers it for :func:`flush_feeds`."""

    def open(self, spider: Spider) -> IO[bytes]:
        file = super().open(spider)
        _open.add(file)
        return file

    def store(self, file: IO[bytes]) -> None:
        _open.discard(file)
        file.close()


def flush_feeds() -> None:
    """Push every open feed file to the operating system, so that a kill -9 cannot take items back. Raises OSError."""
    for file in _open:
        file.flush()


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """``%(worker)s`` and ``%(feed_dir)s`` for feed URIs, beside Scrapy's own parameters."""
    settings = spider.crawler.settings
    worker = re.sub(r"[^\w.-]", "_", settings["WORKER_NAME"])
    return {**params, "worker": worker, "feed_dir": settings["FEED_DIR"]}
