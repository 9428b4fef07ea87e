"""Real input: a documentation tree of Debian's, crawled by three workers, against an independent graph search."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import real_docs


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("package", list(real_docs.PACKAGES))
def test_the_crawl_finds_what_a_graph_search_finds(package: str, redis_url: str, tmp_path: Path) -> None:
    try:
        outcome = real_docs.run(package, tmp_path, redis_url)
    except RuntimeError as error:
        if "apt-get" in str(error) or "dpkg-deb" in str(error):
            pytest.skip(str(error))
        raise
    assert len(outcome.searched) >= 15
    assert outcome.crawled == outcome.searched
    assert set(outcome.fetches.values()) == {1}
    assert set(outcome.fetches) == outcome.searched
