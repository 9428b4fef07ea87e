"""The environment as typed values: what ``settings.py`` is filled from.

Values come from the real environment and, below it, from the project's ``.env`` (``CRAWLER_ENV_FILE`` names another
file, and when set but empty none). An empty value counts as unset, because that is what ``NAME: ${NAME:-}`` in a
compose file gives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from scrapy.settings import BaseSettings

from crawler import config
from crawler.errors import ConfigError

_T = TypeVar("_T")
PROJECT = Path(__file__).resolve().parent.parent

_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=(?P<value>.*)")
_VALUE = re.compile(
    r"""\s* (?: '(?P<single>[^']*)' | "(?P<double>[^"\\$]*)" | (?P<bare>[^'"$\s\#] ([^'"$\#] | (?<!\s)\#)*)? )
        ((?<=\s) \#.* | \s+ \#.* | \s*)  # a comment needs white space before it: a bare value may contain a "#"
    """,
    re.VERBOSE,
)


class EnvironmentConfigError(ConfigError, SystemExit):
    """A :class:`ConfigError` that ends the process with its one line if nobody catches it.

    Settings are imported before any command of ours runs, so an ordinary exception would reach the user as a traceback.
    """

    def __init__(self, name: str, value: object, remedy: str) -> None:
        super().__init__(name, value, remedy)
        self.code = str(self)


class Env:
    """Reads variables of one environment; every method gives `default` for an unset or empty variable."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = BaseSettings({name: value.strip() for name, value in values.items() if value.strip()})

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ) -> Env:
        """The process's environment over the ``.env`` file."""
        file = environ.get("CRAWLER_ENV_FILE")
        path = PROJECT / ".env" if file is None else Path(file)
        if file and not path.exists():
            raise EnvironmentConfigError("CRAWLER_ENV_FILE", file, "there is no such file")
        return cls({**read_env_file(path), **environ} if file != "" else environ)

    def integer(self, name: str, default: int, *, low: int = 0, high: int | None = None) -> int:
        """A whole number between `low` and `high` (inclusive)."""
        return _checked(lambda: config.integer(self._values, name, default, low=low, high=high))

    def number(self, name: str, default: float, *, low: float = 0.0, high: float | None = None) -> float:
        """A finite number between `low` and `high` (inclusive)."""
        return _checked(lambda: config.number(self._values, name, default, low=low, high=high))

    def flag(self, name: str, default: bool) -> bool:
        """1/0, true/false, yes/no or on/off."""
        return _checked(lambda: config.flag(self._values, name, default))

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of `choices`."""
        return _checked(lambda: config.choice(self._values, name, default, choices))

    def text(self, name: str, default: str = "") -> str:
        """Any text."""
        return config.text(self._values, name, default)

    def header(self, name: str, default: str = "") -> str:
        """One line of printable ASCII."""
        return _checked(lambda: config.header(self._values, name, default))

    def isset(self, name: str) -> bool:
        """Whether the variable has a value, for settings that fall back to another one."""
        return name in self._values

    def names(self) -> list[str]:
        """Every variable that has a value."""
        return list(self._values)


def read_env_file(path: Path) -> dict[str, str]:
    """``NAME=value`` lines of `path` (none if there is no such file); ``#`` comments, ``export`` and quotes are fine.

    Strict on purpose: Docker Compose reads the same file, so what the two could read differently (``$``, an open
    quote) is refused. Raises :class:`ConfigError` naming file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentConfigError("CRAWLER_ENV_FILE", path, f"cannot be read ({error})") from None
    values = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, value = _parse(line.strip(), f"{path.name} line {number}")
        values[name] = value
    return values


def _parse(line: str, where: str) -> tuple[str, str]:
    shown = line.partition("=")[0][:40]  # the rest may be a password
    match = _LINE.fullmatch(line)
    if match is None:
        raise EnvironmentConfigError(where, shown, "must be NAME=value or a # comment")
    value = _VALUE.fullmatch(match["value"])
    if value is None:
        raise EnvironmentConfigError(where, shown, "put a value with quotes or $ between single quotes")
    return match["name"], value["single"] or value["double"] or (value["bare"] or "").rstrip()


def _checked(read: Callable[[], _T]) -> _T:
    try:
        return read()
    except ConfigError as error:
        raise EnvironmentConfigError(error.name, error.value, error.remedy) from None
