"""The settings of the metrics endpoint, read and checked once."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crawler import config
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


# What reads the file passes over all others without a word.
_READ = {"METRICS_TEXTFILE": (".prom",), "METRICS_SD_FILE": (".json", ".yml", ".yaml")}
_READERS = {"METRICS_TEXTFILE": "is no folder, and node_exporter", "METRICS_SD_FILE": "Prometheus"}


@dataclass(frozen=True, slots=True)
class Options:
    """Where metrics are shown. `linger` is seconds; `textfile` and `discovery` are None when not wanted."""

    host: str = "127.0.0.1"
    port: int = 9410
    linger: float = 0.0
    textfile: Path | None = None
    discovery: Path | None = None

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Options:
        """Raises ConfigError for the first unusable setting."""
        options = cls(
            host=config.text(settings, "METRICS_HOST", "127.0.0.1"),
            port=config.integer(settings, "METRICS_PORT", 9410, high=65535),
            linger=config.number(settings, "METRICS_LINGER", 0, high=3600),
            textfile=_path("METRICS_TEXTFILE", config.text(settings, "METRICS_TEXTFILE")),
            discovery=_path("METRICS_SD_FILE", config.text(settings, "METRICS_SD_FILE")),
        )
        _check_host(options.host)
        return options


def _path(name: str, value: str) -> Path | None:
    if not value:
        return None
    path = Path(value).absolute()
    if not path.parent.is_dir():
        raise ConfigError(name, value, f"the folder {path.parent} does not exist: make it, or correct the path")
    if path.is_dir() and name == "METRICS_SD_FILE":
        raise ConfigError(name, value, "must name a file, not a folder")
    if not path.is_dir() and path.suffix not in _READ[name]:
        raise ConfigError(name, value, f"{_READERS[name]} reads only files that end in {' or '.join(_READ[name])}")
    return path


def _check_host(host: str) -> None:
    """An address of this machine; the port does not matter here."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as error:
        raise ConfigError(
            "METRICS_HOST", host, f"is no address of this machine ({error.strerror}): 127.0.0.1, or 0.0.0.0 for all"
        ) from None
