"""Benchmarks take minutes: they run with `make bench` only. And the servers of those of the dupefilter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.support import seen


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks whatever lies in this folder as slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["redis7", "valkey"])
def client(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """Of a server of the dedup benchmarks' own."""
    with seen.start(request.param) as server, server.client(socket_timeout=120) as client:
        yield client


@pytest.fixture(params=["redis7+module"])
def module_client(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """The same with a Bloom filter of the server's."""
    with seen.start(request.param) as server, server.client(socket_timeout=120) as client:
        yield client
