"""Fixtures of the tests that run ``scrapy frontier``."""

from __future__ import annotations

import pytest
import redis as redis_py

from tests.support.frontier_command import FakeWorker, Frontier


@pytest.fixture
def frontier(redis_url: str, capfd: pytest.CaptureFixture[str]) -> Frontier:
    return Frontier(redis_url, capfd)


@pytest.fixture
def worker(redis: redis_py.Redis) -> FakeWorker:
    return FakeWorker(redis)
