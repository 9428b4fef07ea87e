"""Setting → a test that fails when the program ignores the setting; ``tests/e2e/test_ignored.py`` proves it."""

from __future__ import annotations

_ALONE = "e2e/test_spiders.py::test_one_process_without_redis"
_CRAWL = "e2e/test_settings.py::test_one_crawl"
_ENV_FILE = "e2e/test_settings.py::test_an_env_file"
_DUPEFILTERS = "integration/test_dedup_dupefilters.py::"
_FRONTIER = "integration/test_frontier_settings.py::"
_HERE = "unit/test_settings_effect.py::"
_OWN = "integration/test_own_components.py::test_they_add_to_the_projects"
_REDIS = "integration/test_connection.py::test_address"

SETTINGS = {
    # identity
    "BOT_NAME": _CRAWL,
    "CONTACT": _ENV_FILE,
    "USER_AGENT": _CRAWL,
    "ROBOTSTXT_USER_AGENT": _CRAWL,
    "WORKER_NAME": _CRAWL,
    # where things are
    "SPIDER_MODULES": _CRAWL,
    "NEWSPIDER_MODULE": "e2e/test_genspider.py::test_each_template_makes_a_spider_that_runs",
    "CRAWLER_ENV_FILE": _ENV_FILE,
    "COMMANDS_MODULE": "integration/test_canonical_command.py::test_the_environment_adds_rules_and_groups",
    "TEMPLATES_DIR": "e2e/test_genspider.py::test_the_list_has_ours_only",
    # Redis
    "REDIS_URL": _CRAWL,
    **dict.fromkeys(("REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PARAMS"), _REDIS),
    "REDIS_CLUSTER": "integration/test_shards_doors.py::test_a_cluster_that_is_none_and_one_that_is_not_told",
    "REDIS_CLUSTER_NODES": "integration/test_shards_doors.py::test_any_node_tells_where_the_cluster_is",
    "REDIS_SENTINELS": "integration/test_shards_doors.py::test_sentinels_tell_where_the_master_is",
    "REDIS_SENTINEL_PARAMS": f"{_HERE}test_sentinels_get_their_own_password",
    "REDIS_KEY_PREFIX": _CRAWL,
    # manners
    "ROBOTSTXT_OBEY": _ENV_FILE,
    "DOWNLOAD_DELAY": f"{_FRONTIER}test_delay[DOWNLOAD_DELAY]",
    "CONCURRENT_REQUESTS": f"{_FRONTIER}test_concurrency_of_a_worker",
    "CONCURRENT_REQUESTS_PER_DOMAIN": f"{_FRONTIER}test_concurrency_of_a_host[CONCURRENT_REQUESTS_PER_DOMAIN]",
    "FRONTIER_HOST_DELAY": f"{_FRONTIER}test_delay[FRONTIER_HOST_DELAY]",
    "FRONTIER_HOST_CONCURRENCY": f"{_FRONTIER}test_concurrency_of_a_host[FRONTIER_HOST_CONCURRENCY]",
    "FRONTIER_CRAWL_DELAY_MAX": "unit/test_frontier_worker.py::"
    "test_the_crawl_delay_for_the_bots_name_counts_up_to_a_limit",
    "FRONTIER_ROBOTS_TTL": f"{_HERE}test_robots_txt_is_not_kept",
    "FRONTIER_BACKOFF": f"{_FRONTIER}test_backoff",
    "FRONTIER_BACKOFF_MAX": f"{_FRONTIER}test_longest_backoff",
    "FRONTIER_HOST_GIVE_UP": f"{_FRONTIER}test_a_host_is_given_up",
    "FRONTIER_HOST_MAX_PAGES": f"{_FRONTIER}test_pages_of_a_host",
    "FRONTIER_MAX_REPEATED_SEGMENTS": _CRAWL,
    "FRONTIER_CALENDAR_MAX": f"{_FRONTIER}test_pages_of_a_calendar",
    "AUTOTHROTTLE_ENABLED": "unit/test_frontier_policy.py::test_autothrottle_is_refused",
    "CRAWLER_ALLOW_PRIVATE": "unit/test_guard.py::test_allowed_by_the_setting",
    "CRAWLER_PRIVATE_HOSTS": "unit/test_guard.py::test_hosts_of_ones_own",
    "CRAWLER_SCHEMES": "unit/test_guard.py::test_schemes",
    "DOWNLOAD_HANDLERS": "unit/test_guard.py::test_handlers_that_resolve_elsewhere_are_refused_at_the_start",
    "HTTPPROXY_ENABLED": f"{_HERE}test_the_proxy_of_the_environment_is_trusted_if_it_is_used",
    "DOWNLOAD_MAXSIZE": _CRAWL,
    **dict.fromkeys(("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS"), _OWN),
    "DOWNLOADER_MIDDLEWARES_BASE": _CRAWL,
    # same page or not
    "REQUEST_FINGERPRINTER_CLASS": _CRAWL,
    "CANONICAL_RULES": "unit/test_canonical_sources.py::test_three_sources_and_the_groups",
    "CANONICAL_GROUPS": "unit/test_canonical_sources.py::test_three_sources_and_the_groups",
    "CANONICAL_OFF": "integration/test_canonical_command.py::test_the_environment_adds_rules_and_groups",
    "CANONICAL_AUDIT": "integration/test_canonical_audit.py::test_an_audited_crawl_tells_which_rule_eats_pages",
    "CANONICAL_LEARN": "integration/test_canonical_audit.py::test_an_audited_crawl_tells_which_rule_eats_pages",
    "CANONICAL_INCLUDE_HEADERS": "unit/test_canonical_fingerprint.py::test_settings_reach_the_fingerprinter",
    "CANONICAL_KEEP_FRAGMENTS": "unit/test_canonical_fingerprint.py::test_settings_reach_the_fingerprinter",
    # seen before
    "FRONTIER": _ALONE,
    "DUPEFILTER_CLASS": _CRAWL,
    "BLOOM_CAPACITY": f"{_DUPEFILTERS}test_a_memory_that_is_full_is_said_once_and_loses_nothing",
    "BLOOM_ERROR_RATE": f"{_DUPEFILTERS}test_where_the_native_backend_cannot_err_so_little_auto_takes_bitmaps",
    "BLOOM_GROWTH": f"{_DUPEFILTERS}test_a_memory_that_is_full_is_said_once_and_loses_nothing",
    "BLOOM_BACKEND": f"{_DUPEFILTERS}test_the_native_backend_is_taken_where_it_is_and_refused_where_it_is_not",
    "DEDUP_WINDOW": "integration/test_dedup_command.py::test_rotate_gives_up_the_oldest_generation",
    "DEDUP_WINDOW_GENERATIONS": "integration/test_dedup_command.py::test_rotate_gives_up_the_oldest_generation",
    "DEDUP_MEMORY_SIZE": f"{_DUPEFILTERS}test_how_many_are_known_without_asking",
    "DEDUP_RECENT_SIZE": f"{_DUPEFILTERS}test_the_size_of_the_recent_layer",
    "DEDUP_FORGET_FAILED": "e2e/test_forget_failed.py::test_a_later_link_tries_again[1-2]",
    "DEDUP_SCOPE": "e2e/test_start.py::test_two_spiders_of_one_scope_share_the_pages_of_a_site",
    # frontier
    "SCHEDULER": _CRAWL,
    "SPIDER_MIDDLEWARES_BASE": _CRAWL,
    "SCHEDULER_PERSIST": "e2e/test_start.py::test_a_finished_run_frees_what_it_has_seen_where_nothing_shall_persist",
    "SCHEDULER_FLUSH_ON_START": "e2e/test_workers.py::test_a_second_crawl_is_run_2_and_says_what_it_keeps",
    "FRONTIER_RUN": _CRAWL,
    "FRONTIER_ORDER": f"{_FRONTIER}test_order",
    "FRONTIER_PIN_COOKIEJARS": f"{_FRONTIER}test_pins_of_cookie_jars",
    "FRONTIER_SHARDS": _CRAWL,
    "FRONTIER_WAIT_REPLICAS": "e2e/test_settings.py::test_replicas_that_are_not_there_are_waited_for",
    "FRONTIER_LEASE": f"{_FRONTIER}test_lease",
    "FRONTIER_GRACE": "e2e/test_settings.py::test_a_stopped_worker_waits_for_a_page_as_long_as_it_shall",
    "FRONTIER_IDLE": f"{_HERE}test_when_a_waiting_spider_closes",
    "FRONTIER_MAX_DELIVERIES": f"{_FRONTIER}test_deliveries",
    "FRONTIER_DEAD_MAX": f"{_FRONTIER}test_dead_letters_kept",
    # output
    "FEED_DIR": _CRAWL,
    "FEED_BATCH_ITEMS": "integration/test_feeds.py::test_feed_batch_items_begins_a_new_file",
    **dict.fromkeys(("FEEDS", "FEED_URI_PARAMS", "FEED_STORAGES", "FEED_EXPORT_ENCODING"), _CRAWL),
    "ITEM_PIPELINES": _OWN,
    "ITEM_PIPELINES_BASE": "integration/test_pipelines.py::test_items_go_into_the_list_and_the_feed",
    "REDIS_PIPELINE_ENABLED": "integration/test_pipelines.py::test_items_go_into_the_list_and_the_feed",
    "POSTGRES_URL": "integration/test_output_postgres.py::test_no_server_at_the_start_is_one_line",
    "POSTGRES_TABLE": "integration/test_output_postgres.py::test_a_crawl_whose_server_goes_away_loses_nothing",
    # metrics
    "EXTENSIONS_BASE": "integration/test_start_modules.py::test_a_worker_imports_only_what_it_needs",
    "METRICS_ENABLED": _ENV_FILE,
    "METRICS_HOST": "e2e/test_metrics.py::test_an_unusable_address_is_one_line",
    "METRICS_PORT": _CRAWL,
    "METRICS_LINGER": "e2e/test_metrics.py::test_a_signal_ends_the_lingering",
    "METRICS_TEXTFILE": _CRAWL,
    "METRICS_SD_FILE": _CRAWL,
    # logs and doors
    "LOG_LEVEL": _CRAWL,
    "TELNETCONSOLE_ENABLED": _CRAWL,
    "REMOTE_CONTROL_ENABLED": _CRAWL,
    # honoured as elsewhere
    "DOWNLOAD_SLOTS": f"{_FRONTIER}test_the_frontiers_own_delay_wins",
    **dict.fromkeys(
        ("RETRY_ENABLED", "RETRY_HTTP_CODES", "HTTPERROR_ALLOW_ALL", "HTTPERROR_ALLOWED_CODES"),
        f"{_HERE}test_which_status_is_a_failure",
    ),
    "JOBDIR": "unit/test_dedup_local.py::test_as_scrapys_dupefilter",
    "DUPEFILTER_DEBUG": f"{_HERE}test_how_many_duplicates_are_logged",
    **dict.fromkeys(
        ("REDIS_START_URLS_KEY", "REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET"),
        "integration/test_seed_command.py::test_other_kinds_of_keys",
    ),
    "SCHEDULER_DUPEFILTER_KEY": f"{_DUPEFILTERS}test_under_scrapy_rediss_scheduler",
    "REDIS_ITEMS_KEY": "integration/test_pipelines.py::test_items_go_into_the_list_and_the_feed",
    "REDIS_ITEMS_SERIALIZER": "integration/test_pipelines.py::test_an_unknown_serializer_is_one_line",
    "LOG_FILE": "integration/test_bad_input.py::test_line_is_on_stderr_and_in_the_log_when_the_log_is_a_file",
    "BLOOMFILTER_BIT": "e2e/test_migrating.py::test_its_bits_are_translated",
    "MAX_IDLE_TIME_BEFORE_CLOSE": f"{_HERE}test_when_a_waiting_spider_closes",
}

# Passed on to Scrapy, which keeps what the docs say of them (the last one's line is Scrapy's default, too).
SCRAPYS = {
    "CONCURRENT_ITEMS", "DOWNLOAD_TIMEOUT", "LOG_ENABLED", "LOG_INSTALL_ROOT_HANDLER", "TWISTED_REACTOR",
}  # fmt: skip
