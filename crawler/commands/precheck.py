"""What ``scrapy crawl`` checks of Scrapy's own settings before anything is built from them and fails at length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from crawler import config
from crawler.commands import legacy
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import Settings

_FLAGS = (
    "ROBOTSTXT_OBEY", "HTTPCACHE_ENABLED", "RETRY_ENABLED", "COOKIES_ENABLED", "REDIRECT_ENABLED",
    "METAREFRESH_ENABLED",
)  # fmt: skip
_WHOLE = ("RETRY_TIMES", "REDIRECT_MAX_TIMES", "DEPTH_LIMIT", "URLLENGTH_LIMIT", "CONCURRENT_REQUESTS_PER_DOMAIN")
_NUMBERS = ("DOWNLOAD_DELAY", "DOWNLOAD_TIMEOUT")
_CLASSES = ("SCHEDULER", "DUPEFILTER_CLASS", "REQUEST_FINGERPRINTER_CLASS")
_DERIVED = {  # other settings were made from these when the settings page was read
    "FRONTIER": "SCHEDULER and DUPEFILTER_CLASS",
    "CONTACT": "USER_AGENT",
    "BOT_NAME": "USER_AGENT and ROBOTSTXT_USER_AGENT",
    "FEED_BATCH_ITEMS": "FEEDS",
}


def check(settings: Settings) -> None:
    """Raises ConfigError for the first unusable value."""
    for name, made in _DERIVED.items():
        if (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES["cmdline"]:
            raise ConfigError(name, settings[name], f"-s comes too late for {made}; set it in the environment or .env")
    config.header(settings, "USER_AGENT")
    legacy.refuse(settings)
    for name in _FLAGS:
        config.flag(settings, name, False)
    for name in _WHOLE:
        config.integer(settings, name, 0)
    for name in _NUMBERS:
        config.number(settings, name, 0)
    _check_jobdir(config.text(settings, "JOBDIR"))
    for name in _CLASSES:
        value = settings[name]
        try:
            load_object(value)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise ConfigError(name, value, f"can't be imported ({error}); must be the path of a class") from None


def _check_jobdir(folder: str) -> None:
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError("JOBDIR", folder, f"cannot be made a folder ({error.strerror}): name another") from None
