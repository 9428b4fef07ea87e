"""Imports go one way: settings, spiders, commands → frontier → dedup → canonical; and the pure modules stay pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Any room may import these; they import only each other.
SHARED = {"errors", "config", "env", "keys", "connection", "nodes", "embedded", "feeds"}
# room → the rooms it may import, besides itself and the shared modules. Rooms that are not here may import every room.
MAY_IMPORT = {
    "canonical": set[str](),
    "dedup": {"canonical"},
    "frontier": {"dedup", "canonical"},
    "metrics": {"frontier", "dedup", "canonical"},
    "output": set[str](),
}
# These run and are tested without Scrapy, Twisted or Redis, whole rooms and single modules of the frontier ...
PURE_ROOMS = {"canonical", "dedup", "errors", "config", "keys"}
PURE_MODULES = {
    "crawler.frontier.inbox",
    "crawler.frontier.message",
    "crawler.frontier.policy",
    "crawler.frontier.values",
    "crawler.output.formats",
    "crawler.output.merge",
}
# ... but for the adapters: what Scrapy or Redis is handed. A new one is added here on purpose.
ADAPTERS = {
    "crawler.canonical.audit",
    "crawler.canonical.fingerprinter",
    "crawler.canonical.redirects",
    "crawler.dedup.backend",
    "crawler.dedup.dupefilter",
    "crawler.dedup.ending",
    "crawler.dedup.local",
    "crawler.dedup.log",
    "crawler.dedup.memory",
    "crawler.dedup.stored",
    "crawler.dedup.transfer",
}
IMPURE = {"scrapy", "scrapy_redis", "twisted", "redis", "valkey"}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "crawler").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported(path: Path, *, for_types: bool) -> set[str]:
    """Whole names of what a module imports, anywhere in it; with or without what only a type checker sees."""
    tree = ast.parse(path.read_text())
    hidden: set[ast.AST] = set()
    if not for_types:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                hidden.update(inner for statement in node.body for inner in ast.walk(statement))
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; the project writes whole names"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def room(name: str) -> str:
    """``crawler.dedup.bloom`` → ``dedup``; the package itself → ''."""
    return name.split(".")[1] if "." in name else ""


def forbidden(name: str, imports: set[str]) -> set[str]:
    """The imports of module `name` that go the wrong way."""
    own = room(name)
    if own in SHARED:
        allowed = SHARED
    elif own in MAY_IMPORT:
        allowed = SHARED | MAY_IMPORT[own] | {own}
    else:
        return set()
    return {target for target in imports if target.startswith("crawler.") and room(target) not in allowed}


MODULES = dict(modules())
PURE = [name for name in MODULES if name in PURE_MODULES or (room(name) in PURE_ROOMS and name not in ADAPTERS)]


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_one_way(name: str) -> None:
    assert sorted(forbidden(name, imported(MODULES[name], for_types=True))) == []


@pytest.mark.parametrize("name", PURE)
def test_core_is_pure(name: str) -> None:
    roots = {target.split(".")[0] for target in imported(MODULES[name], for_types=False)}
    assert sorted(roots & IMPURE) == [], (
        "import it under TYPE_CHECKING, move it to an adapter, or name the module in ADAPTERS"
    )


def test_named_modules_exist() -> None:
    assert set(MODULES) >= ADAPTERS | PURE_MODULES


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("crawler.canonical.query", "crawler.dedup"),
        ("crawler.dedup.bloom", "crawler.frontier.scheduler"),
        ("crawler.frontier.scheduler", "crawler.settings"),
        ("crawler.keys", "crawler.frontier"),
    ],
)
def test_a_wrong_import_is_seen(name: str, target: str) -> None:
    assert forbidden(name, {target, "crawler.errors.ConfigError"}) == {target}
