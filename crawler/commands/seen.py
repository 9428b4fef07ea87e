"""What the actions of ``scrapy dedup`` share: the memory they work on, one part of it per shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crawler.canonical.version import version_of
from crawler.commands.spider import make_fingerprinter
from crawler.errors import ConfigError

if TYPE_CHECKING:
    import redis
    from scrapy import Spider
    from scrapy.settings import Settings

    from crawler.dedup.memory import SeenMemory


def _own_key(settings: Settings, spider: str) -> str:
    """``SCHEDULER_DUPEFILTER_KEY``, which only other schedulers than the shared frontier heed; else ""."""
    from scrapy.utils.misc import load_object

    from crawler.dedup.dupefilter import own_key
    from crawler.frontier import Scheduler

    shared = Scheduler in load_object(settings["SCHEDULER"]).__mro__
    return "" if shared else own_key(settings, spider)


class Seen:
    """What an action works on: a spider's memory, and the fingerprints its pages have."""

    def __init__(
        self, settings: Settings, spider_class: type[Spider], client: redis.Redis, base: str, frontier: str = ""
    ) -> None:
        from scrapy.utils.misc import load_object

        self.settings, self.spider_class, self.client = settings.copy(), spider_class, client
        spider_class.update_settings(self.settings)
        self.name, self.base, self._frontier = spider_class.name, base, frontier
        self.path = str(self.settings["DUPEFILTER_CLASS"])
        self.dupefilter = load_object(self.settings["DUPEFILTER_CLASS"])

    @classmethod
    def shards(cls, settings: Settings, spider_class: type[Spider], client: redis.Redis) -> list[Seen]:
        """Each part of a spider's memory; `client` may be a cluster's."""
        from crawler.frontier.spread import stored_shards
        from crawler.keys import Keys
        from crawler.nodes import node_of

        own = settings.copy()
        spider_class.update_settings(own)
        if key := _own_key(own, spider_class.name):
            return [cls(settings, spider_class, node_of(client, key), key)]
        keys = Keys.from_settings(own, spider_class.name)
        shards = keys.spread(stored_shards(client, keys, own))
        found = [cls(settings, spider_class, node_of(client, one.tag), one.dedup, one.frontier) for one in shards]
        for number, seen in enumerate(found):
            seen.name += f" (shard {number})" if len(found) > 1 else ""
        return found

    def shard_of(self, url: str, shards: int) -> int:
        """The shard that a URL's host belongs to."""
        from scrapy import Request

        from crawler.canonical import canonical_host
        from crawler.frontier.slot import host_of
        from crawler.keys import shard_of

        fingerprinter = make_fingerprinter(self.settings, self.spider_class)
        try:
            host = host_of(Request(url), getattr(fingerprinter, "canonical_host", canonical_host))
        except ValueError as error:
            raise ConfigError("URL", url, f"is not one that can be crawled ({error})") from None
        return shard_of(host, shards)

    def memory(self) -> SeenMemory:
        """The memory; ConfigError if the dupefilter keeps none on the server."""
        if not hasattr(self.dupefilter, "memory_at"):
            raise ConfigError("DUPEFILTER_CLASS", self.path, "keeps no memory on the server that this command knows")
        memory: SeenMemory = self.dupefilter.memory_at(self.settings, self.client, self.base)
        return memory

    def begun(self) -> bool:
        """Whether a crawl has begun here; if so, it was with the number of shards that is kept."""
        frontier: Any = self._frontier and self.client.hexists(f"{self._frontier}:meta", "versions")
        return bool(frontier or self.client.exists(f"{self.base}:dedup:meta"))

    def version(self) -> str:
        """Of the fingerprints that this spider's crawl would make."""
        return version_of(make_fingerprinter(self.settings, self.spider_class))

    def stored_version(self) -> str:
        """Of those that were recorded: as the frontier beside the memory says, or if there is none, as now."""
        facts: Any = self._frontier and self.client.hget(f"{self._frontier}:meta", "versions")
        words = dict(word.split("=", 1) for word in facts.decode().split()) if facts else {}
        return words.get("fingerprint") or self.version()

    def fingerprints(self, urls: Sequence[str]) -> list[bytes]:
        """Of GET requests for the URLs, as this spider's crawl would make them."""
        from scrapy import Request

        fingerprinter = make_fingerprinter(self.settings, self.spider_class)
        fingerprints = []
        for url in urls:
            try:
                fingerprints.append(fingerprinter.fingerprint(Request(url)))
            except ValueError as error:
                raise ConfigError("URL", url, f"is not one that can be crawled ({error})") from None
        return fingerprints
