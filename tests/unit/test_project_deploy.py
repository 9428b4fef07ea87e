"""What the deployment files promise, read from their text: names that exist, images that are pinned, times that fit."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.unit.test_project_docs import assigned_settings, read_settings

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
# Variables of the worker container that are no settings.
CONTAINER_ONLY = {"SPIDER", "SPIDER_ARGS"}
# What the container decides, not .env: where Redis, files and the endpoint are, and who a replica is.
DECIDED = {
    *("REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_CLUSTER", "REDIS_CLUSTER_NODES", "REDIS_SENTINELS"),
    *("FRONTIER", "WORKER_NAME", "FEED_DIR"),
    *("METRICS_PORT", "METRICS_TEXTFILE", "METRICS_SD_FILE"),
}


def test_containers_get_each_setting_that_may_come_from_the_environment() -> None:
    given = set(yaml.safe_load(COMPOSE)["services"]["worker"]["environment"])
    wanted = set(re.findall(r'_env\.\w+\(\s*"([A-Z_]+)"', (ROOT / "crawler" / "settings.py").read_text()))
    missing = wanted - given - DECIDED
    assert sorted(missing) == [], "add these to the worker's environment in docker-compose.yml, or to DECIDED here"
    assert sorted(given - assigned_settings() - read_settings() - CONTAINER_ONLY) == []


def test_the_override_is_for_this_machine_only_and_left_out_by_the_example() -> None:
    assert "\nCOMPOSE_FILE=docker-compose.yml\n" in (ROOT / ".env.example").read_text()
    services = yaml.safe_load((ROOT / "docker-compose.override.yml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert all(mount.endswith(":ro") for service in services.values() for mount in service.get("volumes", []))


def entrypoint(arguments: list[str], **environ: str) -> list[str]:
    spec = importlib.util.spec_from_file_location("worker", ROOT / "deploy" / "worker.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    words: list[str] = module.command(arguments, environ)
    return words


def test_the_container_runs_the_spider_or_any_command() -> None:
    assert entrypoint([], SPIDER="site") == ["scrapy", "crawl", "site"]
    arguments = "start=https://example.org/?a=1&b=#c title='two words'  x="
    words = ["-a", "start=https://example.org/?a=1&b=#c", "-a", "title=two words", "-a", "x="]
    assert entrypoint([], SPIDER="site", SPIDER_ARGS=arguments) == ["scrapy", "crawl", "site", *words]
    assert entrypoint(["frontier", "status", "site"], SPIDER="site") == ["scrapy", "frontier", "status", "site"]


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({}, "SPIDER=: name the spider to run"),
        ({"SPIDER_ARGS": "a='b"}, "SPIDER_ARGS=a='b: no closing quotation, each quote needs its partner"),
        ({"SPIDER_ARGS": "title=two words"}, "SPIDER_ARGS=title=two words: words is no name=value; put a value"),
        ({"SPIDER_ARGS": "=x"}, "SPIDER_ARGS==x: =x is no name=value"),
    ],
)
def test_a_container_that_cannot_begin_says_so_in_one_line(environ: dict[str, str], line: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(line)}"):
        entrypoint([], **({"SPIDER": "site"} if environ else {}), **environ)


def test_the_demo_sets_only_what_compose_reads() -> None:
    names = re.findall(r"^([A-Z_]+)=", (ROOT / "deploy" / "demo.env").read_text(), re.MULTILINE)
    unread = [name for name in names if not re.search(rf"\$\{{{name}|^ +{name}:$", COMPOSE, re.MULTILINE)]
    assert unread == ["COMPOSE_PROFILES"]


def test_images_are_pinned() -> None:
    given = re.findall(r"^ +image: ([a-z].*)$", COMPOSE, re.MULTILINE)
    images = [*given, *re.findall(r"_IMAGE:?[-=]+([^\s}]+)", COMPOSE + DOCKERFILE)]
    assert len(images) >= 6
    assert all(re.search(r":v?\d", image) for image in images), images


def test_containers_get_longer_to_stop_than_workers_take() -> None:
    grace = re.search(r"stop_grace_period: \$\{STOP_GRACE:-(\d+)s\}", COMPOSE)
    lease = re.search(r"FRONTIER_GRACE\", (\d+)", (ROOT / "crawler" / "settings.py").read_text())
    assert grace
    assert lease
    assert int(grace[1]) >= int(lease[1]) + 5


def test_the_locks_name_no_host_and_hold_hashes() -> None:
    runtime, tools = ((ROOT / name).read_text() for name in ("requirements.txt", "requirements-dev.txt"))
    for text in (runtime, tools):
        assert "://" not in text
        assert "--index" not in text
        assert text.count("==") <= text.count("--hash=sha256:")
    pins = [set(re.findall(r"^(\S+==\S+)", text, re.MULTILINE)) for text in (runtime, tools)]
    assert pins[0] < pins[1], "the development lock must hold the runtime lock: make lock"
