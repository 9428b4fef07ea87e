"""Each setting has an effect: with the setting ignored, its test of ``tests/support/effects.py`` fails.

One by hand: ``IGNORE_SETTING=FRONTIER_ORDER PYTHONPATH=tests/support/ignoring pytest tests/...``
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.effects import SETTINGS
from tests.support.project import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def outcome(ignored: str, *tests: str) -> tuple[int, str]:
    """pytest's exit code and output for `tests`, while all processes ignore a setting."""
    env = {**os.environ, "IGNORE_SETTING": ignored, "PYTHONPATH": str(PROJECT / "tests" / "support" / "ignoring")}
    nodes = [f"tests/{test}" for test in tests]
    options = ["-m", "", "-n", "0", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *nodes]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_all_pass_with_their_settings() -> None:
    code, out = outcome("NO_SETTING", *sorted(set(SETTINGS.values())))
    assert code == 0, out


@pytest.mark.parametrize("name", SETTINGS)
def test_an_ignored_setting_fails_its_test(name: str) -> None:
    code, out = outcome(name, SETTINGS[name])
    assert code == 1, out
    last = out.splitlines()[-1]
    assert "1 failed" in last, out
    assert "error" not in last, f"fails before the test begins\n{out}"
