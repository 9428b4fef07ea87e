"""Where a spider's seeds wait in Redis, and how to put more there: names and types as in scrapy-redis.

A list (the default) keeps the order of pushes: workers take from its left, so seeds are added at its right. A set
(``REDIS_START_URLS_AS_SET``) keeps each seed once and no order; a sorted set (``REDIS_START_URLS_AS_ZSET``) is taken by
falling score, and the score is the seed's priority.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from crawler import config
from crawler.errors import ConfigError, StoredDataError
from crawler.nodes import node_of

if TYPE_CHECKING:
    import redis
    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

Seed = tuple[bytes, int]  # what is pushed, priority
_DEFAULT = "%(name)s:start_urls"
_SETTINGS = {"list": "", "set": "REDIS_START_URLS_AS_SET", "zset": "REDIS_START_URLS_AS_ZSET"}
_TYPES = {"list": "a list", "set": "a set", "zset": "a sorted set"}


class SeedKey(NamedTuple):
    """Name of the key and its type: ``list``, ``set`` or ``zset``."""

    name: str
    kind: str

    @classmethod
    def of(cls, spider_class: type[Spider], settings: BaseSettings) -> SeedKey:
        """The key of a spider: its ``redis_key``, else ``REDIS_START_URLS_KEY``; ``custom_settings`` count."""
        settings = settings.copy()
        spider_class.update_settings(settings)
        return cls(cls.name_in(settings, spider_class), cls.kind_in(settings))

    @staticmethod
    def name_in(settings: BaseSettings, spider: Spider | type[Spider]) -> str:
        """The name that a spider and its settings say. Raises ConfigError for an unusable pattern."""
        own = getattr(spider, "redis_key", None)
        template = own or config.text(settings, "REDIS_START_URLS_KEY", _DEFAULT)
        try:
            return str(template % {"name": spider.name})
        except (KeyError, ValueError, TypeError):
            setting = "redis_key" if own else "REDIS_START_URLS_KEY"
            raise ConfigError(setting, template, "may hold %(name)s and no other % sign") from None

    @staticmethod
    def kind_in(settings: BaseSettings) -> str:
        """The type that the settings of a spider say."""
        return next((kind for kind in ("set", "zset") if config.flag(settings, _SETTINGS[kind], False)), "list")

    def check(self, client: redis.Redis) -> None:
        """Raises StoredDataError when Redis holds something else under this name."""
        found = cast("bytes", node_of(client, self.name).type(self.name)).decode()
        if found not in ("none", self.kind):
            raise StoredDataError(self.fault(found))

    def fault(self, found: str) -> str:
        """The line that says what is wrong when Redis holds a key of the type `found` under this name."""
        remedy = "rename or delete that key"
        if found in _SETTINGS:
            remedy = f"set {_SETTINGS[found]}=1" if _SETTINGS[found] else f"unset {_SETTINGS[self.kind]}, or {remedy}"
        return f"{self.name} is {_TYPES.get(found, f'a {found}')} in Redis, not {_TYPES[self.kind]}: {remedy}"

    def push(self, client: redis.Redis, seeds: Sequence[Seed]) -> int:
        """Adds seeds, in their order; returns how many wait then. One command: all of them get in or none."""
        client = node_of(client, self.name)
        if self.kind == "list":
            return int(client.rpush(self.name, *(seed for seed, _ in seeds)))
        if self.kind == "set":
            client.sadd(self.name, *(seed for seed, _ in seeds))
        else:
            client.zadd(self.name, dict(seeds))
        return self.waiting(client)

    def waiting(self, client: redis.Redis) -> int:
        """How many seeds wait."""
        client = node_of(client, self.name)
        count = {"list": client.llen, "set": client.scard, "zset": client.zcard}[self.kind]
        return int(count(self.name))


class SeedFault:
    """Says once that nothing can be taken from a worker's seed key, and once that it is in order again."""

    def __init__(self, settings: BaseSettings, spider: Spider) -> None:
        self._key = SeedKey(SeedKey.name_in(settings, spider), SeedKey.kind_in(settings))
        self._told = False

    def look(self, found: str | None) -> None:
        """`found`: the type that is no type for seeds, "" when the key is in order, None when nobody looked."""
        if found and not self._told:
            logger.error("No seed can be taken: %s; then this worker goes on by itself", self._key.fault(found))
            self._told = True
        elif found == "" and self._told:
            logger.warning("Seeds can be taken from %s again", self._key.name)
            self._told = False
