"""A user agent that names nobody to write to: site owners block what they can't ask, so one line says so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# What crawler/settings.py writes without a CONTACT, and the example in .env.example (a test compares them).
NOBODY = ("contact not set", "https://example.org/about-our-crawler")


def warn(settings: BaseSettings, spider: type[Spider]) -> None:
    """Logs the line. Scrapy takes a spider's own attribute ``user_agent`` before the setting."""
    agent = str(getattr(spider, "user_agent", settings.get("USER_AGENT")))
    if any(text in agent for text in NOBODY):
        logger.warning(
            "The user agent, %s, names nobody to write to: set CONTACT in .env (or the environment) to a page or an "
            "address where site owners reach you", agent,
        )  # fmt: skip
