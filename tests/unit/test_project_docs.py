"""The docs name what exists and nothing else: settings, environment variables, Redis keys, commands."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import crawler.keys
from crawler.commands import dedup, frontier

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}")


def first_column(path: Path) -> set[str]:
    """What stands in backticks in the first cell of each table row."""
    rows = re.findall(r"^\| *(`[^|]*`) *\|", path.read_text(), re.MULTILINE)
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


def assigned_settings() -> set[str]:
    """Names assigned at the top level of crawler/settings.py, inside ``if`` and ``for`` too."""
    tree = ast.parse((ROOT / "crawler" / "settings.py").read_text())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if NAME.fullmatch(name)}


def read_settings() -> set[str]:
    """Names that the package reads: config.integer(settings, "NAME", …), settings.get("NAME") and their like."""
    names: set[str] = set()
    for path in (ROOT / "crawler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            source = ast.unparse(node.func.value)
            if (source.endswith("settings") and node.func.attr.startswith("get")) or source == "_env":
                position = 0
            elif source == "config":
                position = 1
            else:
                continue
            argument = node.args[position] if len(node.args) > position else None
            if isinstance(argument, ast.Constant) and NAME.fullmatch(str(argument.value)):
                names.add(str(argument.value))
    return names


def test_each_setting_is_documented() -> None:
    assert sorted((assigned_settings() | read_settings()) - first_column(ROOT / "docs" / "settings.md")) == []


def known_names() -> set[str]:
    """Every name that the package has as a whole string, and every variable of the compose file."""
    compose = "".join(path.read_text() for path in ROOT.glob("docker-compose*.yml"))
    names = set(re.findall(r"\$\{([A-Z_]+)", compose))
    for path in (ROOT / "crawler").rglob("*.py"):
        names.update(
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
    return names


def test_each_documented_setting_exists() -> None:
    assert sorted(first_column(ROOT / "docs" / "settings.md") - assigned_settings() - known_names()) == []


def test_each_key_is_documented() -> None:
    catalogue = re.findall(r"^([A-Z]+:\S+) +\S+ +\S", crawler.keys.__doc__ or "", re.MULTILINE)
    assert len(catalogue) > 10
    assert first_column(ROOT / "docs" / "redis-keys.md") == set(catalogue)


def test_each_command_is_documented() -> None:
    commands = {
        path.stem for path in (ROOT / "crawler" / "commands").glob("*.py") if "\nclass Command(" in path.read_text()
    }
    assert len(commands) > 3
    assert first_column(ROOT / "docs" / "commands.md") == {f"scrapy {name}" for name in commands}


def test_each_command_that_the_docs_tell_to_run_exists() -> None:
    files = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("deploy/**/*.md"),
        *ROOT.glob("docker-compose*.yml"),
    ]
    text = "\n".join(path.read_text() for path in files)
    for name, known in (("frontier", frontier.ACTIONS), ("dedup", dedup.ACTIONS)):
        words = re.findall(rf"(?:scrapy|docker compose run --rm worker) {name}\s+([a-z]+)", text)
        assert len(words) > 5
        assert set(words) <= known.keys(), name
    upkeep = re.findall(r"docker compose run --rm (?:-\S+ (?:\"[^\"]*\" )?)*upkeep ([a-z]+)", text)
    assert len(upkeep) >= 6
    assert set(upkeep) <= dedup.ACTIONS.keys()


def test_each_target_has_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert targets - set(re.findall(r"^([a-z-]+):.* ## \S", makefile, re.MULTILINE)) == {"runtime"}


def test_each_variable_of_the_example_is_used() -> None:
    used = (ROOT / "crawler" / "settings.py").read_text() + (ROOT / "docker-compose.yml").read_text()
    names = re.findall(r"^#? ?([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert len(names) > 4
    assert [name for name in names if name not in used] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


TO_BE_MADE = {"docs/benchmarks.json", "deploy/prometheus/targets.json", "crawler/spiders/shop.py"}  # by who uses it


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_files_that_are_named_exist(path: Path) -> None:
    named = set(re.findall(r"(?<![\w/.-])((?:crawler|tests|docs|deploy)/[\w./-]+\.\w+)", path.read_text()))
    assert [name for name in sorted(named - TO_BE_MADE) if not (ROOT / name).exists()] == []
