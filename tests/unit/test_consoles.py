"""Scrapy's consoles are imported late; ``tests/integration/test_start_modules.py`` switches them on."""

from __future__ import annotations

from scrapy.settings import default_settings

from crawler.consoles import imported_late


def test_the_other_extensions_stay_as_they_are() -> None:
    late = imported_late(default_settings.EXTENSIONS_BASE)
    changed = set(default_settings.EXTENSIONS_BASE) - set(late)
    assert changed == {"scrapy.extensions.telnet.TelnetConsole", "scrapy.extensions.remote_control.RemoteControl"}
    assert len(late) == len(default_settings.EXTENSIONS_BASE)
