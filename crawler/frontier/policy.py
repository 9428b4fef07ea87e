"""The frontier's settings, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crawler import config
from crawler.errors import ConfigError
from crawler.keys import shards_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_LONGEST_DELAY = 1e9  # seconds
_UNLIMITED = 256  # what CONCURRENT_REQUESTS=0 means to a worker that must not lease the whole queue


@dataclass(frozen=True, slots=True)
class Policy:
    """How this worker leases. Times are milliseconds, but `grace` and `crawl_delay_max` (seconds)."""

    capacity: int
    lease: int
    grace: float
    delay: int
    concurrency: int
    order: str
    max_deliveries: int
    dead_max: int
    backoff: int
    backoff_max: int
    crawl_delay_max: float
    give_up: int
    host_max_pages: int
    calendar_max: int
    max_repeats: int
    run: str
    persist: bool
    flush: bool
    shards: int = 1
    replicas: int = 0  # that must have an admission before what depends on it is acknowledged
    hosts: dict[str, tuple[int, int]] = field(default_factory=dict)  # host → delay, concurrency

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Policy:
        """Raises ConfigError for the first unusable setting."""
        if config.flag(settings, "AUTOTHROTTLE_ENABLED", False):
            raise ConfigError(
                "AUTOTHROTTLE_ENABLED", settings["AUTOTHROTTLE_ENABLED"],
                "must be 0: it tunes each worker alone; the frontier paces a host for all (FRONTIER_HOST_DELAY)",
            )  # fmt: skip
        if shards_of(settings) > 1 and config.flag(settings, "FRONTIER_PIN_COOKIEJARS", False):
            raise ConfigError(
                "FRONTIER_PIN_COOKIEJARS", 1, "a jar's hosts may be on several shards: needs FRONTIER_SHARDS=1"
            )
        delay, delays = host_delays(settings)
        concurrency = _host_concurrency(settings)
        slots = _slots(settings)
        return cls(
            capacity=config.integer(settings, "CONCURRENT_REQUESTS", 16) or _UNLIMITED,
            lease=round(1000 * config.number(settings, "FRONTIER_LEASE", 120, low=1)),
            grace=config.number(settings, "FRONTIER_GRACE", 8),
            delay=round(1000 * delay),
            concurrency=concurrency,
            order=config.choice(settings, "FRONTIER_ORDER", "priority", ("priority", "fifo", "lifo")),
            max_deliveries=config.integer(settings, "FRONTIER_MAX_DELIVERIES", 5, low=1),
            dead_max=config.integer(settings, "FRONTIER_DEAD_MAX", 10_000),
            backoff=round(1000 * config.number(settings, "FRONTIER_BACKOFF", 1)),
            backoff_max=round(1000 * config.number(settings, "FRONTIER_BACKOFF_MAX", 600)),
            crawl_delay_max=config.number(settings, "FRONTIER_CRAWL_DELAY_MAX", 30),
            give_up=round(1000 * config.number(settings, "FRONTIER_HOST_GIVE_UP", 14_400)),
            calendar_max=config.integer(settings, "FRONTIER_CALENDAR_MAX", 1000),
            host_max_pages=config.integer(settings, "FRONTIER_HOST_MAX_PAGES", 0),
            max_repeats=config.integer(settings, "FRONTIER_MAX_REPEATED_SEGMENTS", 10),
            run=config.text(settings, "FRONTIER_RUN"),
            persist=config.flag(settings, "SCHEDULER_PERSIST", True),
            flush=config.flag(settings, "SCHEDULER_FLUSH_ON_START", False),
            shards=shards_of(settings),
            replicas=config.integer(settings, "FRONTIER_WAIT_REPLICAS", 0, high=100),
            hosts={
                host: (round(1000 * delays.get(host, delay)), int(slot.get("concurrency") or concurrency))
                for host, slot in slots.items()
            },
        )

    @property
    def together(self) -> bool:
        """Whether an ack may travel with what it depends on: one script on one server does both or neither."""
        return self.shards == 1 and not self.replicas

    def constants(self, dedup: dict[str, Any], info: str, fed: bool, idle: float) -> dict[str, Any]:
        """The part of every message that never changes."""
        return {
            "lease": self.lease,
            "idle": round(1000 * idle),
            "delay": self.delay,
            "concurrency": self.concurrency,
            "order": self.order,
            "max_deliveries": self.max_deliveries,
            "dead_max": self.dead_max,
            "backoff": self.backoff,
            "backoff_max": self.backoff_max,
            "give_up": self.give_up,
            "calendar_max": self.calendar_max,
            "host_max_pages": self.host_max_pages,
            "hosts": self.hosts,
            "replicas": self.replicas,
            "dedup": dedup,
            "info": info,
            "fed": fed,
        }


def host_delays(settings: BaseSettings) -> tuple[float, dict[str, float]]:
    """The delay between two requests of a host, and of the hosts in ``DOWNLOAD_SLOTS`` (seconds)."""
    default = config.number(settings, "DOWNLOAD_DELAY", 0.0)
    delay = default
    if settings.get("FRONTIER_HOST_DELAY") not in (None, ""):
        delay = config.number(settings, "FRONTIER_HOST_DELAY", default)
    slots = _slots(settings)
    return delay, {host: float(slot["delay"]) for host, slot in slots.items() if slot.get("delay") is not None}


def _slots(settings: BaseSettings) -> dict[str, Any]:
    """``DOWNLOAD_SLOTS``, checked."""
    slots = settings.getdict("DOWNLOAD_SLOTS")
    for host, slot in slots.items():
        try:
            usable = 0 <= float(slot.get("delay") or 0) <= _LONGEST_DELAY and int(slot.get("concurrency") or 0) >= 0
        except (AttributeError, TypeError, ValueError):
            usable = False
        if not usable:
            example = '{"example.com": {"delay": 2, "concurrency": 1}}'
            raise ConfigError("DOWNLOAD_SLOTS", {host: slot}, f"must be like {example}, with numbers from 0")
    return slots


def _host_concurrency(settings: BaseSettings) -> int:
    name = "FRONTIER_HOST_CONCURRENCY"
    if settings.get(name) not in (None, ""):
        return config.integer(settings, name, 1, low=1)
    return config.integer(settings, "CONCURRENT_REQUESTS_PER_DOMAIN", 8) or _UNLIMITED
