"""``scrapy frontier`` run in this process, and a worker without Scrapy that gives it something to look at."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
import redis as redis_py
from scrapy import Request
from scrapy.cmdline import execute
from scrapy.settings import Settings

from crawler.frontier import payload
from crawler.frontier.message import ADD, FILTER
from crawler.keys import Keys
from tests.integration import frontier_spiders
from tests.support.shard import CONSTANTS, Shard

KEYS = Keys("crawler", "plain")
BASE, SEED_KEY = KEYS.frontier, "plain:start_urls"
_SPIDER = frontier_spiders.Plain()


class FakeWorker:
    """One worker of a shard, which speaks without Scrapy."""

    def __init__(self, client: redis_py.Redis, name: str = "w1", **constants: Any) -> None:
        self.client, self.name = client, name
        self.shard = Shard(client, KEYS, CONSTANTS | {"lease": 60_000, **constants}, seed_key=SEED_KEY)
        self.shard.join(name, versions="payload=1")

    def send(self, **fields: Any) -> Any:
        """One exchange."""
        return self.shard.say(self.name, **fields)


def request(number: int, host: str = "a.example", **kwargs: Any) -> Any:
    """What a worker admits."""
    url = f"https://{host}/{number}"
    data = payload.encode(Request(url, **kwargs), _SPIDER)
    return (host, FILTER | ADD, data, data, kwargs.get("priority", 0), data)


class Result(NamedTuple):
    """What a command did."""

    returncode: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What ``--json`` printed."""
        return [json.loads(line) for line in self.out.splitlines()]


class Frontier:
    """``scrapy frontier WORDS`` on the server at `url`."""

    def __init__(self, url: str, capfd: pytest.CaptureFixture[str]) -> None:
        self._url, self._capfd = url, capfd

    def __call__(self, *words: str, url: str = "", **more: Any) -> Result:
        settings = Settings({"REDIS_URL": url or self._url}, priority="project")
        settings.setmodule("crawler.settings", priority=0)
        settings.setdict({"SPIDER_MODULES": [frontier_spiders.__name__], **more}, priority="cmdline")
        with pytest.raises(SystemExit) as exit_:
            execute(["scrapy", "frontier", *words], settings)
        return Result(int(exit_.value.code or 0), *self._capfd.readouterr())
