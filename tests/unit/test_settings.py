"""The settings page: exactly these differences from Scrapy's defaults, each deployment value from the environment."""

from __future__ import annotations

import ast
import importlib
import os
import runpy
import subprocess
import sys
from typing import Any

import pytest
from scrapy.settings import BaseSettings, default_settings

from crawler import config
from crawler.env import PROJECT
from crawler.errors import ConfigError
from tests.support.project import clean_env

SETTINGS = str(PROJECT / "crawler" / "settings.py")

WIRING = {
    "SPIDER_MODULES": ["crawler.spiders"],
    "NEWSPIDER_MODULE": "crawler.spiders",
    "COMMANDS_MODULE": "crawler.commands",
    "TEMPLATES_DIR": str(PROJECT / "crawler" / "templates"),
    "ROBOTSTXT_USER_AGENT": "crawler",
    "AUTOTHROTTLE_ENABLED": False,
    "DOWNLOADER_MIDDLEWARES_BASE": {
        **default_settings.DOWNLOADER_MIDDLEWARES_BASE,
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
        "crawler.compression.HttpCompressionMiddleware": 590,
        "crawler.guard.SchemeGuard": 935,
        "crawler.guard.PrivateAddressGuard": 940,
        "crawler.robots.RobotsCache": 945,
        "crawler.frontier.politeness.Politeness": 950,
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "crawler.robots.RobotsTxtMiddleware": 100,
        "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
        "crawler.canonical.redirects.RedirectMiddleware": 600,
        "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
        "crawler.canonical.redirects.MetaRefreshMiddleware": 580,
    },
    "REQUEST_FINGERPRINTER_CLASS": "crawler.canonical.CanonicalFingerprinter",
    "DUPEFILTER_CLASS": "crawler.dedup.BloomDupeFilter",
    "SCHEDULER": "crawler.frontier.Scheduler",
    "SPIDER_MIDDLEWARES_BASE": {
        **default_settings.SPIDER_MIDDLEWARES_BASE,
        "crawler.frontier.start.StartOnce": 10,
        "crawler.canonical.audit.AuditMiddleware": 20,
        "crawler.itemkeys.ItemFingerprint": 40,
    },
    "FEEDS": {"%(feed_dir)s/%(name)s/%(worker)s.jsonl": {"format": "jsonlines", "batch_item_count": 0}},
    "FEED_URI_PARAMS": "crawler.feeds.uri_params",
    "FEED_STORAGES": {"": "crawler.feeds.LocalFeedStorage", "file": "crawler.feeds.LocalFeedStorage"},
    "FEED_EXPORT_ENCODING": "utf-8",
    "ITEM_PIPELINES": {},
    "ITEM_PIPELINES_BASE": {
        "crawler.output.redis_list.RedisPipeline": 900,
        "crawler.output.postgres.PostgresPipeline": 910,
    },
    "EXTENSIONS_BASE": {
        "scrapy.extensions.corestats.CoreStats": 0,
        "scrapy.extensions.logcount.LogCount": 0,
        "crawler.consoles.TelnetConsole": 0,
        "scrapy.extensions.memusage.MemoryUsage": 0,
        "scrapy.extensions.memdebug.MemoryDebugger": 0,
        "scrapy.extensions.closespider.CloseSpider": 0,
        "scrapy.extensions.feedexport.FeedExporter": 0,
        "scrapy.extensions.logstats.LogStats": 0,
        "scrapy.extensions.spiderstate.SpiderState": 0,
        "scrapy.extensions.throttle.AutoThrottle": 0,
        "crawler.consoles.RemoteControl": 0,
        "crawler.metrics.extension.MetricsExtension": 500,
    },
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
}

