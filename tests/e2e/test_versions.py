"""Keys made by other rules never mix: a worker whose rules were edited says so and stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.site import Site
from tests.support.project import project_env, run_scrapy


def test_edited_rules_are_noticed(site: Callable[..., Site], redis_url: str, tmp_path: Path) -> None:
    pages = site(pages=5, easy=True)
    env = project_env(redis_url, tmp_path, DOWNLOAD_DELAY="0")
    crawl = ["crawl", "site", "-a", f"start={pages.start}"]
    assert run_scrapy(crawl, env).returncode == 0

    refused = run_scrapy(crawl, env | {"CANONICAL_GROUPS": "session"})
    assert refused.returncode == 1
    [line] = refused.stderr.strip().splitlines()
    assert "was written with payload=1 fingerprint=1-" in line
    assert "scrapy frontier flush SPIDER --yes" in line
    assert "REDIS_KEY_PREFIX" in line
    assert "Traceback" not in refused.stderr

    assert run_scrapy(["frontier", "flush", "site", "--yes"], env).returncode == 0
    assert run_scrapy(crawl, env | {"CANONICAL_GROUPS": "session"}).returncode == 0
    assert set(pages.report().times.values()) == {2}
