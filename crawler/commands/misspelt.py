"""Names that begin as our settings do and are none: nothing reads them, so one line each says so.

Names with another beginning are the user's own. No value is shown, it may be a secret: ``CRAWLER_PRIVATE_KEY`` is like
``CRAWLER_PRIVATE_HOSTS``, and not meant for it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from crawler.commands.unused import SHARED
from crawler.errors import one_line

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

PREFIXES = ("FRONTIER_", "BLOOM_", "DEDUP_", "CRAWLER_", "CANONICAL_", "METRICS_")
# All settings with these prefixes (a test compares them with what the code reads). One text, because tests that look
# through the code for uses of a name must not find it here.
KNOWN = frozenset(SHARED) | frozenset(
    """
    BLOOM_BACKEND BLOOM_CAPACITY BLOOM_ERROR_RATE BLOOM_GROWTH
    CANONICAL_AUDIT CANONICAL_GROUPS CANONICAL_INCLUDE_HEADERS CANONICAL_KEEP_FRAGMENTS CANONICAL_LEARN CANONICAL_OFF
    CANONICAL_RULES CRAWLER_ALLOW_PRIVATE CRAWLER_ENV_FILE CRAWLER_PRIVATE_HOSTS CRAWLER_SCHEMES
    DEDUP_FORGET_FAILED DEDUP_MEMORY_SIZE DEDUP_RECENT_SIZE DEDUP_SCOPE DEDUP_WINDOW DEDUP_WINDOW_GENERATIONS
    METRICS_ENABLED METRICS_HOST METRICS_LINGER METRICS_PORT METRICS_SD_FILE METRICS_TEXTFILE
    """.split()  # noqa: SIM905
)
_ALIKE = 0.8  # of two names as difflib measures it: one letter or two are wrong, or a word is missing
# What Kubernetes and Docker put into the environment for a service that is called like a prefix.
_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP)|$)")


def warn(settings: BaseSettings, environment: Iterable[str]) -> None:
    """Logs a line for each of the spider's settings, and each variable of the environment or ``.env``."""
    names = [*(name for name in environment if not _SERVICE.search(name)), *settings]
    for name in dict.fromkeys(names):
        if name.startswith(PREFIXES) and name not in KNOWN:
            logger.warning("%s", line(name))


def line(name: str) -> str:
    """What is said of an unknown name."""
    from difflib import get_close_matches  # only whoever mistypes pays for it

    meant = get_close_matches(name, sorted(KNOWN), 1, _ALIKE)
    return one_line(
        f"{name}: no such setting; did you mean {meant[0]}?"
        if meant
        else f"{name}: no such setting, nothing reads it; docs/settings.md lists all"
    )
