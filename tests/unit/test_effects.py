"""Each documented key, command and metric has a test that it has an effect; settings: ``test_settings_effect.py``."""

from __future__ import annotations

import re

import pytest

from crawler.commands import dedup, frontier
from crawler.metrics.frontier import GAUGES
from crawler.metrics.stats import COUNTERS
from crawler.metrics.stats import names as names_of_stats
from tests.unit.test_metrics_stats import CASES
from tests.unit.test_project_docs import ROOT, first_column

CONTROL, RUNS, EXCHANGE, PACE, PINS = (
    f"integration/test_frontier_{name}" for name in ("control", "runs", "exchange", "pace", "pins")
)
NAMES, DEDUP, TRANSFER = (f"integration/test_{name}" for name in ("key_names", "dedup_command", "dedup_transfer"))
BESIDE = "e2e/test_spiders_commands"

KEYS = {  # what is wrong, lost or done twice without it
    "TAG:dedup:meta": "integration/test_dedup_bloom::test_other_parameters_are_refused_naming_both_values",
    "TAG:dedup:ID:*": "integration/test_dedup_bloom::test_clear_leaves_no_key_and_the_next_filter_begins_a_new_epoch",
    "TAG:history:dedup:*": f"{NAMES}::test_a_layered_memory_keeps_its_history_apart",
    "TAG:wN:dedup:*": f"{NAMES}::test_each_generation_of_a_window_has_keys_of_its_own",
    "TAG:shards": "integration/test_shards_control::test_flush_empties_every_shard_and_frees_their_number",
    "TAG:audit*": "integration/test_canonical_audit::test_an_audited_crawl_tells_which_rule_eats_pages",
    "BASE:meta": f"{RUNS}::test_other_versions_are_refused",
    "BASE:runs": f"{RUNS}::test_a_pinned_run_is_not_begun_twice",
    "BASE:ready": f"{PACE}::test_hosts_take_turns_and_a_worker_can_pass_over_one",
    "BASE:queue:HOST": f"{EXCHANGE}::test_priority_then_age",
    "BASE:requests": f"{EXCHANGE}::test_new_seen_and_unfiltered",
    "BASE:leases": f"{EXCHANGE}::test_a_renewed_lease_stays",
    "BASE:owners": f"{EXCHANGE}::test_a_stale_owner_changes_nothing",
    "BASE:deliveries": f"{EXCHANGE}::test_a_request_that_keeps_killing_workers_is_buried",
    "BASE:inflight": f"{PACE}::test_concurrency_of_a_host_with_a_delay_is_global",
    "BASE:due": f"{PACE}::test_a_host_that_rests_keeps_its_time_when_its_queue_is_empty",
    "BASE:hosts": f"{PACE}::test_crawl_delay_slows_but_never_hurries",
    "BASE:robots:ORIGIN": "integration/test_robots::test_robots_txt_is_kept_for_the_next_worker_if_that_can_read_it",
    "BASE:pages": f"{NAMES}::test_without_the_pages_of_a_host_its_cap_begins_anew",
    "BASE:workers": f"{PACE}::test_a_dead_worker_has_no_share_of_a_small_queue",
    "BASE:replies": f"{EXCHANGE}::test_a_repeated_number_changes_nothing",
    "BASE:bye:WORKER": "integration/test_frontier_rollback::test_a_lost_reply_to_a_good_bye_is_no_rollback_either",
    "BASE:starts": f"{NAMES}::test_without_the_start_requests_of_a_run_they_are_made_again",
    "BASE:locals": f"{EXCHANGE}::test_what_only_a_dead_worker_could_run_is_not_lost",
    "BASE:gone": f"{PACE}::test_its_queue_goes_to_the_dead_letters_bit_by_bit",
    "BASE:gone:QUEUE": f"{PACE}::test_its_queue_goes_to_the_dead_letters_bit_by_bit",
    "BASE:pins": f"{PINS}::test_what_is_given_back_comes_back_to_the_same_worker",
    "BASE:jars": f"{NAMES}::test_without_the_holder_of_a_jar_another_worker_may_hold_it",
    "BASE:holders": f"{PINS}::test_the_jar_of_a_worker_that_is_gone_goes_to_another_as_a_whole",
    "BASE:mine:WORKER": f"{PINS}::test_the_pace_of_a_host_is_one_for_pinned_and_others",
    "BASE:pinned:WORKER:HOST": f"{PINS}::test_all_requests_of_a_jar_go_to_the_worker_that_had_its_first",
    "BASE:dead": f"{EXCHANGE}::test_a_failure_becomes_a_dead_letter",
    "BASE:seeds": "integration/test_shards_doors::test_seeds_are_moved_once_whatever_is_lost",
    "BASE:batches": "integration/test_shards_doors::test_seeds_are_moved_once_whatever_is_lost",
    "SEEDKEY:moving": f"{NAMES}::test_a_batch_of_seeds_that_stands_aside_is_taken_up_once",
    "SPIDER:start_urls": f"{RUNS}::test_all_of_scrapy_rediss_keys",
    "SPIDER:items": "integration/test_pipelines::test_items_go_into_the_list_and_the_feed",
}

