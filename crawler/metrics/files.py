"""Metrics by way of files: for node_exporter's textfile collector, and for Prometheus's file-based discovery."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

_DAY = 86_400.0


def replace(path: Path, data: bytes) -> None:
    """Writes a file so that a reader sees the old one or the new one, never half of it. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# node_exporter --------------------------------------------------------------------------------------------------------


class Textfile:
    """Writes what `registry` has to a ``.prom`` file: `path` itself, or in the folder `path` one file per worker.

    Only ``crawler_*``: node_exporter has ``process_*`` of its own. Each series gets a label `worker`, because it would
    clash with another worker's. The last values stay after the crawl; files that are a day old are removed.
    """

    def __init__(self, path: Path, worker: str, registry: CollectorRegistry) -> None:
        self.path = path / f"crawler_{re.sub(r'[^A-Za-z0-9_-]', '_', worker)}.prom" if path.is_dir() else path
        self._labelled = CollectorRegistry()
        self._labelled.register(_Labelled(registry, {"worker": worker}))
        if path.is_dir():
            _remove_old(path)

    def write(self) -> None:
        """Replaces the file. Raises OSError."""
        replace(self.path, generate_latest(self._labelled))


class _Labelled(Collector):
    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        self._registry, self._labels = registry, dict(labels)

    def describe(self) -> list[Metric]:
        return []  # nothing is collected when it is registered

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            if metric.name.startswith("crawler_"):
                own = Metric(metric.name, metric.documentation, metric.type)
                own.samples = [
                    sample._replace(labels={**sample.labels, **self._labels})
                    for sample in metric.samples
                    if not sample.name.endswith("_created")
                ]
                yield own


def _remove_old(folder: Path) -> None:
    for file in folder.glob("crawler_*.prom"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _DAY:
                file.unlink()


# Prometheus's file_sd -------------------------------------------------------------------------------------------------


class Discovery:
    """This worker's entry in a file of targets that all workers of a machine share.

    Whoever writes removes the entries behind which nobody listens any more.
    """

    def __init__(self, path: Path, address: str, labels: Mapping[str, str]) -> None:
        self.path, self._entry = path, {"targets": [address], "labels": dict(labels)}

    def enter(self) -> None:
        """Adds or renews the entry. Raises OSError."""
        self._update([self._entry])

    def leave(self) -> None:
        """Removes the entry. Raises OSError."""
        self._update([])

    def _update(self, own: list[dict[str, Any]]) -> None:
        with self.path.with_name(f".{self.path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = _entries(self.path)
            others = [entry for entry in before if entry["targets"] != self._entry["targets"] and _listens(entry)]
            after = sorted([*others, *own], key=lambda entry: entry["targets"])
            if after != before or not self.path.exists():
                replace(self.path, (json.dumps(after, indent=1) + "\n").encode())


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text())
        return [entry for entry in entries if entry["targets"] and isinstance(entry["labels"], dict)]
    except (OSError, ValueError, TypeError, KeyError):  # not there, or no list of targets: begun anew
        return []


def _listens(entry: Mapping[str, Any]) -> bool:
    host, _, port = str(entry["targets"][0]).rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=0.5).close()
    except (OSError, ValueError):
        return False
    return True
