"""README's figures: what needs no measuring is computed again, the rest is what docs/benchmarks.json says."""

from __future__ import annotations

import json
from pathlib import Path

from scrapy import Request
from scrapy.settings import Settings
from scrapy.utils.request import fingerprint

from crawler.canonical import sources
from tests.unit.canonical_corpus import pairs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_pairs_that_are_merged() -> None:
    canonical = sources.load(Settings()).canonicaliser().canonical
    judged = pairs("default")
    same = [pair for pair in judged if pair.same]
    other = [pair for pair in judged if not pair.same]

    def scrapy(url: str) -> object:
        try:
            return fingerprint(Request(url))
        except ValueError:  # no URL for Scrapy
            return object()

    ours = [sum(canonical(pair.a) == canonical(pair.b) for pair in some) for some in (same, other)]
    theirs = [sum(scrapy(pair.a) == scrapy(pair.b) for pair in some) for some in (same, other)]
    row = next(line for line in README.splitlines() if line.startswith("| spellings of one URL"))
    assert f"[{len(judged)} pairs]" in row
    assert f"| {ours[0]} of {len(same)} merged, {ours[1]} of {len(other)} wrongly |" in row
    assert f"| Scrapy's: {theirs[0]}, {theirs[1]} wrongly |" in row


# What holds our column of each row of the comparison.
HELD_BY = {
    "a worker is killed": "e2e/test_crash.py::test_kill_of_one_of_three_loses_nothing",
    "a reply of Redis is lost": "e2e/test_outage.py::test_lost_replies_lose_nothing",
    "seen pages": "integration/test_dedup_bloom.py::test_the_real_error_stays_within_the_configured_one",
    '"new" for one URL, many workers': "integration/test_dedup_processes.py::test_each_element_is_new_exactly_once",
    "spellings of one URL": "unit/test_readme.py::test_the_pairs_that_are_merged",
    "pace of a site": "e2e/test_workers.py::test_one_pace_for_a_site_whatever_the_number_of_workers",
    "requests in Redis": "unit/test_payload_stored.py::test_any_bytes_are_a_request_or_a_payload_error",
    "one bad seed among ten": "e2e/test_seeds.py::test_one_malformed_seed_of_ten_costs_only_itself",
    "metrics, alerts, dashboard": "unit/test_metrics_deploy.py::test_each_alert_is_explained_and_has_both_cases",
}


def test_each_row_of_the_comparison_is_held_by_a_test() -> None:
    table = README.partition("## Next to others")[2].partition("## Measured")[0]
    rows = [line.split("|")[1].strip().partition(" ([")[0] for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows == list(HELD_BY)
    for place in HELD_BY.values():
        path, name = place.split("::")
        assert f"\ndef {name}(" in (Path(__file__).parents[1] / path).read_text(), place


def test_the_table_of_pace_is_what_was_measured() -> None:
    rows = json.loads((ROOT / "docs" / "benchmarks.json").read_text())["worker"]["rows"]
    found = {(row["mode"], row["ms"]): row for row in rows if row["workers"] == 1}
    names = {"this project": "ours", "scrapy-redis": "scrapy-redis", "scrapy-redis-bloomfilter": "bloomfilter"}
    table = README.partition("## Measured")[2].partition("## Read on")[0]
    for name, mode in names.items():
        near, distant = found[mode, 0], found[mode, 3]
        calls = f"{near['calls_per_page']:.2f}" if mode == "ours" else f"{near['calls_per_page']:.0f}"
        figures = f"{near['pace']:.2f} | {near['cost']:.2f} | {distant['pace']:.2f} | {calls}"
        assert f"| {name} | {figures} |" in table
