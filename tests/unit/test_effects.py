"""Each documented setting, key, command and metric has a test that it has an effect.

The table of settings is in ``tests/support/effects.py``, for ``tests/e2e/test_ignored.py`` proves it.
"""

from __future__ import annotations

import re

import pytest

from crawler.commands import dedup, frontier
from crawler.metrics.frontier import GAUGES
from crawler.metrics.stats import COUNTERS
from crawler.metrics.stats import names as names_of_stats
from tests.support.effects import SCRAPYS, SETTINGS
from tests.unit.test_metrics_stats import CASES
from tests.unit.test_project_docs import ROOT, first_column
from tests.unit.test_settings_effect import compose_only

KEYS = {  # what is wrong, lost or done twice without it
    "TAG:dedup:meta": "test_other_parameters_are_refused_naming_both_values",
    "TAG:dedup:ID:*": "test_clear_leaves_no_key_and_the_next_filter_begins_a_new_epoch",
    "TAG:history:dedup:*": "test_a_layered_memory_keeps_its_history_apart",
    "TAG:wN:dedup:*": "test_each_generation_of_a_window_has_keys_of_its_own",
    "TAG:shards": "test_flush_empties_every_shard_and_frees_their_number",
    "TAG:audit*": "test_an_audited_crawl_tells_which_rule_eats_pages",
    "BASE:meta": "test_other_versions_are_refused",
    "BASE:runs": "test_a_pinned_run_is_not_begun_twice",
    "BASE:ready": "test_hosts_take_turns_and_a_worker_can_pass_over_one",
    "BASE:queue:HOST": "test_priority_then_age",
    "BASE:requests": "test_new_seen_and_unfiltered",
    "BASE:leases": "test_a_renewed_lease_stays",
    "BASE:owners": "test_a_stale_owner_changes_nothing",
    "BASE:deliveries": "test_a_request_that_keeps_killing_workers_is_buried",
    "BASE:inflight": "test_concurrency_of_a_host_with_a_delay_is_global",
    "BASE:due": "test_a_host_that_rests_keeps_its_time_when_its_queue_is_empty",
    "BASE:hosts": "test_crawl_delay_slows_but_never_hurries",
    "BASE:robots:ORIGIN": "test_robots_txt_is_kept_for_the_next_worker_if_that_can_read_it",
    "BASE:pages": "test_without_the_pages_of_a_host_its_cap_begins_anew",
    "BASE:workers": "test_a_dead_worker_has_no_share_of_a_small_queue",
    "BASE:replies": "test_a_repeated_number_changes_nothing",
    "BASE:bye:WORKER": "test_a_lost_reply_to_a_good_bye_is_no_rollback_either",
    "BASE:starts": "test_without_the_start_requests_of_a_run_they_are_made_again",
    "BASE:locals": "test_what_only_a_dead_worker_could_run_is_not_lost",
    "BASE:gone": "test_its_queue_goes_to_the_dead_letters_bit_by_bit",
    "BASE:gone:QUEUE": "test_its_queue_goes_to_the_dead_letters_bit_by_bit",
    "BASE:pins": "test_what_is_given_back_comes_back_to_the_same_worker",
    "BASE:jars": "test_without_the_holder_of_a_jar_another_worker_may_hold_it",
    "BASE:holders": "test_the_jar_of_a_worker_that_is_gone_goes_to_another_as_a_whole",
    "BASE:mine:WORKER": "test_the_pace_of_a_host_is_one_for_pinned_and_others",
    "BASE:pinned:WORKER:HOST": "test_all_requests_of_a_jar_go_to_the_worker_that_had_its_first",
    "BASE:dead": "test_a_failure_becomes_a_dead_letter",
    "BASE:seeds": "test_seeds_are_moved_once_whatever_is_lost",
    "BASE:batches": "test_seeds_are_moved_once_whatever_is_lost",
    "SEEDKEY:moving": "test_a_batch_of_seeds_that_stands_aside_is_taken_up_once",
    "SPIDER:start_urls": "test_all_of_scrapy_rediss_keys",
    "SPIDER:items": "test_items_go_into_the_list_and_the_feed",
}

