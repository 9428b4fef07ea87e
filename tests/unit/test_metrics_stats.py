"""Scrapy's stats become metrics: a name of their own, or one scheme that no crawl can blow up."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier import traps
from crawler.metrics import stats

ROOT = Path(__file__).parents[2]
METRICS = (ROOT / "docs" / "metrics.md").read_text()
SPIDER = {"spider": "site"}


def shown(values: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(series, its only label besides the spider) → value."""
    found = {}
    for family in stats.families(values, SPIDER):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("spider") == "site"
            found[sample.name, ",".join(labels.values())] = sample.value
    return found


CASES: list[tuple[dict[str, Any], str, str, float]] = [
    ({"downloader/response_bytes": 900}, "crawler_response_bytes_total", "", 900),
    ({"item_scraped_count": 5}, "crawler_items_total", "scraped", 5),
    ({"item_dropped_count": 5}, "crawler_items_total", "dropped", 5),
    ({"item_error_count": 5}, "crawler_items_total", "failed", 5),
    ({"item_error_count": 5}, "crawler_errors_total", "pipeline", 5),
    ({"downloader/exception_type_count/twisted.internet.error.TimeoutError": 3}, "crawler_errors_total", "download", 3),
    ({"downloader/exception_type_count/scrapy.exceptions.IgnoreRequest": 3}, "crawler_errors_total", "download", 0),
    ({"spider_exceptions/count": 1, "spider_exceptions/ValueError": 1}, "crawler_errors_total", "callback", 1),
    ({"retry/max_reached": 1}, "crawler_errors_total", "retries", 1),
    ({"scheduler/enqueued": 4}, "crawler_dedup_checks_total", "new,server", 4),
    ({"dupefilter/filtered": 9}, "crawler_dedup_checks_total", "duplicate,server", 9),
    ({"dupefilter/filtered": 9, "dupefilter/filtered/memory": 6}, "crawler_dedup_checks_total", "duplicate,server", 3),
    ({"dupefilter/filtered": 9, "dupefilter/filtered/memory": 6}, "crawler_dedup_checks_total", "duplicate,memory", 6),
    ({"canonical/urls": 10, "canonical/changed": 4}, "crawler_canonical_urls_total", "true", 4),
    ({"canonical/urls": 10, "canonical/changed": 4}, "crawler_canonical_urls_total", "false", 6),
    ({"canonical/stripped/campaign": 2}, "crawler_canonical_stripped_total", "campaign", 2),
    ({"canonical/audit/changed": 2}, "crawler_canonical_audit_total", "changed", 2),
    ({"frontier/failed": 2}, "crawler_frontier_failed_total", "", 2),
    ({"frontier/lease_lost": 2}, "crawler_frontier_lease_lost_total", "", 2),
    ({"frontier/hosts_given_up": 2}, "crawler_frontier_hosts_given_up_total", "", 2),
    ({"scheduler/unserializable": 2}, "crawler_frontier_local_total", "", 2),
    ({"robotstxt/forbidden": 2}, "crawler_frontier_dropped_total", "robots", 2),
    ({"guard/refused": 2}, "crawler_frontier_dropped_total", "private", 2),
    ({"guard/scheme": 2}, "crawler_frontier_dropped_total", "scheme", 2),
    ({"frontier/dropped/host_max_pages": 2}, "crawler_frontier_dropped_total", "host_max_pages", 2),
    ({"retry/count": 3}, "crawler_scrapy_stat", "retry/count", 3),
    ({"downloader/response_status_count/404": 3}, "crawler_scrapy_stat", "downloader/response_status_count/404", 3),
    ({"shop/out_of_stock": 3}, "crawler_scrapy_stat", "shop/out_of_stock", 3),
    ({"start_time": datetime(2030, 1, 1, tzinfo=UTC)}, "crawler_scrapy_stat", "start_time", 1893456000),
    ({"pages/www.example.com": 3, "pages/example.org:8080": 4}, "crawler_scrapy_stat", "pages/*", 7),
    ({"pages/127.0.0.1": 3, "pages/[::1]:80": 4}, "crawler_scrapy_stat", "pages/*", 7),
    ({"seen/http://example.com/a/b": 3}, "crawler_scrapy_stat", "seen/*", 3),
    ({"product/123456/views": 3}, "crawler_scrapy_stat", "product/*/views", 3),
    ({"query/a=1&b=2": 3}, "crawler_scrapy_stat", "query/*", 3),
]  # fmt: skip


