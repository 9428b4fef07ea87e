"""The in-process Bloom filter: grows, errs no more than configured, survives with a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler

from crawler.dedup import MemoryBloomDupeFilter
from crawler.dedup.local import MemoryBloom
from crawler.dedup.sizing import Sizing
from crawler.errors import ConfigError, StoredDataError
from tests.support.seen import fingerprints


def test_growth_forgets_nothing_and_keeps_the_error() -> None:
    bloom = MemoryBloom(Sizing(500, 1e-2))
    added = sum(bloom.add(fingerprint) for fingerprint in fingerprints(0, 3500))
    assert 3500 * 0.99 - 20 <= added <= 3500
    assert not any(bloom.add(fingerprint) for fingerprint in fingerprints(0, 3500))
    seen = sum(bloom.has(fingerprint) for fingerprint in fingerprints(10**6, 10**6 + 20_000))
    assert seen <= 20_000 * 1e-2 + 3 * (20_000 * 1e-2) ** 0.5
    # A layer of 20 blocks keeps a large margin for how unevenly they fill; far less than this means wasted memory.
    assert seen >= 20_000 * 1e-2 / 3
    bloom.close()


@pytest.mark.parametrize("killed", [False, True])
def test_a_folder_keeps_it(tmp_path: Path, killed: bool) -> None:
    sizing = Sizing(100, 1e-6)
    first = MemoryBloom(sizing, tmp_path / "bloom")
    for fingerprint in fingerprints(0, 500):
        first.add(fingerprint)
    if not killed:  # else the layers are there, as a dead process leaves them, but no counters
        first.close()
    second = MemoryBloom(sizing, tmp_path / "bloom")
    assert not any(second.add(fingerprint) for fingerprint in fingerprints(0, 500))
    assert all(second.add(fingerprint) for fingerprint in fingerprints(500, 2000))
    second.close()


def test_a_folder_of_another_size_is_refused(tmp_path: Path) -> None:
    MemoryBloom(Sizing(100, 1e-6), tmp_path).close()
    with pytest.raises(StoredDataError, match=r"BLOOM_CAPACITY=200: .* with 100;"):
        MemoryBloom(Sizing(200, 1e-6), tmp_path)


def test_damaged_metadata_is_one_line(tmp_path: Path) -> None:
    for text in ("", "[1]", "{"):
        (tmp_path / "meta.json").write_text(text)
        with pytest.raises(StoredDataError, match=r"JOBDIR: .*meta.json is damaged; remove"):
            MemoryBloom(Sizing(100, 1e-6), tmp_path)


def test_a_full_one_takes_nothing_more_until_more_is_allowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def run(capacity: int, pages: range) -> list[bool]:
        crawler = get_crawler(Spider, {"JOBDIR": str(tmp_path), "BLOOM_CAPACITY": capacity, "BLOOM_GROWTH": 0})
        crawler.request_fingerprinter = RequestFingerprinter()
        dupefilter = MemoryBloomDupeFilter.from_crawler(crawler)
        seen = [dupefilter.request_seen(Request(f"http://a.example/{page}")) for page in pages]
        dupefilter.close()
        return seen

    assert run(10, range(12)) == [False] * 12
    assert caplog.text.count("BLOOM_GROWTH=0: the crawl ends") == 1, "said once, for two pages"
    assert run(11, range(12)) == [True] * 10 + [False] * 2
    assert run(13, range(12)) == [True] * 11 + [False]
    with pytest.raises(StoredDataError, match=r"BLOOM_CAPACITY=9: .* with 10;"):
        run(9, range(1))


def test_a_window_changes_nothing_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    crawler = get_crawler(Spider, {"DEDUP_WINDOW": "1d", "BLOOM_CAPACITY": 100})
    crawler.request_fingerprinter = RequestFingerprinter()
    MemoryBloomDupeFilter.from_crawler(crawler).close()
    assert "DEDUP_WINDOW changes nothing with MemoryBloomDupeFilter" in caplog.text


def test_as_scrapys_dupefilter(tmp_path: Path) -> None:
    crawler = get_crawler(Spider, {"JOBDIR": str(tmp_path), "BLOOM_CAPACITY": 100})
    crawler.request_fingerprinter = RequestFingerprinter()
    for expected in (False, True):
        dupefilter = MemoryBloomDupeFilter.from_crawler(crawler)
        dupefilter.open()
        assert dupefilter.request_seen(Request("http://a.example/")) is expected
        dupefilter.close("finished")


def test_the_shared_frontier_refuses_it() -> None:
    dupefilter = MemoryBloomDupeFilter(MemoryBloom(Sizing(100, 1e-6)), RequestFingerprinter())
    asks: list[Callable[[], object]] = [lambda: dupefilter.prepare(None, "{x}"), lambda: dupefilter.admission("{x}")]
    for ask in asks:
        with pytest.raises(ConfigError, match=r"DUPEFILTER_CLASS=crawler\.dedup\.\S+: remembers within one process"):
            ask()
    dupefilter.close()
