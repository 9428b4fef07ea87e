"""A spider for `scrapy runspider`: follows every link of a site and prints the path of each page it was given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import scrapy


class RedirectSpider(scrapy.Spider):
    name = "redirects"
    root = ""  # -a root=http://127.0.0.1:8000/

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.root)

    def parse(self, response: Any) -> Any:
        print("PAGE", urlsplit(response.url).path)
        yield from response.follow_all(css="a")
