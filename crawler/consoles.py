"""Scrapy's telnet console and remote control, imported only where they are switched on.

Scrapy imports them to find out that they are off, and with the second aiohttp: a fifth of a worker's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import build_from_crawler, load_object

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class _Console:
    """Stands in Scrapy's place among the extensions; what comes of it is Scrapy's own."""

    path: ClassVar[str]
    switch: ClassVar[str]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        """Scrapy's extension. NotConfigured where it is off."""
        if not crawler.settings.getbool(cls.switch):
            raise NotConfigured
        return build_from_crawler(load_object(cls.path), crawler)


class TelnetConsole(_Console):
    """``TELNETCONSOLE_ENABLED``."""

    path, switch = "scrapy.extensions.telnet.TelnetConsole", "TELNETCONSOLE_ENABLED"


class RemoteControl(_Console):
    """``REMOTE_CONTROL_ENABLED``."""

    path, switch = "scrapy.extensions.remote_control.RemoteControl", "REMOTE_CONTROL_ENABLED"


_OURS = {console.path: f"{__name__}.{console.__name__}" for console in (TelnetConsole, RemoteControl)}


def imported_late(extensions: dict[str, Any]) -> dict[str, Any]:
    """Scrapy's ``EXTENSIONS_BASE`` with these in place of Scrapy's."""
    return {_OURS.get(path, path): order for path, order in extensions.items()}
