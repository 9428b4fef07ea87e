"""What a worker has imported when it starts: a module too many is paid for by each worker at each start."""

from __future__ import annotations

from pathlib import Path

from tests.support.project import project_env, run_scrapy

SPIDER = """
import sys
from pathlib import Path
from scrapy import Spider

class Lean(Spider):
    name = "lean"

    async def start(self):
        Path(self.file).write_text("\\n".join(sys.modules))
        return
        yield
"""
# 130 ms (doors that are off: EXTENSIONS_BASE), 30 ms (what commands draw with), what is optional or another process's.
NOT_YET = ("aiohttp", "twisted.conch", "rich", "asyncpg", "crawler.demo", "crawler.embedded.supervisor")
NEEDED = ("crawler.frontier.scheduler", "crawler.metrics.extension", "crawler.canonical.fingerprinter")


def start(redis_url: str, folder: Path, **settings: str) -> tuple[set[str], str]:
    """The modules that a worker has when it starts, and its log."""
    (folder / "lean.py").write_text(SPIDER)
    found = folder / "modules"
    words = ["runspider", str(folder / "lean.py"), "-a", f"file={found}", "-s", "METRICS_PORT=0"]
    for name, value in settings.items():
        words += ["-s", f"{name}={value}"]
    done = run_scrapy(words, project_env(redis_url, folder))
    assert done.returncode == 0, done.stderr
    return set(found.read_text().split()), done.stderr


def test_a_worker_imports_only_what_it_needs(redis_url: str, tmp_path: Path) -> None:
    modules, _ = start(redis_url, tmp_path)
    assert modules.issuperset(NEEDED), "it has started"
    assert modules.intersection(NOT_YET) == set()


def test_scrapys_consoles_are_there_for_who_switches_them_on(redis_url: str, tmp_path: Path) -> None:
    ports = {"TELNETCONSOLE_PORT": ""}  # any
    modules, log = start(redis_url, tmp_path, TELNETCONSOLE_ENABLED="1", REMOTE_CONTROL_ENABLED="1", **ports)
    assert {"aiohttp", "twisted.conch"} <= modules
    assert "Telnet console listening" in log
    assert "Remote control HTTP server" in log
