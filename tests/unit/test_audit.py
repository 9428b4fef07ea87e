"""``make audit``: an advisory database's answer, another's where the first is silent, or one line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKED = (ROOT / "requirements-dev.txt").read_text().count("==")
SILENT = "requests.exceptions.ConnectionError: Max retries exceeded"
SKIPPED = "x  Dependency not found on PyPI and could not be audited: x (1)\\n" * LOCKED
NONE, HOLE = "No known vulnerabilities found", "idna 3.6 PYSEC-2024-60"


def audit(tmp_path: Path, pypi: tuple[str, int], osv: tuple[str, int]) -> subprocess.CompletedProcess[str]:
    """The script with a stand-in for pip-audit: what each database's run prints, and its exit code."""
    python = tmp_path / "audit" / "bin" / "python"
    python.parent.mkdir(parents=True)
    cases = "".join(f"*' {name} '*) printf '%b' '{said}'; exit {code};;\n"
                    for name, (said, code) in (("pypi", pypi), ("osv", osv)))  # fmt: skip
    python.write_text(f'#!/bin/sh\ncase " $* " in\n{cases}esac\n')
    python.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "VENV": str(tmp_path), "BIN": "/nowhere"}
    return subprocess.run(["sh", "deploy/audit.sh"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("pypi", "osv", "code", "said"),
    [
        ((NONE, 0), ("not asked", 9), 0, NONE),
        ((HOLE, 1), ("not asked", 9), 1, HOLE),
        ((SILENT, 1), (HOLE, 1), 1, HOLE),
        ((SKIPPED, 0), (NONE, 0), 0, NONE),
    ],
    ids=["clean", "hole", "no PyPI", "a mirror"],
)
def test_the_first_database_that_answers(
    tmp_path: Path, pypi: tuple[str, int], osv: tuple[str, int], code: int, said: str
) -> None:
    done = audit(tmp_path, pypi, osv)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (code, said, "")


def test_no_database_is_one_line_and_a_failure(tmp_path: Path) -> None:
    done = audit(tmp_path, (SKIPPED, 0), (SILENT, 1))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("make audit: neither pypi.org nor api.osv.dev answers from here; nothing was audited")
    assert done.stderr.count("\n") == 1