# variable: (default, text in the environment, value it gives)
DEPLOYMENT: dict[str, tuple[Any, str, Any]] = {
    "CRAWLER_PRIVATE_HOSTS": ("", "intranet.example", "intranet.example"),
    "CRAWLER_SCHEMES": ("http,https", "https", "https"),
    "DOWNLOAD_MAXSIZE": (64 * 1024**2, "1000", 1000),
    "DOWNLOAD_TIMEOUT": (60, "2.5", 2.5),
    "BOT_NAME": ("crawler", "mybot", "mybot"),
    "USER_AGENT": ("crawler/1.0 (+contact not set)", "mine/2", "mine/2"),
    "WORKER_NAME": (f"{os.uname().nodename}-{os.getpid()}", "w1", "w1"),
    "REDIS_URL": (None, "redis://host:1/2", "redis://host:1/2"),
    "REDIS_HOST": (None, "host", "host"),
    "REDIS_PORT": (6379, "7000", 7000),
    "REDIS_DB": (0, "3", 3),
    "REDIS_CLUSTER": (False, "1", True),
    "REDIS_CLUSTER_NODES": ("", "a:7000,b:7000", "a:7000,b:7000"),
    "REDIS_SENTINELS": ("", "a:26379", "a:26379"),
    "REDIS_KEY_PREFIX": ("crawler", "other", "other"),
    "ROBOTSTXT_OBEY": (True, "no", False),
    "CRAWLER_ALLOW_PRIVATE": (False, "1", True),
    "DOWNLOAD_DELAY": (1.0, "0.25", 0.25),
    "CONCURRENT_REQUESTS": (16, "32", 32),
    "CONCURRENT_ITEMS": (16, "100", 100),
    "CONCURRENT_REQUESTS_PER_DOMAIN": (1, "4", 4),
    "CANONICAL_RULES": ("", "a.toml,b.toml", "a.toml,b.toml"),
    "CANONICAL_GROUPS": ("", "session", "session"),
    "CANONICAL_OFF": ("", "email", "email"),
    "CANONICAL_AUDIT": (0.0, "0.01", 0.01),
    "CANONICAL_LEARN": (0.0, "0.01", 0.01),
    "BLOOM_CAPACITY": (1_000_000, "5000", 5000),
    "BLOOM_ERROR_RATE": (1e-6, "1e-4", 1e-4),
    "BLOOM_GROWTH": (True, "0", False),
    "BLOOM_BACKEND": ("auto", "bitmap", "bitmap"),
    "DEDUP_SCOPE": ("", "news", "news"),
    "DEDUP_WINDOW": ("", "30d", "30d"),
    "DEDUP_WINDOW_GENERATIONS": (4, "6", 6),
    "DEDUP_MEMORY_SIZE": (10_000, "0", 0),
    "DEDUP_RECENT_SIZE": (1_000_000, "500", 500),
    "SCHEDULER_PERSIST": (True, "0", False),
    "SCHEDULER_FLUSH_ON_START": (False, "1", True),
    "FRONTIER": ("redis", "redis", "redis"),
    "FRONTIER_RUN": ("", "monday", "monday"),
    "FRONTIER_ORDER": ("priority", "lifo", "lifo"),
    "FRONTIER_HOST_DELAY": (None, "0", 0.0),
    "FRONTIER_HOST_CONCURRENCY": (None, "2", 2),
    "FRONTIER_BACKOFF": (1.0, "2", 2.0),
    "FRONTIER_BACKOFF_MAX": (600.0, "60", 60.0),
    "FRONTIER_CRAWL_DELAY_MAX": (30.0, "5", 5.0),
    "FRONTIER_ROBOTS_TTL": (86_400, "60", 60),
    "FRONTIER_HOST_MAX_PAGES": (0, "100", 100),
    "FRONTIER_MAX_REPEATED_SEGMENTS": (10, "0", 0),
    "FRONTIER_HOST_GIVE_UP": (14_400.0, "60", 60.0),
    "FRONTIER_CALENDAR_MAX": (1000, "0", 0),
    "FRONTIER_PIN_COOKIEJARS": (False, "1", True),
    "FRONTIER_SHARDS": (1, "16", 16),
    "FRONTIER_WAIT_REPLICAS": (0, "1", 1),
    "FRONTIER_LEASE": (120.0, "10", 10.0),
    "FRONTIER_GRACE": (8.0, "3", 3.0),
    "FRONTIER_IDLE": (0.0, "30", 30.0),
    "FRONTIER_MAX_DELIVERIES": (5, "2", 2),
    "FRONTIER_DEAD_MAX": (10_000, "7", 7),
    "FEED_DIR": ("items", "/data", "/data"),
    "FEED_BATCH_ITEMS": (0, "1000", 1000),
    "REDIS_PIPELINE_ENABLED": (False, "1", True),
    "POSTGRES_URL": ("", "postgresql://h/d", "postgresql://h/d"),
    "POSTGRES_TABLE": ("items", "crawled.items", "crawled.items"),
    "METRICS_ENABLED": (True, "0", False),
    "METRICS_HOST": ("127.0.0.1", "0.0.0.0", "0.0.0.0"),
    "METRICS_PORT": (9410, "9500", 9500),
    "METRICS_LINGER": (0.0, "15", 15.0),
    "METRICS_TEXTFILE": ("", "/var/lib/crawler.prom", "/var/lib/crawler.prom"),
    "METRICS_SD_FILE": ("", "targets.json", "targets.json"),
    "LOG_LEVEL": ("INFO", "DEBUG", "DEBUG"),
}