COMMANDS = {
    "crawl": "integration/test_crawl_commands::test_exit_code_and_line_when_a_crawl_fails",
    "seed": "integration/test_seed_command::test_a_file_with_bad_lines",
    "items": "integration/test_feeds::test_feed_batch_items_begins_a_new_file",
    "canonical": "integration/test_canonical_command::test_explain_names_the_rule",
    "genspider": "e2e/test_genspider::test_each_template_makes_a_spider_that_runs",
    "startproject": "e2e/test_genspider::test_scrapy_s_own_startproject_works_in_here",
    "demo": "e2e/test_demo::test_demo_with_a_kill",
    **dict.fromkeys(("shell", "fetch", "view", "parse", "check"), f"{BESIDE}::test_beside_the_crawl"),
    "bench": f"{BESIDE}::test_bench_measures_scrapy",
    "frontier status": f"{CONTROL}::test_status_counts",
    "frontier watch": f"{CONTROL}::test_watch_shows_rates_until_the_run_ends",
    "frontier workers": f"{CONTROL}::test_workers_tell_the_dead",
    "frontier hosts": f"{CONTROL}::test_hosts",
    "frontier host": f"{CONTROL}::test_a_host_has_its_own_pace_or_none",
    "frontier dead": f"{CONTROL}::test_dead_letters_are_listed_newest_first",
    "frontier requeue": f"{CONTROL}::test_requeue_puts_requests_and_seeds_back",
    "frontier drop": f"{CONTROL}::test_drop_needs_a_yes",
    "frontier pause": f"{CONTROL}::test_pause_and_resume",
    "frontier resume": f"{CONTROL}::test_pause_and_resume",
    "frontier flush": f"{CONTROL}::test_flush_needs_a_yes_and_stops_workers",
    "frontier explain": f"{CONTROL}::test_explain",
    "dedup plan": f"{DEDUP}::test_plan_needs_no_server",
    "dedup status": f"{DEDUP}::test_a_bloom_filter_says_why_it_cannot_forget",
    "dedup check": f"{DEDUP}::test_with_another_scheduler_the_key_is_the_one_that_is_set",
    "dedup forget": f"{DEDUP}::test_exact_forgets_and_layered_folds",
    "dedup rotate": f"{DEDUP}::test_rotate_gives_up_the_oldest_generation",
    "dedup fold": f"{DEDUP}::test_exact_forgets_and_layered_folds",
    "dedup clear": f"{DEDUP}::test_an_export_is_read_with_the_rules_that_made_it",
    "dedup export": f"{DEDUP}::test_an_export_is_read_with_the_rules_that_made_it",
    "dedup import": f"{TRANSFER}::test_a_memory_that_the_settings_do_not_ask_for_is_not_imported",
}


@pytest.mark.parametrize("place", sorted({*KEYS.values(), *COMMANDS.values()}))
def test_the_test_exists(place: str) -> None:
    path, name = place.split("::")
    assert re.search(rf"^ *def {name}\(", (ROOT / "tests" / f"{path}.py").read_text(), re.MULTILINE)


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