@pytest.mark.parametrize(("values", "series", "label", "value"), CASES)
def test_each_stat_has_its_place(values: dict[str, Any], series: str, label: str, value: float) -> None:
    assert shown(values)[series, label] == value


def test_what_has_a_name_of_its_own_is_not_shown_twice() -> None:
    values = {stat: 1 for case, series, _, _ in CASES for stat in case if series != "crawler_scrapy_stat"}
    others = {label for series, label in shown(values) if series == "crawler_scrapy_stat"}
    assert others == {"downloader/exception_type_count/scrapy.exceptions.IgnoreRequest", "spider_exceptions/ValueError"}


def test_what_is_no_number_is_left_out() -> None:
    assert shown({"finish_reason": "finished", "x": None, "y": ["a"], "z": float("nan")}) == shown({})


def test_an_idle_worker_shows_zeros_not_nothing() -> None:
    idle = shown({})
    assert {name for name, _ in idle} >= set(stats.names()) - {
        "crawler_scrapy_stat",
        "crawler_canonical_stripped_total",
    }
    assert set(idle.values()) == {0.0}
    assert ("crawler_errors_total", "download") in idle, "an alert on a series that is not there never fires"


def test_a_stat_per_host_or_reason_stays_bounded_and_complete() -> None:
    many = {f"verdict/kind{number}-of-page": 1 for number in range(10_000)}
    many |= {f"frontier/dropped/reason_{chr(97 + n // 26)}{chr(97 + n % 26)}": 1 for n in range(500)}
    found = shown(many)
    assert len(found) < 400
    assert sum(value for (name, _), value in found.items() if name == "crawler_scrapy_stat") == 10_000
    assert sum(value for (name, _), value in found.items() if name == "crawler_frontier_dropped_total") == 500


def test_what_is_shown_once_stays_shown() -> None:
    first = {f"zz{number}-of-page": 1 for number in range(150)}
    later = {**first, **{f"aa{number}-of-page": 1 for number in range(900)}}
    assert shown(first).keys() <= shown(later).keys()


def test_each_label_value_is_documented() -> None:
    """And each documented one is there from the start, so that an alert or a panel on it reads 0 and not nothing."""
    rows = re.findall(r"^\| `(crawler_\w+)_total` \| counter \| ([^|]*) \|([^|]*)\|([^|]*)\|", METRICS, re.MULTILINE)
    documented = {name: set(re.findall("`([a-z_]+)`", label + text)) for name, label, _, text in rows}
    for name, counter in stats.COUNTERS.items():
        if counter.values:
            assert documented[name] - {counter.label, "CANONICAL_AUDIT"} == set(counter.values), name


def test_each_reason_to_drop_a_request_is_known() -> None:
    code = "".join(path.read_text() for path in (ROOT / "crawler").rglob("*.py"))
    reasons = set(re.findall(r"frontier/dropped/(\w+)", code)) | {traps.REPEATED}
    assert reasons >= {"host_max_pages"}
    assert reasons - set(stats.COUNTERS["crawler_frontier_dropped"].values) == set()


@given(st.dictionaries(st.text(), st.one_of(st.integers(), st.floats(), st.text(), st.booleans()), max_size=20))
def test_any_stats_give_metrics(values: dict[str, Any]) -> None:
    for family in stats.families(values, SPIDER):
        keys = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        assert len(keys) == len(set(keys)), "a series twice: Prometheus would refuse the scrape"


NOBODY_KNOWS_WHEN = datetime.min  # noqa: DTZ901 (a date that is no time stamp)


@pytest.mark.parametrize(
    "odd",
    [{"shop/\udcff": 1}, {"canonical/stripped/\udc00": 1}, {"big": 10**400}, {7: 1}, {"date": NOBODY_KNOWS_WHEN}],
)
def test_an_odd_stat_costs_no_other(odd: dict[Any, Any]) -> None:
    found = shown({**odd, "retry/count": 3})
    assert found["crawler_scrapy_stat", "retry/count"] == 3
    assert "".join(label for _, label in found).encode(), "all of it can be sent"
