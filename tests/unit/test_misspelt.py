"""Settings that nothing reads are named, with the one that was meant; so is a user agent without an address."""

from __future__ import annotations

import logging

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from crawler.commands import contact, misspelt
from crawler.env import read_env_file
from tests.unit.test_project_docs import ROOT, assigned_settings, first_column, read_settings
from tests.unit.test_settings import COPY


def said(caplog: pytest.LogCaptureFixture, settings: dict[str, object], environment: dict[str, str]) -> list[str]:
    with caplog.at_level(logging.WARNING):
        misspelt.warn(Settings(settings), environment)
    return caplog.messages


def test_the_list_is_what_the_code_reads_and_the_docs_tell() -> None:
    read = assigned_settings() | read_settings() | {"CRAWLER_ENV_FILE"}
    assert {name for name in read if name.startswith(misspelt.PREFIXES)} == misspelt.KNOWN
    documented = first_column(ROOT / "docs" / "settings.md")
    assert {name for name in documented if name.startswith(misspelt.PREFIXES)} == misspelt.KNOWN


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FRONTIER_LAESE", "FRONTIER_LEASE"),
        ("BLOOM_CAPCITY", "BLOOM_CAPACITY"),
        ("CANONICAL_RULE", "CANONICAL_RULES"),
        ("CRAWLER_PRIVAT_HOSTS", "CRAWLER_PRIVATE_HOSTS"),
        ("DEDUP_WINDOWS", "DEDUP_WINDOW"),
        ("METRIC_PORT", ""),  # another prefix: perhaps the user's own
    ],
)
def test_a_misspelt_name_is_told_wherever_it_stands(caplog: pytest.LogCaptureFixture, name: str, meant: str) -> None:
    line = [f"{name}: no such setting; did you mean {meant}?"] if meant else []
    assert said(caplog, {name: 60}, {}) == line
    caplog.clear()
    assert said(caplog, {}, {name: "60"}) == line
    caplog.clear()
    assert said(caplog, {name: 60}, {name: "60"}) == line


def test_what_may_be_a_secret_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    secrets = {"CRAWLER_PRIVATE_KEY": "s3cret", "METRICS_HOST_TOKEN": "s3cret"}  # like names of ours
    assert "s3cret" not in " ".join(said(caplog, dict(secrets), secrets))
    caplog.clear()
    lines = said(caplog, {}, {"CRAWLER_PROXY_PASSWORD": "s3cret"})
    assert lines == ["CRAWLER_PROXY_PASSWORD: no such setting, nothing reads it; docs/settings.md lists all"]


def test_what_others_name_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    services = {
        "CRAWLER_SERVICE_HOST": "10.0.0.1",
        "CRAWLER_SERVICE_PORT_HTTP": "80",
        "CRAWLER_PORT": "tcp://10.0.0.1:80",
        "METRICS_PORT_9410_TCP_ADDR": "10.0.0.1",
    }
    own = {"MYSHOP_LIMIT": 3, "BLOOMFILTER_BIT": 30, "FRONTIER": "redis", "METRIC_PORT": 1}
    assert said(caplog, {**own, **dict.fromkeys(misspelt.KNOWN, "1")}, services) == []


@pytest.mark.parametrize("nobody", contact.NOBODY)
def test_a_user_agent_without_an_address_is_told(caplog: pytest.LogCaptureFixture, nobody: str) -> None:
    contact.warn(Settings({"USER_AGENT": f"shop/1.0 (+{nobody})"}), Spider)
    assert len(caplog.messages) == 1
    assert f"shop/1.0 (+{nobody}), names nobody to write to: set CONTACT in .env" in caplog.messages[0]
    caplog.clear()
    contact.warn(Settings({"USER_AGENT": "shop/1.0 (+https://shop.example/bot)"}), Spider)
    own = type("Own", (Spider,), {"user_agent": "shop/1.0 (+https://shop.example/bot)"})
    contact.warn(Settings({"USER_AGENT": f"shop/1.0 (+{nobody})"}), own)
    assert caplog.messages == []


@pytest.mark.skipif(COPY, reason="the template's own page")
def test_nobody_is_who_the_page_and_the_example_name() -> None:
    assert f"'{contact.NOBODY[0]}'" in (ROOT / "crawler" / "settings.py").read_text()
    assert read_env_file(ROOT / ".env.example")["CONTACT"] == contact.NOBODY[1]
