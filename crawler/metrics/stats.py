"""Scrapy's stats as metric families: a table of the ones that have a name of their own, and one scheme for the rest.

A stat that the table knows becomes a counter with at most one label. Any other number becomes
``crawler_scrapy_stat{name="..."}``. Stats carry hosts and URLs in their names now and then; such a part of a name is
written as ``*`` and what then has one name is added up, so that the number of series never follows the crawl.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, Metric, UnknownMetricFamily


class Counter(NamedTuple):
    """A counter: what it counts, its label, and label values that are there from the start, with 0."""

    help: str
    label: str = ""
    values: tuple[str, ...] = ()


COUNTERS = {
    "crawler_response_bytes": Counter("Bytes of responses, headers included; from caches too."),
    "crawler_items": Counter("Items by what became of them.", "outcome", ("scraped", "dropped", "failed")),
    "crawler_errors": Counter(
        "Failures by kind; a download counts each attempt.",
        "kind",
        ("download", "retries", "callback", "pipeline", "enqueue", "dupefilter"),
    ),
    "crawler_canonical_urls": Counter("URLs that were canonicalised.", "changed", ("true", "false")),
    "crawler_canonical_stripped": Counter("Query parameters that were removed, by category.", "category"),
    "crawler_canonical_audit": Counter(
        "Trials of merged URLs, by what they showed.", "outcome", ("same", "changed", "volatile", "failed")
    ),
    "crawler_frontier_failed": Counter("Requests of this worker that went to the dead letters."),
    "crawler_frontier_hosts_given_up": Counter("Hosts that were given up in an exchange of this worker."),
    "crawler_frontier_lease_lost": Counter("Leases that ran out here and went to another worker."),
    "crawler_frontier_local": Counter("Requests that cannot be serialised and stay in this worker."),
    "crawler_frontier_dropped": Counter(
        "Requests that were not fetched on purpose.",
        "reason",
        (
            *("robots", "private", "scheme", "offsite"),
            *("depth", "url_length", "host_max_pages", "repeated_segments", "calendar"),
        ),
    ),
}

# stat → (counter, label value)
_EXACT: dict[str, tuple[str, str]] = {
    "downloader/response_bytes": ("crawler_response_bytes", ""),
    "item_scraped_count": ("crawler_items", "scraped"),
    "item_dropped_count": ("crawler_items", "dropped"),
    "item_error_count": ("crawler_items", "failed"),
    "retry/max_reached": ("crawler_errors", "retries"),
    "spider_exceptions/count": ("crawler_errors", "callback"),
    "frontier/enqueue_errors": ("crawler_errors", "enqueue"),
    "dupefilter/unanswered": ("crawler_errors", "dupefilter"),
    "frontier/failed": ("crawler_frontier_failed", ""),
    "frontier/hosts_given_up": ("crawler_frontier_hosts_given_up", ""),
    "frontier/lease_lost": ("crawler_frontier_lease_lost", ""),
    "scheduler/unserializable": ("crawler_frontier_local", ""),
    "robotstxt/forbidden": ("crawler_frontier_dropped", "robots"),
    "guard/refused": ("crawler_frontier_dropped", "private"),
    "guard/scheme": ("crawler_frontier_dropped", "scheme"),
    "offsite/filtered": ("crawler_frontier_dropped", "offsite"),
    "depth/request_ignored_count": ("crawler_frontier_dropped", "depth"),
    "urllength/request_ignored_count": ("crawler_frontier_dropped", "url_length"),
}
# start of a stat's name → counter; the rest of the name is the label value
_PREFIXES = {
    "downloader/exception_type_count/": "crawler_errors",
    "canonical/stripped/": "crawler_canonical_stripped",
    "canonical/audit/": "crawler_canonical_audit",
    "frontier/dropped/": "crawler_frontier_dropped",
}
_IGNORED = "IgnoreRequest"  # an exception that is a decision, counted by whoever took it

CHECKS_HELP = "Requests that were checked, by verdict and by the layer of memory that knew it."
_LAYER = re.compile(r"dupefilter/filtered/(\w+)")

_MOST_VALUES = 24  # label values of one counter
MOST_NAMES = 200
"""Series of ``crawler_scrapy_stat``: names beyond these are added up under ``*``."""

_HOST = re.compile(r"(?:[a-z0-9_-]+\.)+[a-z][a-z0-9-]*(?::\d+)?|\[?[0-9a-f:.]*[:.][0-9a-f:.]*\]?(?::\d+)?|localhost.*")
_OPEN_ENDED = re.compile(r"\d{4,}|.*[%?=&@].*|.{61,}")


def families(stats: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Metric]:
    """Every family of `stats`; `labels` (the same for the whole worker) come first in each series."""
    stats = {_text(stat): value for stat, value in stats.items()}
    counted = {name: dict.fromkeys(counter.values, 0.0) for name, counter in COUNTERS.items()}
    rest: dict[str, float] = {}
    for stat, value in stats.items():
        number_ = _number(value)
        if number_ is None:
            continue
        if (place := _place(stat)) is not None:
            metric, label = place
            counted[metric][label] = counted[metric].get(label, 0.0) + number_
        elif stat not in _ELSEWHERE and not _LAYER.fullmatch(stat):
            rest[stat] = number_
    counted["crawler_errors"]["pipeline"] = counted["crawler_items"]["failed"]
    urls, changed = (_number(stats.get(f"canonical/{name}")) or 0.0 for name in ("urls", "changed"))
    counted["crawler_canonical_urls"] = {"true": changed, "false": urls - changed}
    for name, values in counted.items():
        yield _counter(name, values, labels)
    yield _checks(stats, labels)
    yield _others(rest, labels)


# Shown under another name, by this module or by the frontier's view.
_ELSEWHERE = {"canonical/urls", "canonical/changed", "scheduler/enqueued", "dupefilter/filtered"}


def _place(stat: str) -> tuple[str, str] | None:
    if stat in _EXACT:
        return _EXACT[stat]
    for prefix, metric in _PREFIXES.items():
        if stat.startswith(prefix):
            rest = stat[len(prefix) :]
            if metric == "crawler_errors":
                return None if rest.endswith(_IGNORED) else (metric, "download")
            return metric, _without_hosts(rest)
    return None


def _counter(name: str, values: Mapping[str, float], labels: Mapping[str, str]) -> Metric:
    counter = COUNTERS[name]
    family = CounterMetricFamily(name, counter.help, labels=[*labels, *filter(None, [counter.label])])
    if not counter.label:
        family.add_metric([*labels.values()], sum(values.values()))
        return family
    for value, number_ in _capped(values, _MOST_VALUES, "other").items():
        family.add_metric([*labels.values(), value], number_)
    return family


def _checks(stats: Mapping[str, Any], labels: Mapping[str, str]) -> Metric:
    """A verdict of the server itself has the layer "server"; layers in front of it count what they knew."""
    family = CounterMetricFamily("crawler_dedup_checks", CHECKS_HELP, labels=[*labels, "result", "layer"])
    layers = {match[1]: _number(value) or 0.0 for stat, value in stats.items() if (match := _LAYER.fullmatch(stat))}
    filtered = _number(stats.get("dupefilter/filtered")) or 0.0
    family.add_metric([*labels.values(), "new", "server"], _number(stats.get("scheduler/enqueued")) or 0.0)
    family.add_metric([*labels.values(), "duplicate", "server"], max(0.0, filtered - sum(layers.values())))
    for layer, number_ in _capped({"memory": 0.0, **layers}, _MOST_VALUES, "other").items():
        family.add_metric([*labels.values(), "duplicate", layer], number_)
    return family


def _others(stats: Mapping[str, float], labels: Mapping[str, str]) -> Metric:
    text = "Any other number among Scrapy's stats, by its name there; hosts and URLs in names are written as *."
    family = UnknownMetricFamily("crawler_scrapy_stat", text, labels=[*labels, "name"])
    named: dict[str, float] = {}
    for stat, number_ in stats.items():  # in the order of their first use: what is shown once stays shown
        name = _without_hosts(stat)
        named[name] = named.get(name, 0.0) + number_
    for name, number_ in _capped(named, MOST_NAMES, "*").items():
        family.add_metric([*labels.values(), name], number_)
    return family


def _without_hosts(name: str) -> str:
    """`name` with ``*`` for every part that could be a host, an address, an id or a piece of a URL."""
    if "//" in name or len(name) > 120:
        return name.split("/", 1)[0].rstrip(":")[:60] + "/*"
    parts = [
        "*" if not part or _HOST.fullmatch(part) or _OPEN_ENDED.fullmatch(part) else part for part in name.split("/")
    ]
    return "/".join(parts)


def _capped(values: Mapping[str, float], most: int, rest: str) -> dict[str, float]:
    """At most `most` of `values`, the others added up under `rest`."""
    kept: dict[str, float] = {}
    for name, number_ in values.items():
        key = name if name in kept or len(kept) < most else rest
        kept[key] = kept.get(key, 0.0) + number_
    return kept


def _text(name: object) -> str:
    """`name` as UTF-8 can carry it: one stat of a spider must not cost all metrics."""
    return str(name).encode(errors="replace").decode()


def _number(value: Any) -> float | None:
    try:
        if isinstance(value, datetime):
            return value.timestamp()
        return float(value) if isinstance(value, (int, float)) and not math.isnan(value) else None
    except (OverflowError, ValueError):  # an integer beyond what a float holds, a date before there were any
        return None


def names() -> Iterable[str]:
    """The counters of this module, as they are shown."""
    return [*(f"{name}_total" for name in COUNTERS), "crawler_dedup_checks_total", "crawler_scrapy_stat"]
