"""Makes the Grafana dashboard: ``python deploy/grafana/dashboard.py`` writes ``dashboards/crawler.json``.

A panel here is one line: title, unit, queries. Positions, ids and everything that all panels share are filled in.
"""

# ruff: noqa: INP001 (a script in a folder of configuration, no package)
from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "dashboards" / "crawler.json"
SOURCE = {"type": "prometheus", "uid": "prometheus"}
S = '{spider=~"$spider"}'  # the selector of every query about the crawl


class Panel(NamedTuple):
    """`queries` are legend → PromQL; `stat` shows the last number instead of a graph; `width` is of 24."""

    title: str
    unit: str
    queries: dict[str, str]
    text: str = ""
    stat: bool = False
    width: int = 8
    stack: bool = False


def selector(**labels: str) -> str:
    """``{spider=~"$spider",LABEL="VALUE"}``."""
    return "{" + ",".join(['spider=~"$spider"', *(f'{name}="{value}"' for name, value in labels.items())]) + "}"


def rate(metric: str, by: str = "", **labels: str) -> str:
    """Sum of the rates of a counter."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{selector(**labels)}[$__rate_interval]))"


def total(metric: str, by: str = "", **labels: str) -> str:
    """A frontier-wide number, which every worker of a spider shows, over all spiders."""
    outer, inner = (f" by ({by})", f"spider, {by}") if by else ("", "spider")
    return f"sum{outer} (max by ({inner}) ({metric}{selector(**labels)}))"


def top(metric: str, by: str = "", **labels: str) -> str:
    """A frontier-wide value that does not add up (a share, an age, the server's own): the largest."""
    return f"max{f' by ({by})' if by else ''} ({metric}{selector(**labels)})"


def quantile(q: float, metric: str) -> str:
    """A quantile of a histogram over all workers."""
    return f"histogram_quantile({q}, {rate(f'{metric}_bucket', 'le')})"


def per_worker(query: str) -> str:
    """`query` has the label `instance`; the worker's name is added."""
    return f"{query} * on (instance) group_left (worker) crawler_worker_info{S}"


ROWS: dict[str, list[Panel]] = {
    "Crawl": [
        Panel("Responses", "reqps", {"": rate("crawler_responses_total")}, "Over all workers", True, 4),
        Panel("Queued", "short", {"": total("crawler_frontier_queued")}, "", True, 4),
        Panel("Workers", "short", {"": total("crawler_frontier_workers", state="live")}, "", True, 4),
        Panel("Errors", "percentunit", {"": f"{rate('crawler_errors_total')} / {rate('crawler_responses_total')}"},
              "Errors of any kind per response", True, 4),
        Panel("Bloom filter", "percentunit", {"": top("crawler_bloom_fill_ratio")}, "Share of its room", True, 4),
        Panel("Alerts", "short", {"": 'count(ALERTS{alertstate="firing"}) or vector(0)'}, "Firing now", True, 4),
        Panel("Responses by status", "reqps",
              {"{{status_class}}": rate("crawler_responses_total", "status_class")}, stack=True),
        Panel("Items", "ops", {"{{outcome}}": rate("crawler_items_total", "outcome")}, stack=True),
        Panel("Errors by kind", "ops", {"{{kind}}": rate("crawler_errors_total", "kind")}, stack=True),
        Panel("Download time", "s", {f"{int(q * 100)} %": quantile(q, "crawler_download_seconds")
                                     for q in (0.5, 0.9, 0.99)}),
        Panel("Traffic", "Bps", {"in": rate("crawler_response_bytes_total")}),
        Panel("Not fetched on purpose", "ops", {"{{reason}}": rate("crawler_frontier_dropped_total", "reason")},
              stack=True),
    ],
    "Frontier": [
        Panel("Requests", "short", {"queued": total("crawler_frontier_queued"),
                                    "leased": total("crawler_frontier_leased"),
                                    "seeds waiting": total("crawler_frontier_seeds")}),
        Panel("Longest wait beyond its time", "s", {"oldest": top("crawler_frontier_oldest_seconds")},
              "Grows when a request may start and no worker takes it"),
        Panel("Dead letters", "short", {"kept": total("crawler_frontier_dead")}),
        Panel("Exchange time", "s", {f"{int(q * 100)} %": quantile(q, "crawler_frontier_exchange_seconds")
                                     for q in (0.5, 0.95, 0.99)}),
        Panel("Exchanges", "ops", {"": rate("crawler_frontier_exchange_seconds_count")}),
        Panel("Trouble", "ops", {"failed": rate("crawler_frontier_failed_total"),
                                 "leases lost": rate("crawler_frontier_lease_lost_total"),
                                 "stay local": rate("crawler_frontier_local_total")}),
    ],
    "Dedup": [
        Panel("Checks", "ops", {"{{result}}, {{layer}}": rate("crawler_dedup_checks_total", "result, layer")},
              stack=True),
        Panel("Share of duplicates", "percentunit", {"": f"{rate('crawler_dedup_checks_total', result='duplicate')}"
                                                          f" / {rate('crawler_dedup_checks_total')}"}),
        Panel("Bloom filter: fill", "percentunit", {"{{spider}}": top("crawler_bloom_fill_ratio", "spider")}),
        Panel("Bloom filter: error rate", "percentunit",
              {"{{spider}} now": top("crawler_bloom_estimated_error_rate", "spider"),
               "{{spider}} configured": top("crawler_bloom_configured_error_rate", "spider")}),
        Panel("Bloom filter: elements", "short", {"{{spider}}": top("crawler_bloom_elements", "spider")},
              "Spiders of one DEDUP_SCOPE show the same memory"),
        Panel("Bloom filter: size", "bytes", {"{{spider}}": top("crawler_bloom_bytes", "spider")}),
        Panel("Canonical URLs", "ops", {"changed: {{changed}}": rate("crawler_canonical_urls_total", "changed")},
              stack=True),
        Panel("Parameters stripped", "ops", {"{{category}}": rate("crawler_canonical_stripped_total", "category")},
              stack=True),
    ],
    "Hosts": [
        Panel("Hosts by state", "short", {"{{state}}": total("crawler_frontier_hosts", "state")},
              "due and waiting have queued requests; busy are being asked; backing_off wait for more than a minute",
              width=16),
        Panel("Backing off", "short", {"": total("crawler_frontier_hosts", state="backing_off")}, "", True),
    ],
    "Workers": [
        Panel("Workers", "short", {"{{state}}": total("crawler_frontier_workers", "state")}),
        Panel("Responses per worker", "reqps",
              {"{{worker}}": per_worker(rate("crawler_responses_total", "instance"))}),
        Panel("Requests held per worker", "short",
              {"{{worker}}": per_worker(f"sum by (instance) (crawler_worker_requests{selector(state='held')})")}),
        Panel("CPU per worker", "percentunit",
              {"{{worker}}": per_worker('rate(process_cpu_seconds_total{job="crawler"}[$__rate_interval])')}),
        Panel("Memory per worker", "bytes",
              {"{{worker}}": per_worker('process_resident_memory_bytes{job="crawler"}')}),
        Panel("Answers Prometheus", "short", {"{{instance}}": 'up{job="crawler"}'}),
    ],
    "Redis": [
        Panel("Reachable", "short", {"by the workers": f"min (crawler_redis_up{S})", "by its exporter": "redis_up"}),
        Panel("Memory", "bytes", {"used": top("crawler_redis_memory_bytes"),
                                  "maxmemory": f"{top('crawler_redis_memory_max_bytes')} > 0"}),
        Panel("Commands", "ops", {"": "rate(redis_commands_processed_total[$__rate_interval])"}),
        Panel("Evicted keys", "short", {"since its start": top("crawler_redis_evicted_keys_total")},
              "Must stay 0: requests would be lost"),
        Panel("Clients", "short", {"connected": "redis_connected_clients"}),
        Panel("CPU", "percentunit",
              {"": "rate(redis_cpu_sys_seconds_total[$__rate_interval]) + "
                   "rate(redis_cpu_user_seconds_total[$__rate_interval])"}),
    ],
}  # fmt: skip


def dashboard() -> dict[str, Any]:
    """The whole dashboard as Grafana reads it."""
    return {
        "uid": "crawler",
        "title": "Crawler",
        "tags": ["crawler"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_variable()]},
        "annotations": {"list": [_alerts()]},
        "panels": list(_panels()),
    }


