"""What a key costs: ours with 300 site rules against Scrapy's own fingerprinter, in the same run, on the same URLs.

CPU time, not clock time, so that a busy machine changes little; the best of several rounds each, in turns.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pytest
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

from crawler.canonical import CanonicalFingerprinter, rules
from crawler.canonical.url import Canonicaliser

COUNT, ROUNDS = 10_000, 7

pytestmark = pytest.mark.slow


class Fingerprinter(Protocol):
    def fingerprint(self, request: Request) -> bytes: ...


def site_rules(count: int) -> list[dict[str, Any]]:
    """Rules for as many hosts, of every kind."""
    kinds: list[dict[str, Any]] = [
        {"keep": ["id", "category", "page", "q"]},
        {"strip": ["view", "ts"], "groups": ["session", "cachebuster"]},
        {"fold": ["www", "slash", "https"]},
        {"path": "/product", "keep": ["id"]},
        {"path_sub": [{"re": "/ref=[^/]+", "to": ""}], "restore": ["utm_campaign"]},
    ]
    return [
        {
            "hosts": [f"shop{number}.example"],
            "different": [[f"http://shop{number}.example/product/1", f"http://shop{number}.example/product/2"]],
            **kinds[number % len(kinds)],
        }
        for number in range(count)
    ]


def mixed_urls(count: int, hosts: int = 600) -> list[str]:
    """Links as sites write them: plain, tracked, unordered, escaped, with sessions, long; half of them under a rule."""
    rng = random.Random(7)
    shapes: list[Callable[[str, int], str]] = [
        lambda host, n: f"https://{host}/news/2026/11/story-{n}.html",
        lambda host, n: f"https://{host}/product?id={n}&category={n % 9}&view=grid",
        lambda host, n: f"https://{host}/a/{n}?utm_source=mail&utm_medium=x&utm_campaign=y&fbclid=IwAR{n}",
        lambda host, n: f"http://{host}:80/caf%c3%a9/%7euser{n}/?q=a%20b&lang=de#part",
        lambda host, n: f"https://{host}/viewtopic.php?t={n}&start=20&sid=9682993c8daa2c5497996114facdc805",
        lambda host, n: f"https://{host}/search?q=lamp+{n}&page={n % 5}&sort=price&filter[colour]=red",
        lambda host, n: f"https://WWW.{host}/p;jsessionid=0123456789abcdef{n}?z=1&y=2&x={n}",
        lambda host, n: f"https://{host}/{'deep/' * 6}{n}/",
    ]
    return [rng.choice(shapes)(f"shop{rng.randrange(hosts)}.example", number) for number in range(count)]


def microseconds(fingerprinter: Fingerprinter, urls: Sequence[str]) -> float:
    """CPU time per fingerprint of a fresh request."""
    requests = [Request(url) for url in urls]
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        for request in requests:
            fingerprinter.fingerprint(request)
        return (time.process_time() - start) / len(requests) * 1e6
    finally:
        gc.enable()


def ours(count: int) -> CanonicalFingerprinter:
    """The fingerprinter with `count` site rules."""
    return CanonicalFingerprinter(Canonicaliser(sites=rules.sites({"site": site_rules(count)}, "bench")))


def test_a_key_costs_at_most_0_4_of_scrapys() -> None:
    urls = mixed_urls(COUNT)
    candidates: dict[str, Fingerprinter] = {
        "scrapy": RequestFingerprinter(), "300 rules": ours(300), "no rules": ours(0)
    }  # fmt: skip
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(ROUNDS):
        for name, fingerprinter in candidates.items():
            best[name] = min(best[name], microseconds(fingerprinter, urls))
    for name, cost in best.items():
        print(f"\n{name:>10}: {cost:6.2f} µs per request, {cost / best['scrapy']:.2f} × Scrapy's", end="")
    assert best["300 rules"] <= 0.4 * best["scrapy"]


def test_the_cost_does_not_grow_with_the_number_of_rules() -> None:
    urls = mixed_urls(COUNT, hosts=300)
    few, many = ours(300), ours(10_000)
    best_few = best_many = float("inf")
    for _ in range(ROUNDS):
        best_few = min(best_few, microseconds(few, urls))
        best_many = min(best_many, microseconds(many, urls))
    print(f"\n300 rules: {best_few:.2f} µs, 10,000 rules: {best_many:.2f} µs")
    assert best_many <= 1.2 * best_few


PROBE = """
import gc, sys, time, tracemalloc
import scrapy.settings, ada_url
gc.disable()  # a pass of the collector over all of Scrapy's objects falls where it falls
before = time.process_time()
from crawler.canonical import sources
ruleset = sources.load(scrapy.settings.Settings({"CANONICAL_RULES": sys.argv[1]}))
canonicaliser = ruleset.checked()
start_up = time.process_time() - before
tracemalloc.start()
held = sources.load(scrapy.settings.Settings({"CANONICAL_RULES": sys.argv[1]}))
made = held.checked()
for number in range(300):
    made.canonical(f"http://shop{number}.example/product?id=1&ts=2")
print(start_up * 1000, tracemalloc.get_traced_memory()[0] / 2**20, len(held.sites))
"""


def test_start_up_and_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("rules") / "none.toml"
    file.write_text("")
    runs = [subprocess.check_output([sys.executable, "-c", PROBE, str(file)], text=True).split() for _ in range(9)]
    start_up = min(float(run[0]) for run in runs)
    print(f"\nstart-up with the shipped rules: {start_up:.0f} ms of CPU")
    assert start_up <= 50


def test_memory_of_300_rules(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("rules") / "many.toml"
    file.write_text("\n".join(map(as_toml, site_rules(300))), "utf-8")
    output = subprocess.check_output([sys.executable, "-c", PROBE, str(file)], text=True).split()
    print(f"\n{output[2]} rules: {float(output[1]):.1f} MiB, read, checked and used")
    assert int(output[2]) >= 300
    assert float(output[1]) <= 10


def as_toml(table: dict[str, Any]) -> str:
    """One ``[[site]]`` table as text; the values are plain enough that Python writes them as TOML does."""
    lines = [f"{key} = {value!r}" for key, value in table.items() if key != "path_sub"]
    subs = [f"{{ re = {item['re']!r}, to = {item['to']!r} }}" for item in table.get("path_sub", ())]
    return "\n".join(["[[site]]", *lines, *([f"path_sub = [{', '.join(subs)}]"] if subs else [])])
