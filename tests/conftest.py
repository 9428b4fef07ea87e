"""Fixtures that every test may use: a real server of this test process, emptied before each test."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
from collections.abc import Iterator

import pytest
import redis as redis_py
from hypothesis import settings

# Their asserts tell what they compared, too.
pytest.register_assert_rewrite("tests.support", "tests.e2e.crew", "tests.e2e.compose_checks")

from tests.support import project  # noqa: E402 (what is imported before it is asked for is not rewritten)
from tests.support.server import RedisServer  # noqa: E402

# Hypothesis fails what takes over 200 ms, which a busy machine makes of anything; what hangs, pytest's time-out ends.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")

pytest_plugins = ["tests.site.fixtures"] if importlib.util.find_spec("tests.site.fixtures") else []


def pytest_configure() -> None:
    """No test reads this copy's ``.env``; and a test run that is told to end (CI's time-out) stops what it started."""
    os.environ["CRAWLER_ENV_FILE"] = ""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: pytest.exit("SIGTERM", returncode=143))
        # A run started in a shell's background ignores SIGINT, and so would the processes whose Ctrl-C is tested.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The server of this test process (one per xdist worker). A test that reconfigures a server makes its own."""
    with RedisServer(appendonly=True) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """URL of the server, alive and empty."""
    if not redis_server.alive:
        redis_server.restart()
    redis_server.resume()
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def redis(redis_server: RedisServer, redis_url: str) -> Iterator[redis_py.Redis]:
    """A client on the empty server: bytes in, bytes out, no retries."""
    with redis_server.client() as client:
        yield client


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    """A test that fails half-way leaves no worker behind."""
    before = len(project.started())
    yield
    project.kill_started(before)
