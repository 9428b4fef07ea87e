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
# 130 ms (the doors that are switched off), 30 ms (what commands draw with), what is optional or another process's.
NOT_YET = ("aiohttp", "twisted.conch", "rich", "asyncpg", "crawler.demo", "crawler.embedded.supervisor")
NEEDED = ("crawler.frontier.scheduler", "crawler.metrics.extension", "crawler.canonical.fingerprinter")


def test_a_worker_imports_nothing_that_it_does_not_need_to_start(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "lean.py").write_text(SPIDER)
    found = tmp_path / "modules"
    words = ["runspider", str(tmp_path / "lean.py"), "-a", f"file={found}", "-s", "METRICS_PORT=0"]
    done = run_scrapy(words, project_env(redis_url, tmp_path))
    assert done.returncode == 0, done.stderr
    modules = set(found.read_text().split())
    assert modules.issuperset(NEEDED), "it has started"
    assert modules.intersection(NOT_YET) == set()
