"""The errors of this project: one root, so that a caller can tell ours from everybody else's."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """`text` with escapes in place of control characters, which would break the line or write over the terminal."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


class CrawlerError(Exception):
    """Root of every error this project raises on purpose. Its text is one line for a person to read."""


class ConfigError(CrawlerError):
    """A setting, flag, file or argument is unusable: the text names it, its value and the remedy."""

    def __init__(self, name: str, value: object, remedy: str) -> None:
        self.name, self.value, self.remedy = name, value, remedy
        super().__init__(one_line(f"{name}={value}: {remedy}"))


class ServerError(CrawlerError):
    """The Redis server is missing, unreachable or unusable: the text names its (masked) address and the remedy."""


class StoredDataError(CrawlerError):
    """Data in Redis was written by another version or with other parameters: the text names both and the remedy."""