def load(monkeypatch: pytest.MonkeyPatch, **environ: str) -> dict[str, Any]:
    """The settings that `environ` gives, without this machine's environment and ``.env``."""
    for name in [*DEPLOYMENT, "CONTACT"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CRAWLER_ENV_FILE", "")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return {name: value for name, value in runpy.run_path(SETTINGS).items() if name.isupper() and name[0] != "_"}


COPY = (PROJECT / ".template").exists()  # there the page is its owner's, who may add and change


@pytest.mark.skipif(not COPY, reason="for copies of the template")
def test_a_copy_s_page_has_what_the_engine_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `make update` this names what the template's page got meanwhile: `make update` leaves yours alone."""
    page = load(monkeypatch)
    lacks = sorted({*WIRING, *DEPLOYMENT} - page.keys())
    for name, value in WIRING.items():
        lacks += [f"{name}[{key!r}]" for key in value if key not in page[name]] if isinstance(value, dict) else []
    assert lacks == [], "add these to crawler/settings.py as the template's page has them (docs/template.md)"


@pytest.mark.skipif(COPY, reason="the template's own page")
def test_the_whole_page_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch) == {**WIRING, **{name: default for name, (default, _, _) in DEPLOYMENT.items()}}


def test_no_entry_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrapy knows the setting, or the package reads it by its name, or another line of the page uses it."""
    used: set[str] = set()
    for path in (PROJECT / "crawler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if path.name == "settings.py":
                used |= {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else set()
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value)
    assert set(load(monkeypatch)) - set(default_settings.__all__) - used == set()


def test_every_deployment_value_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, **{name: text for name, (_, text, _) in DEPLOYMENT.items()})
    assert {name: settings[name] for name in DEPLOYMENT} == {name: value for name, (_, _, value) in DEPLOYMENT.items()}


def test_identity_is_in_the_user_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, BOT_NAME="mybot", CONTACT="https://example.com/bot")
    assert settings["USER_AGENT"] == "mybot/1.0 (+https://example.com/bot)"
    assert settings["ROBOTSTXT_USER_AGENT"] == "mybot"


def test_dotted_paths_in_the_page_exist() -> None:
    paths = _paths(WIRING)
    assert paths
    for path in paths:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


def _paths(value: object) -> list[str]:
    if isinstance(value, dict):
        return [path for pair in value.items() for part in pair for path in _paths(part)]
    return (
        [value] if isinstance(value, str) and value.startswith(("crawler.", "scrapy.")) and value.count(".") > 1 else []
    )


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("DOWNLOAD_DELAY", "fast", "must be a number"),
        ("DOWNLOAD_DELAY", "-1", "must be at least 0.0"),
        ("CONCURRENT_REQUESTS", "1.5", "must be a whole number"),
        ("CONCURRENT_REQUESTS", "0", "must be at least 1"),
        ("REDIS_PORT", "70000", "must be between 1 and 65535"),
        ("ROBOTSTXT_OBEY", "maybe", "must be 1 or 0"),
        ("BOT_NAME", "böt", "goes into a header of every request: write it in ASCII, on one line"),
        ("LOG_LEVEL", "LOUD", "must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
    ],
)
def test_a_bad_value_is_one_line(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(monkeypatch, **{variable: value})
    assert str(caught.value) == f"{variable}={value}: {remedy}"


@pytest.mark.parametrize("variable", ["BOT_NAME", "CONTACT", "USER_AGENT"])
def test_a_header_is_one_line_whatever_was_written(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(monkeypatch, **{variable: "a\r\nX: 1"})
    assert str(caught.value).startswith(f"{variable}=a\\r\\nX: 1: goes into a header of every request")


def test_a_bad_value_ends_the_command_with_that_line_only() -> None:
    environ = {**os.environ, "CRAWLER_ENV_FILE": "", "DOWNLOAD_DELAY": "fast"}
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "list"], cwd=PROJECT, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "DOWNLOAD_DELAY=fast: must be a number\n")


def test_a_crawl_in_one_process_needs_no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    page = load(monkeypatch, FRONTIER="memory")
    assert page["SCHEDULER"] == "scrapy.core.scheduler.Scheduler"
    assert page["DUPEFILTER_CLASS"] == "crawler.dedup.MemoryBloomDupeFilter"


@pytest.mark.parametrize("name", ["w" * 101, "ü" * 51, "two\nlines", "bell\a", "no text \udcff"])
def test_a_worker_name_that_would_break_files_or_keys_is_one_line(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^WORKER_NAME=.*: must be printable, and 100 bytes at most$") as caught:
        config.worker_name(BaseSettings({"WORKER_NAME": name}), "")
    assert str(caught.value).encode().count(b"\n") == 0
    assert config.worker_name(BaseSettings({"WORKER_NAME": "größe/1"}), "") == "größe/1"


def test_public_suffixes_come_without_the_network() -> None:
    program = (
        "import crawler.settings; from scrapy.downloadermiddlewares import cookies; "
        "assert cookies._split_domain.suffix_list_urls == (); assert cookies._is_public_domain('github.io')"
    )
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT, env=clean_env(), check=True, timeout=60)
