"""What the deployment files promise, read from their text: names that exist, images that are pinned, times that fit."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.test_project_docs import assigned_settings, read_settings

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
# Variables of the worker container that are no settings.
CONTAINER_ONLY = {"SPIDER", "SPIDER_ARGS"}


def test_each_variable_given_to_the_workers_is_a_setting() -> None:
    block = COMPOSE.split("environment: &environment", 1)[1].split("depends_on:", 1)[0]
    names = set(re.findall(r"^ +([A-Z_]+):", block, re.MULTILINE))
    assert len(names) > 10
    assert sorted(names - assigned_settings() - read_settings() - CONTAINER_ONLY) == []


def test_the_demo_sets_only_what_compose_reads() -> None:
    names = re.findall(r"^([A-Z_]+)=", (ROOT / "deploy" / "demo.env").read_text(), re.MULTILINE)
    unread = [name for name in names if f"${{{name}" not in COMPOSE]
    assert unread == ["COMPOSE_PROFILES"]


def test_images_are_pinned() -> None:
    images = re.findall(r"^ +image: ([a-z].*)$", COMPOSE, re.MULTILINE) + re.findall(r"_IMAGE=(\S+)", DOCKERFILE)
    assert len(images) >= 2
    assert all(re.search(r":v?\d", image) for image in images), images


def test_containers_get_longer_to_stop_than_workers_take() -> None:
    grace = re.search(r"stop_grace_period: (\d+)s", COMPOSE)
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
