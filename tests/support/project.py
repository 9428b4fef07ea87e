"""Run the project's own commands as a user does: another process, in the project's root, with a clean environment.

Nothing of the developer's environment reaches the process except what a shell needs, so a test never talks to
somebody's real Redis. ``env`` values are added on top; see :func:`project_env` for the usual ones.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
_KEPT = ("COVERAGE_PROCESS_CONFIG", "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")
_processes: list[subprocess.Popen[bytes]] = []


def clean_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a process in tests: a few of the shell, loopback allowed, no ``.env`` file, then `env`."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    made = {**kept, "PYTHONUNBUFFERED": "1", "CRAWLER_ALLOW_PRIVATE": "1", "CRAWLER_ENV_FILE": "", **(env or {})}
    if "IGNORE_SETTING" in os.environ:  # see tests/support/ignoring
        made["IGNORE_SETTING"] = os.environ["IGNORE_SETTING"]
        made["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ["PYTHONPATH"], made.get("PYTHONPATH"))))
    return made


def project_env(redis_url: str, folder: Path, **more: str) -> dict[str, str]:
    """What most crawls in tests need: the server, and `folder` for the items; `more` are further variables."""
    return {"REDIS_URL": redis_url, "FEED_DIR": str(folder / "items"), **more}


def scrapy_command(args: Sequence[str]) -> list[str]:
    """``scrapy ARGS`` with this interpreter."""
    return [sys.executable, "-m", "scrapy", *args]


def run_scrapy(
    args: Sequence[str],
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    *,
    cwd: Path = PROJECT,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``scrapy ARGS`` to its end; `stdin` is its standard input (none if left out)."""
    process = subprocess.Popen(
        scrapy_command(args),
        cwd=cwd,
        env=clean_env(env),
        text=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, err = process.communicate(stdin, timeout)
    except BaseException:
        _kill_group(process.pid)
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_scrapy(
    args: Sequence[str], env: Mapping[str, str] | None = None, log_path: Path | None = None, *, cwd: Path = PROJECT
) -> subprocess.Popen[bytes]:
    """Start ``scrapy ARGS`` in its own process group; both outputs go to `log_path`. Killed at the end of the test."""
    log = log_path.open("ab") if log_path else None  # closed below, the child keeps its copy
    try:
        process = subprocess.Popen(
            scrapy_command(args),
            cwd=cwd,
            env=clean_env(env),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log or subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
    finally:
        if log:
            log.close()
    _processes.append(process)
    return process


def started() -> list[subprocess.Popen[bytes]]:
    """Processes of :func:`start_scrapy` that were not cleaned up yet."""
    return _processes


def kill_started(since: int = 0) -> None:
    """kill -9 what :func:`start_scrapy` started after the first `since` ones."""
    for process in _processes[since:]:
        if process.poll() is None:
            _kill_group(process.pid)
        process.wait()
    del _processes[since:]


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
