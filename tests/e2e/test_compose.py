"""Runs the compose checks under pytest where an engine answers."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.e2e import compose


def engine_answers() -> bool:
    """Whether ``docker`` reaches an engine."""
    docker = shutil.which("docker")
    return docker is not None and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0


@pytest.mark.docker
@pytest.mark.timeout(1800)
def test_compose() -> None:
    if not engine_answers():
        pytest.skip("no Docker engine answers")
    assert compose.main() == 0
