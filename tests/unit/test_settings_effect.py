"""Settings whose effect no other test shows; which test shows which is in ``tests/support/effects.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
from crawler.dedup import MemoryBloomDupeFilter
from crawler.frontier.failures import FailureReasons
from crawler.frontier.fed import idle_seconds
from crawler.guard import PrivateAddressGuard
from crawler.robots import RobotsCache
from tests.unit.test_project_docs import ROOT


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