COMMANDS = {
    "crawl": "test_exit_code_and_line_when_a_crawl_fails",
    "seed": "test_a_file_with_bad_lines",
    "items": "test_feed_batch_items_begins_a_new_file",
    "canonical": "test_explain_names_the_rule",
    "genspider": "test_each_template_makes_a_spider_that_runs",
    "startproject": "test_scrapy_s_own_startproject_works_in_here",
    "demo": "test_demo_with_a_kill",
    **dict.fromkeys(("shell", "fetch", "view", "parse", "check"), "test_beside_the_crawl"),
    "bench": "test_bench_measures_scrapy",
    "frontier status": "test_status_counts",
    "frontier watch": "test_watch_shows_rates_until_the_run_ends",
    "frontier workers": "test_workers_tell_the_dead",
    "frontier hosts": "test_hosts",
    "frontier host": "test_a_host_has_its_own_pace_or_none",
    "frontier dead": "test_dead_letters_are_listed_newest_first",
    "frontier requeue": "test_requeue_puts_requests_and_seeds_back",
    "frontier drop": "test_drop_needs_a_yes",
    "frontier pause": "test_pause_and_resume",
    "frontier resume": "test_pause_and_resume",
    "frontier flush": "test_flush_needs_a_yes_and_stops_workers",
    "frontier explain": "test_explain",
    "dedup plan": "test_plan_needs_no_server",
    "dedup status": "test_a_bloom_filter_says_why_it_cannot_forget",
    "dedup check": "test_with_another_scheduler_the_key_is_the_one_that_is_set",
    "dedup forget": "test_exact_forgets_and_layered_folds",
    "dedup rotate": "test_rotate_gives_up_the_oldest_generation",
    "dedup fold": "test_exact_forgets_and_layered_folds",
    "dedup clear": "test_an_export_is_read_with_the_rules_that_made_it",
    "dedup export": "test_an_export_is_read_with_the_rules_that_made_it",
    "dedup import": "test_a_memory_that_the_settings_do_not_ask_for_is_not_imported",
}


def test_each_test_exists() -> None:
    texts = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {*KEYS.values(), *COMMANDS.values()} - set(re.findall(r"^ *def (test_\w+)\(", texts, re.MULTILINE)) == set()


def test_each_setting_has_one() -> None:
    documented = first_column(ROOT / "docs" / "settings.md")
    assert set(SETTINGS) | SCRAPYS == documented - set(compose_only())
    assert not set(SETTINGS) & SCRAPYS


@pytest.mark.parametrize("name", SETTINGS)
def test_the_test_of_a_setting_exists_and_names_it(name: str) -> None:
    path, _, test = SETTINGS[name].partition("::")
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert f"\ndef {test.partition('[')[0]}(" in text
    assert re.search(rf"\b{name}\b", text)


def test_each_key_has_one() -> None:
    assert set(KEYS) == first_column(ROOT / "docs" / "redis-keys.md")


def test_each_command_has_one() -> None:
    documented = {name.removeprefix("scrapy ") for name in first_column(ROOT / "docs" / "commands.md")}
    actions = {f"frontier {name}" for name in frontier.ACTIONS} | {f"dedup {name}" for name in dedup.ACTIONS}
    assert set(COMMANDS) == documented - {"frontier", "dedup"} | actions


def test_each_metric_has_one() -> None:
    """Those of Scrapy's stats in the cases of their own test, the frontier's in theirs, the rest in a crawl."""
    documented = set(re.findall(r"^\| `(crawler_\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    crawl = (ROOT / "tests" / "e2e" / "test_metrics.py").read_text()
    rest = documented - set(names_of_stats()) - set(GAUGES)
    assert [name for name in sorted(rest) if f'"{name}' not in crawl] == []
    assert {name for _, name, _, _ in CASES} >= {f"{name}_total" for name in COUNTERS}
