"""Prometheus in tests: a scrape by hand, the real promtool, a real server (Debian's package `prometheus` has both)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.server import free_port, wait_for


class Reply(NamedTuple):
    """What a worker's endpoint answered."""

    status: int
    text: str
    headers: dict[str, str]


def get(url: str, timeout: float = 5.0, **headers: str) -> Reply:
    """GET, whatever the status."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout) as answer:
            return Reply(answer.status, answer.read().decode(), dict(answer.headers))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read().decode(), dict(error.headers))


def targets(sd_file: Path) -> dict[str, str]:
    """Workers in a discovery file: name → ``host:port``."""
    try:
        return {entry["labels"]["worker"]: entry["targets"][0] for entry in json.loads(sd_file.read_text())}
    except FileNotFoundError:
        return {}


class Series(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """A scrape, parsed: name and labels → value."""

    @classmethod
    def of(cls, text: str) -> Self:
        """From the exposition format."""
        return cls(
            ((sample.name, frozenset(sample.labels.items())), float(sample.value))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )

    def sum(self, name: str, **labels: str) -> float:
        """Of all series of that name that have these labels; KeyError when there is none."""
        found = [value for (known, own), value in self.items() if known == name and own >= set(labels.items())]
        if not found:
            raise KeyError(name, labels)
        return sum(found)

    @property
    def names(self) -> set[str]:
        """Of all series."""
        return {name for name, _ in self}


def scrape(address: str) -> Series:
    """A worker's metrics now."""
    reply = get(f"http://{address}/metrics")
    assert reply.status == 200, reply
    return Series.of(reply.text)


def binary(name: str) -> str:
    """Path of promtool or prometheus; skips the test without it, fails it in CI."""
    path = shutil.which(name)
    if path is None:
        message = f"{name} is not installed: apt-get install prometheus"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


def promtool(*args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs promtool."""
    return subprocess.run(
        [binary("promtool"), *args], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


class Prometheus:
    """A real server in `folder`, with that configuration (a dict: JSON is YAML)."""

    def __init__(self, folder: Path, configuration: dict[str, Any]) -> None:
        self._binary = binary("prometheus")
        self.folder, self.port = folder, free_port()
        self.config = folder / "prometheus.yml"
        self.config.write_text(json.dumps(configuration))
        self._process: subprocess.Popen[bytes] | None = None

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """An instant query: labels → value; empty when there is no series."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        result = json.loads(get(url).text)
        assert result["status"] == "success", result
        return {tuple(sorted(row["metric"].items())): float(row["value"][1]) for row in result["data"]["result"]}

    def value(self, expression: str) -> float | None:
        """The value of a query with one series without labels; None without any."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return next(iter(found.values()), None)

    def __enter__(self) -> Self:
        words = [f"--config.file={self.config}", f"--storage.tsdb.path={self.folder / 'tsdb'}"]
        words += [f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]
        with (self.folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._binary, *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_for(self._ready, "Prometheus is ready", 30)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "prometheus.log").read_text()
        try:
            return get(f"http://127.0.0.1:{self.port}/-/ready", 1).status == 200
        except OSError:
            return False
