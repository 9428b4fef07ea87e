"""``scrapy demo`` as a user types it: its table, its exit code, its errors, and nothing left behind."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.project import run_scrapy, start_scrapy
from tests.support.server import wait_for


def figures(output: str) -> dict[str, int]:
    """The first number of each row of the final table."""
    rows = re.findall(r"^│? *([a-z][\w /,-]*?)(?: \(killed\))? +│? *(\d+)", output, re.MULTILINE)
    return {name: int(value) for name, value in rows}


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes that have to do with `folder`."""
    lines = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line for line in lines if str(folder) in line]
    for line in lines:
        environ = Path("/proc", line.split()[0], "environ")
        try:
            if f"TMPDIR={folder}".encode() in environ.read_bytes().split(b"\0"):
                found.append(line)
        except OSError:
            continue
    return found


def test_demo_with_a_kill(tmp_path: Path) -> None:
    done = run_scrapy(["demo", "--workers", "3", "--pages", "300", "--kill"], {"TMPDIR": str(tmp_path)}, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    table = figures(done.stdout)
    assert table["pages on the site"] == table["fetched"] == table["pages with an item in the feeds"] == 300
    assert table["missed"] == 0
    assert table["fetched twice"] <= 16
    assert table["links seen"] > table["duplicates avoided"] > 300
    assert "kill -9 worker-" in done.stdout
    assert {name for name in table if name.startswith("pages/s, worker-")} >= {
        f"pages/s, worker-{n}" for n in (1, 2, 3)
    }
    assert list(tmp_path.iterdir()) == [], "the demo left something behind"
    assert processes_of(tmp_path) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    folder = tmp_path / "temporary"
    folder.mkdir()
    demo = start_scrapy(["demo", "--pages", "20000"], {"TMPDIR": str(folder)}, log)
    wait_for(lambda: re.search(r"s +[1-9]\d*/20000 pages", log.read_text()), "pages fetched", 60)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(20) == 130
    assert log.read_text().splitlines()[-1] == "interrupted: all processes are stopped, nothing is kept"
    assert "Traceback" not in log.read_text()
    wait_for(lambda: not processes_of(folder), "no process left", 10)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--workers", "0"], "--workers=0: must be between 1 and 64"),
        (["--workers", "many"], "--workers=many: must be a whole number"),
        (["--pages", "-5"], "--pages=-5: must be between 1 and 1000000"),
        (["--pages", "50", "--kill"], "--pages=50: must be at least 200 with --kill, or the crawl ends too early"),
        (["--worker", "3", "now"], "scrapy demo=now: takes --workers N, --pages N and --kill only"),
    ],
)
def test_bad_flags_are_one_line(flags: list[str], line: str) -> None:
    done = run_scrapy(["demo", *flags])
    assert done.returncode == 2
    assert done.stderr.splitlines() == [line]
    assert done.stdout == ""
