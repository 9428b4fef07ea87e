"""``scrapy dedup plan``: what a memory will cost and how often it will err, before anything is stored."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from crawler.commands import figures

if TYPE_CHECKING:
    from scrapy.settings import Settings


def plan(settings: Settings, opts: argparse.Namespace) -> None:
    """Sizes and errors, before anything is stored."""
    from crawler.dedup import options, report

    wanted = settings.copy()
    if opts.capacity is not None:
        wanted.set("BLOOM_CAPACITY", figures.count("--capacity", opts.capacity))
    if opts.error_rate is not None:
        wanted.set("BLOOM_ERROR_RATE", figures.share("--error-rate", opts.error_rate))
    capacity, error = options.capacity(wanted), options.error_rate(wanted)
    facts = report.plan(capacity, error)
    if opts.json:
        print(json.dumps(facts))
        return
    bits, theory, lost = (
        facts["bits_per_page"],
        facts["theory_bits_per_page"],
        figures.few(facts["expected_lost_pages"]),
    )
    print(f"A Bloom filter for {capacity:,} pages that errs on at most {error:g} of the new ones")
    print(f"  {bits:.1f} bits per page (theory {theory:.1f}), k = {facts['k']}")
    print(f"  {figures.size(facts['bytes'])} in {facts['keys']:,} keys when full, nothing before it is used")
    print(f"  an error is a page that is never crawled: expect {lost} of {capacity:,}")
    print("  begun smaller, it grows to this size in layers, within the same error\n")
    rows = [["pages", "Bloom", "lost pages", "compact", "exact", "scrapy-redis"]]
    rows += [_plan_row(pages, error) for pages in sorted({10**7, 10**8, 10**9, capacity})]
    figures.print_table(rows)


def _plan_row(pages: int, error: float) -> list[str]:
    from crawler.dedup import report
    from crawler.dedup.sizing import CompactSizing, Sizing

    sizing = Sizing(pages, error)
    compact = report.compact_bytes(CompactSizing(pages, error), pages) if error >= 1e-8 else None
    return [
        f"{pages:,}",
        figures.size(report.bitmap_bytes(sizing, pages)),
        figures.few(report.expected_losses(sizing, pages)),
        "-" if compact is None else figures.size(compact),
        figures.size(report.EXACT * pages),
        figures.size(report.SCRAPY_REDIS * pages),
    ]
