"""The frontier's settings: checked once, each error in one line."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.errors import ConfigError
from crawler.frontier.policy import Policy


def policy(**settings: Any) -> Policy:
    return Policy.from_settings(Settings(settings))


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("FRONTIER_LEASE", "0.5", "must be at least 1"),
        ("FRONTIER_LEASE", "soon", "must be a number"),
        ("FRONTIER_GRACE", -1, "must be at least 0.0"),
        ("FRONTIER_MAX_DELIVERIES", 0, "must be at least 1"),
        ("FRONTIER_ORDER", "random", "must be one of priority, fifo, lifo"),
        ("FRONTIER_HOST_CONCURRENCY", 0, "must be at least 1"),
        ("FRONTIER_HOST_DELAY", "x", "must be a number"),
        ("DOWNLOAD_DELAY", "nan", "must be a finite number"),
        ("CONCURRENT_REQUESTS", "many", "must be a whole number"),
        ("SCHEDULER_PERSIST", "maybe", "must be 1 or 0"),
        ("FRONTIER_LEASE", "1e300", "must be at most 1099511627776"),
        ("FRONTIER_DEAD_MAX", 10**30, "must be at most 1099511627776"),
    ],
)
def test_a_bad_setting_is_named_with_its_value_and_the_remedy(name: str, value: object, remedy: str) -> None:
    with pytest.raises(ConfigError) as error:
        policy(**{name: value})
    assert str(error.value) == f"{name}={value}: {remedy}"


@pytest.mark.parametrize("slot", [{"delay": "x"}, {"delay": -1}, {"delay": float("nan")}, {"concurrency": "x"}, 5])
def test_a_bad_slot_is_named_with_its_host(slot: object) -> None:
    with pytest.raises(ConfigError, match=r"^DOWNLOAD_SLOTS={'h.example': .*must be like"):
        policy(DOWNLOAD_SLOTS={"h.example": slot, "other.example": {"delay": 1}})


def test_autothrottle_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^AUTOTHROTTLE_ENABLED=True: must be 0: .*FRONTIER_HOST_DELAY"):
        policy(AUTOTHROTTLE_ENABLED=True)


def test_scrapys_settings_are_the_defaults() -> None:
    made = policy(DOWNLOAD_DELAY=1.5, CONCURRENT_REQUESTS_PER_DOMAIN=3, CONCURRENT_REQUESTS=7)
    assert (made.delay, made.concurrency, made.capacity) == (1500, 3, 7)


def test_the_frontiers_own_settings_win() -> None:
    made = policy(
        DOWNLOAD_DELAY=1.5, CONCURRENT_REQUESTS_PER_DOMAIN=3, FRONTIER_HOST_DELAY=0, FRONTIER_HOST_CONCURRENCY=9
    )
    assert (made.delay, made.concurrency) == (0, 9)


def test_no_limit_still_leases_a_bounded_number() -> None:
    made = policy(CONCURRENT_REQUESTS=0, CONCURRENT_REQUESTS_PER_DOMAIN=0)
    assert (made.capacity, made.concurrency) == (256, 256)


def test_download_slots_become_the_hosts_own_limits() -> None:
    made = policy(
        DOWNLOAD_DELAY=1, CONCURRENT_REQUESTS_PER_DOMAIN=2,
        DOWNLOAD_SLOTS={"slow.example": {"delay": 5}, "quick.example": {"concurrency": 8, "delay": 0}},
    )  # fmt: skip
    assert made.hosts == {"slow.example": (5000, 2), "quick.example": (0, 8)}
