"""Each documented setting changes something: what no other test shows by its name is shown here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import getproxies

import pytest
import yaml  # type: ignore[import-untyped]
from redis.backoff import NoBackoff
from redis.retry import Retry
from scrapy import Request, Spider
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawler.connection import clients
from crawler.dedup import MemoryBloomDupeFilter, options
from crawler.frontier.failures import FailureReasons
from crawler.frontier.fed import idle_seconds
from crawler.frontier.policy import Policy
from crawler.guard import PrivateAddressGuard
from crawler.robots import RobotsCache
from tests.unit.test_project_docs import ROOT, first_column
from tests.unit.test_settings import WIRING

# Scrapy's, with Scrapy's effect and Scrapy's tests (and DOWNLOAD_MAXSIZE in test_hostile_site.py).
SCRAPYS = {"CONCURRENT_ITEMS", "DOWNLOAD_MAXSIZE", "LOG_ENABLED", "LOG_INSTALL_ROOT_HANDLER"}
LISTS = ("test_env.py", "test_settings.py", "test_settings_effect.py", "test_project_docs.py", "test_project_deploy.py")


def shown_elsewhere() -> set[str]:
    """Names in tests that are about something else than lists of settings."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name not in LISTS]
    return set(re.findall(r"[A-Z][A-Z0-9_]{2,}", "\n".join(texts)))


def shown_here() -> set[str]:
    return set(re.findall(r"[A-Z][A-Z0-9_]{2,}", Path(__file__).read_text()))


def test_each_documented_setting_has_a_test() -> None:
    documented = first_column(ROOT / "docs" / "settings.md")
    assert sorted(documented - set(WIRING) - SCRAPYS - shown_elsewhere() - shown_here() - set(compose_only())) == []


# setting → field of the frontier's policy, which its messages, and so the scripts' tests, are made of; what 7 becomes
POLICY = {
    "FRONTIER_CRAWL_DELAY_MAX": ("crawl_delay_max", 7),
    "FRONTIER_HOST_MAX_PAGES": ("host_max_pages", 7),
    "FRONTIER_CALENDAR_MAX": ("calendar_max", 7),
    "FRONTIER_MAX_REPEATED_SEGMENTS": ("max_repeats", 7),
    "FRONTIER_MAX_DELIVERIES": ("max_deliveries", 7),
    "FRONTIER_DEAD_MAX": ("dead_max", 7),
    "FRONTIER_GRACE": ("grace", 7),
    "FRONTIER_SHARDS": ("shards", 7),
    "FRONTIER_WAIT_REPLICAS": ("replicas", 7),
    "FRONTIER_BACKOFF": ("backoff", 7000),
    "FRONTIER_BACKOFF_MAX": ("backoff_max", 7000),
    "FRONTIER_HOST_GIVE_UP": ("give_up", 7000),
    "FRONTIER_HOST_DELAY": ("delay", 7000),
    "FRONTIER_HOST_CONCURRENCY": ("concurrency", 7),
    "FRONTIER_LEASE": ("lease", 7000),
}


@pytest.mark.parametrize("name", POLICY)
def test_the_frontier_takes_it(name: str) -> None:
    field, value = POLICY[name]
    before, after = (getattr(Policy.from_settings(Settings(some)), field) for some in ({}, {name: "7"}))
    assert before != after == value


@pytest.mark.parametrize(
    ("settings", "failed"),
    [
        ({}, True),
        ({"RETRY_HTTP_CODES": [500]}, False),
        ({"RETRY_ENABLED": False}, False),
        ({"HTTPERROR_ALLOW_ALL": True}, False),
        ({"HTTPERROR_ALLOWED_CODES": [503]}, False),
    ],
)
def test_which_status_is_a_failure(settings: dict[str, Any], failed: bool) -> None:
    request = Request("http://a.example/")
    reasons = FailureReasons(Settings(settings), Spider("a"))
    assert bool(reasons.of(request, Response(request.url, status=503))) == failed


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [({}, 0), ({"MAX_IDLE_TIME_BEFORE_CLOSE": 9}, 9), ({"MAX_IDLE_TIME_BEFORE_CLOSE": 9, "FRONTIER_IDLE": 5}, 5)],
)
def test_when_a_waiting_spider_closes(settings: dict[str, Any], seconds: float) -> None:
    assert idle_seconds(Spider("a"), Settings({"MAX_IDLE_TIME_BEFORE_CLOSE": 0, **settings})) == seconds


def test_the_size_of_the_recent_layer() -> None:
    small, large = (options.layered(Settings({"DEDUP_RECENT_SIZE": size}), "bitmap") for size in (500, 5000))
    assert small != large
    assert "500" in str(small)


@pytest.mark.parametrize("settings", [{"FRONTIER_ROBOTS_TTL": 0}, {"ROBOTSTXT_OBEY": False}])
def test_robots_txt_is_not_kept(settings: dict[str, Any]) -> None:
    with pytest.raises(NotConfigured):
        RobotsCache.from_crawler(get_crawler(settings_dict={"ROBOTSTXT_OBEY": True, **settings}))
    assert (
        RobotsCache.from_crawler(get_crawler(settings_dict={"ROBOTSTXT_OBEY": True, "FRONTIER_ROBOTS_TTL": 60}))._ttl
        == 60
    )


@pytest.mark.parametrize(("enabled", "trusted"), [(True, {"proxy.example"}), (False, set())])
def test_the_proxy_of_the_environment_is_trusted_if_it_is_used(
    monkeypatch: pytest.MonkeyPatch, enabled: bool, trusted: set[str]
) -> None:
    for name in getproxies():
        monkeypatch.delenv(f"{name}_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    handler = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
    settings = {"HTTPPROXY_ENABLED": enabled, "DOWNLOAD_HANDLERS": {"http": handler, "https": handler}}
    guard = PrivateAddressGuard.from_crawler(get_crawler(settings_dict=settings))
    assert guard._proxies == trusted


@pytest.mark.parametrize(("debug", "lines"), [(False, 1), (True, 3)])
def test_how_many_duplicates_are_logged(debug: bool, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    crawler = get_crawler(settings_dict={"DUPEFILTER_DEBUG": debug})
    duplicates = MemoryBloomDupeFilter.from_crawler(crawler)
    with caplog.at_level("DEBUG"):
        for _ in range(3):
            duplicates.log(Request("http://a.example/"), Spider("a"))
    assert sum("Filtered duplicate request" in message for message in caplog.messages) == lines


def test_sentinels_get_their_own_password() -> None:
    settings = Settings({"REDIS_SENTINEL_PARAMS": {"password": "of the sentinels"}})
    assert clients._sentinel_kwargs(settings, Retry(NoBackoff(), 0))["password"] == "of the sentinels"


def compose_only() -> Iterator[str]:
    """Variables of the section "Docker compose only"."""
    text = (ROOT / "docs" / "settings.md").read_text().partition("## Docker compose only")[2]
    for cell in re.findall(r"^\| *(`[^|]*`) *\|", text, re.MULTILINE):
        yield from re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("name", sorted(compose_only()))
def test_compose_uses_it(name: str) -> None:
    files = [ROOT / "docker-compose.yml", ROOT / "docker-compose.override.yml"]
    services = yaml.safe_load(files[0].read_text())["services"]
    assert {"redis", "worker"} <= set(services)
    # COMPOSE_PROJECT_NAME is compose's own; it names the image too.
    assert any(re.search(rf"\$\{{{name}(:?[-?]|\}})|^      {name}:", file.read_text(), re.MULTILINE) for file in files)
