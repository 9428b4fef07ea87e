"""Settings of the shared frontier that a crawl without it would ignore: one line says which, and what to set instead.

A value counts as set when it differs from the page's default, wherever it comes from.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Setting → its default on the settings page (a test compares them).
SHARED: dict[str, Any] = {
    "FRONTIER_RUN": "", "FRONTIER_ORDER": "priority", "FRONTIER_HOST_DELAY": None, "FRONTIER_HOST_CONCURRENCY": None,
    "FRONTIER_BACKOFF": 1, "FRONTIER_BACKOFF_MAX": 600, "FRONTIER_CRAWL_DELAY_MAX": 30, "FRONTIER_ROBOTS_TTL": 86_400,
    "FRONTIER_HOST_GIVE_UP": 14_400, "FRONTIER_HOST_MAX_PAGES": 0, "FRONTIER_MAX_REPEATED_SEGMENTS": 10,
    "FRONTIER_CALENDAR_MAX": 1000, "FRONTIER_PIN_COOKIEJARS": False, "FRONTIER_SHARDS": 1, "FRONTIER_WAIT_REPLICAS": 0,
    "FRONTIER_LEASE": 120, "FRONTIER_GRACE": 8, "FRONTIER_IDLE": 0, "FRONTIER_MAX_DELIVERIES": 5,
    "FRONTIER_DEAD_MAX": 10_000,
}  # fmt: skip
_INSTEAD = {
    "FRONTIER_HOST_DELAY": "DOWNLOAD_DELAY",
    "FRONTIER_HOST_CONCURRENCY": "CONCURRENT_REQUESTS_PER_DOMAIN",
    "FRONTIER_IDLE": "MAX_IDLE_TIME_BEFORE_CLOSE",
}


def unused(settings: BaseSettings) -> list[str]:
    """Names of the settings that are set and have no effect, since the scheduler is not the shared frontier."""
    if str(settings["SCHEDULER"]).startswith("crawler."):
        return []
    return [name for name, default in SHARED.items() if str(_plain(settings.get(name))) != str(_plain(default))]


def warn(settings: BaseSettings) -> None:
    """Logs the line."""
    names = unused(settings)
    if not names:
        return
    said = ", ".join(f"{name} (set {_INSTEAD[name]})" if name in _INSTEAD else name for name in names)
    logger.warning("Without the shared frontier (FRONTIER=memory, or another SCHEDULER) these have no effect: %s", said)


def _plain(value: Any) -> Any:
    """What -s gives as text beside what the page gives as a number."""
    if value in (None, "", "None"):
        return ""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
