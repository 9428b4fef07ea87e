"""Metrics by way of files: for node_exporter's textfile collector, and for Prometheus's file-based discovery."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import socket
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

logger = logging.getLogger(__name__)

_ABANDONED = 900.0  # seconds without a writing (there is one every ten) after which a worker's file is no use any more
_LASTING = ("counter", "histogram")  # types whose last values stay true


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
    clash with another worker's. node_exporter serves a file for as long as it is there, so nothing may stay that is
    true only while the worker lives: at the end the file keeps the counters alone, and whoever writes to a folder
    removes files there that nobody has written for a quarter of an hour.
    """

    def __init__(self, path: Path, worker: str, registry: CollectorRegistry) -> None:
        self._folder = path if path.is_dir() else None
        self.path = path / f"crawler_{re.sub(r'[^A-Za-z0-9_-]', '_', worker)}.prom" if self._folder else path
        self._labelled, self._ending = CollectorRegistry(), CollectorRegistry()
        self._labelled.register(_Labelled(registry, {"worker": worker}))
        self._ending.register(_Labelled(registry, {"worker": worker}, _LASTING))
        self._told = False  # that somebody else writes it
        self._own: int | None = None  # inode of what was written last, as nobody else's file can have

    def write(self) -> None:
        """Replaces the file. Raises OSError."""
        self._replace(self._labelled)

    def leave(self) -> None:
        """Replaces the file by what stays true: the counters. Raises OSError."""
        self._replace(self._ending)

    def _replace(self, registry: CollectorRegistry) -> None:
        if not self._told and self._own is not None and _inode(self.path) not in (self._own, None):
            self._told = True
            logger.warning(
                "METRICS_TEXTFILE=%s: another worker writes it too, and only one of them is seen at a time: "
                "name a folder, where each has its own (by WORKER_NAME)", self.path,
            )  # fmt: skip
        replace(self.path, generate_latest(registry))
        self._own = _inode(self.path)
        if self._folder is not None:
            _remove_abandoned(self._folder)


def _inode(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino
    return None


class _Labelled(Collector):
    def __init__(
        self, registry: CollectorRegistry, labels: Mapping[str, str], types: Collection[str] | None = None
    ) -> None:
        self._registry, self._labels, self._types = registry, dict(labels), types

    def describe(self) -> list[Metric]:
        return []  # nothing is collected when it is registered

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            if metric.name.startswith("crawler_") and (self._types is None or metric.type in self._types):
                own = Metric(metric.name, metric.documentation, metric.type)
                own.samples = [
                    sample._replace(labels={**sample.labels, **self._labels})
                    for sample in metric.samples
                    if not sample.name.endswith("_created")
                ]
                yield own


def _remove_abandoned(folder: Path) -> None:
    for file in (*folder.glob("crawler_*.prom"), *folder.glob(".crawler_*.prom.*")):  # half-written ones as well
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _ABANDONED:
                file.unlink()


# Prometheus's file_sd -------------------------------------------------------------------------------------------------


class Discovery:
    """This worker's entry in a file of targets that all workers of a machine share.

    Whoever writes removes the entries behind which nobody listens any more.
    """

    def __init__(self, path: Path, address: str, labels: Mapping[str, str]) -> None:
        self.path, self._entry = path, {"targets": [address], "labels": dict(labels)}

    def write(self) -> None:
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
