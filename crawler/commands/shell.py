"""``scrapy shell``: a console for one page, beside the crawl and not in it."""

from __future__ import annotations

from scrapy.commands import shell
from scrapy.utils.url import guess_scheme

from crawler.commands.alone import OnePage
from crawler.errors import ConfigError


class Command(OnePage, shell.Command):
    """Scrapy's command, without the shared frontier."""

    @staticmethod
    def page(word: str) -> str:
        """A URL with or without its scheme, or a local file."""
        try:
            return guess_scheme(word)
        except ValueError as error:
            raise ConfigError("URL", word, f"is neither a URL nor a file ({error})") from None
