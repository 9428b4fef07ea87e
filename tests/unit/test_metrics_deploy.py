"""Rules and dashboard hold together: what they ask for is shown, what wakes somebody is explained and tested."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.prometheus import promtool

ROOT = Path(__file__).parents[2]
PROMETHEUS, GRAFANA = ROOT / "deploy" / "prometheus", ROOT / "deploy" / "grafana"
RULES = (PROMETHEUS / "rules.yml").read_text()
ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES, re.MULTILINE)
RECORDS = set(re.findall(r"^ +- record: (\S+)$", RULES, re.MULTILINE))
DASHBOARD = json.loads((GRAFANA / "dashboards" / "crawler.json").read_text())
# From elsewhere: Prometheus itself, the client library, redis_exporter 1.45.
FOREIGN = {"up", "ALERTS", "process_cpu_seconds_total", "process_resident_memory_bytes"} | {
    f"redis_{name}"
    for name in (
        *("up", "memory_used_bytes", "memory_max_bytes", "evicted_keys_total", "commands_processed_total"),
        *("connected_clients", "cpu_sys_seconds_total", "cpu_user_seconds_total"),
    )
}
MACROS = {"$__rate_interval": "1m", "$spider": "x"}


def shown() -> set[str]:
    documented = re.findall(r"^\| `(crawler_\w+)` \| (\w+)", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    names = {name for name, _ in documented}
    return names | {
        f"{name}_{part}" for name, kind in documented if kind == "histogram" for part in ("bucket", "count")
    }


def metrics_in(expression: str) -> set[str]:
    """Names of the series that a PromQL expression reads (their selectors, texts and groupings left out)."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\b(?:by|on|without|group_left) *\([^)]*\)', "", expression)
    return set(re.findall(r"\b((?:crawler|redis|process|spider:\w+)[\w:]*|up|ALERTS)\b", bare))


def panels(some: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in some:
        yield panel
        yield from panels(panel.get("panels", []))


PANELS = list(panels(DASHBOARD["panels"]))
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel.get("targets", [])]


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_is_explained_and_has_both_cases(alert: str) -> None:
    rule = RULES.split(f"- alert: {alert}\n", 1)[1].split("- alert:", 1)[0]
    assert f"runbook: docs/operations.md#{alert}\n" in rule
    assert re.search(rf"^### {alert}\n\w", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    cases = (PROMETHEUS / "rules_test.yml").read_text().split("  - name: ")[1:]
    own = [case for case in cases if case.startswith(f"{alert} ")]
    fires = [case for case in own if case.startswith(f"{alert} fires") and "exp_labels" in case]
    quiet = [case for case in own if case.startswith(f"{alert} does not fire") and "exp_labels" not in case]
    assert fires
    assert quiet
    assert all(f"alertname: {alert}" in case for case in own)


def test_each_explained_alert_exists() -> None:
    assert re.findall(r"^### (crawler_\w+)$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE) == ALERTS
    assert len(ALERTS) == len(set(ALERTS)) >= 11


def test_rules_read_what_is_shown() -> None:
    expressions = re.findall(r"expr: (?:\|\n((?: {10}.*\n)+)|(.*))", RULES)
    assert len(expressions) == len(ALERTS) + len(RECORDS)
    read = set().union(*(metrics_in(block or line) for block, line in expressions))
    assert sorted(read - shown() - FOREIGN - RECORDS) == []


def test_the_dashboard_reads_what_is_shown() -> None:
    read = set().union(*(metrics_in(query) for _, query in QUERIES))
    assert sorted(read - shown() - FOREIGN) == []
    assert len(read & shown()) > 25


def test_the_dashboard_is_what_its_script_makes() -> None:
    spec = importlib.util.spec_from_file_location("dashboard", GRAFANA / "dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (GRAFANA / "dashboards" / "crawler.json").read_text() == module.text(), "run deploy/grafana/dashboard.py"


def test_the_dashboard_has_its_shape() -> None:
    assert {"title", "uid", "schemaVersion", "panels"} <= DASHBOARD.keys()
    assert [panel["title"] for panel in PANELS if panel["type"] == "row"] == [
        "Crawl", "Frontier", "Dedup", "Hosts", "Workers", "Redis",
    ]  # fmt: skip
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids))
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = {name for _, query in QUERIES for name in re.findall(r"\$\{?(\w+)", query)}
    assert used - variables == {"__rate_interval"}
    source = (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    for panel in PANELS:
        if panel["type"] != "row":
            assert f"uid: {panel['datasource']['uid']}\n" in source
            assert panel["targets"]


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in PANELS:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_every_query_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    rules = []
    for number, (_, query) in enumerate(QUERIES):
        expression = re.sub(r"\$\w+", lambda macro: MACROS[macro[0]], query)
        rules.append({"record": f"query:{number}", "expr": expression})
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    done = promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(QUERIES)} rules found" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("check", "config", "deploy/prometheus/prometheus.yml"),
        ("check", "config", "deploy/prometheus/local.yml"),
        ("check", "rules", "deploy/prometheus/rules.yml"),
        ("test", "rules", "deploy/prometheus/rules_test.yml"),
    ],
    ids=lambda words: f"{words[0]} {Path(words[2]).name}",
)
def test_promtool_accepts(words: tuple[str, ...]) -> None:
    done = promtool(*words[:-1], str(ROOT / words[-1]))
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_scrapes_the_port_that_workers_listen_on() -> None:
    settings = (ROOT / "crawler" / "settings.py").read_text()
    port = re.search(r'"METRICS_PORT", (\d+)', settings)
    assert port
    assert f"port: {port[1]}\n" in (PROMETHEUS / "prometheus.yml").read_text()