def _variable() -> dict[str, Any]:
    query = "label_values(crawler_worker_info, spider)"
    return {
        "name": "spider",
        "type": "query",
        "label": "Spider",
        "datasource": SOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _alerts() -> dict[str, Any]:
    return {
        "name": "Alerts", "enable": True, "iconColor": "red", "datasource": SOURCE,
        "expr": 'ALERTS{alertstate="firing"}', "titleFormat": "{{alertname}}", "textFormat": "{{spider}}",
    }  # fmt: skip


def _panels() -> Iterator[dict[str, Any]]:
    number, top_ = 0, 0
    for title, row in ROWS.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": _grid(0, top_, 24, 1),
            "panels": [],
        }
        top_ += 1
        left = height = 0
        for panel in row:
            if left + panel.width > 24:
                left, top_, height = 0, top_ + height, 0
            number += 1
            tall = 4 if panel.stat and panel.width == 4 else 8
            yield _panel(number, panel, _grid(left, top_, panel.width, tall))
            left, height = left + panel.width, max(height, tall)
        top_ += height


def _grid(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def _panel(number: int, panel: Panel, grid: dict[str, int]) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 30 if panel.stack else 8, "showPoints": "never"}
    if panel.stack:
        custom["stacking"] = {"mode": "normal"}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    return {
        "id": number,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": grid,
        "fieldConfig": {"defaults": defaults if panel.stat else {**defaults, "custom": custom}, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}}
        if panel.stat
        else {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(65 + place), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def text() -> str:
    """The file's content."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
