"""``scrapy canonical``: what a URL's key stands for, and whether the rules are any good."""

from __future__ import annotations

import argparse
import difflib
import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from crawler.commands.spider import find_spider, one_line, one_line_flags
from crawler.errors import ConfigError

if TYPE_CHECKING:
    from crawler.canonical.findings import Finding
    from crawler.canonical.url import Canonicaliser

_USAGE = "scrapy canonical URL..., or URLs on standard input, one per line"
_FLAGS = ("--explain", "--json", "--check", "--audit", "--suggest", "--rules", "--spider")


class Command(ScrapyCommand):
    """Exit code 1 when an example of a rule fails, 2 for bad input."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        """Shown in the usage line."""
        return "[URL...] [--explain | --json] [--rules FILE] [--spider SPIDER]"

    def short_desc(self) -> str:
        """Shown in the list of commands."""
        return "Show the canonical form of URLs, and why"

    def long_desc(self) -> str:
        """Shown by ``scrapy canonical -h``."""
        return (
            "Prints the canonical form of each URL: two URLs with the same one are one page for the crawl. Without "
            "URLs they are read from standard input, one per line."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The flags."""
        super().add_options(parser)
        one_line_flags(parser)
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--explain", action="store_true", help="print every step and the rule that made it")
        how.add_argument("--json", action="store_true", help="print one JSON object per line")
        how.add_argument("--check", action="store_true", help="run the examples of all rules, of all spiders too")
        how.add_argument("--audit", metavar="SPIDER", help="print what the audit of SPIDER found (CANONICAL_AUDIT)")
        how.add_argument("--suggest", metavar="SPIDER", help="print the site rules that the audit speaks for")
        parser.add_argument("--rules", metavar="FILE", action="append", default=[], help="use these site rules as well")
        parser.add_argument("--spider", metavar="SPIDER", help="use the rules of this spider as well")

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Exit code 0: done; 1: an example of a rule failed; 2: bad flags, files or rules."""
        from crawler.canonical import findings, rules, sources

        assert self.settings is not None
        _refuse_unknown_flags(args)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        extra = [Path(path) for path in opts.rules]
        if opts.audit or opts.suggest:
            found = self._findings(opts.audit or opts.suggest)
            print((findings.report if opts.audit else findings.suggest)(found))
        elif opts.check:
            self._check(extra)
        else:
            spider = find_spider(self.settings, [opts.spider], _USAGE) if opts.spider else None
            ruleset = sources.load(self.settings, spider, extra)
            canonicaliser = ruleset.canonicaliser()
            for error in rules.failures(canonicaliser, ruleset.sites):
                self.exitcode = 1
                print(error, file=sys.stderr)
            for url in _urls(args):
                print(_shown(canonicaliser, url, opts))

    def _check(self, extra: list[Path]) -> None:
        """Every example of every rule; each spider's with the rules that hold for all."""
        from scrapy.spiderloader import get_spider_loader

        from crawler.canonical import rules, sources

        assert self.settings is not None
        loader = get_spider_loader(self.settings)
        spiders = [spider for spider in map(loader.load, sorted(loader.list())) if hasattr(spider, "canonical_rules")]
        seen: set[str] = set()
        count = examples = 0
        for spider in [None, *spiders]:
            ruleset = sources.load(self.settings, spider, extra)
            for error in rules.failures(ruleset.canonicaliser(), ruleset.sites):
                self.exitcode = 1
                if str(error) not in seen:
                    print(error, file=sys.stderr)
                seen.add(str(error))
            new = [site for site in ruleset.sites if spider is None or site.label.startswith("spider ")]
            count += len(new)
            examples += sum(len(site.same) + len(site.different) for site in new)
        print(f"{count} rules, {examples} examples, {len(seen)} failed")

    def _findings(self, name: str) -> list[Finding]:
        from crawler import connection
        from crawler.canonical import findings
        from crawler.keys import Keys
        from crawler.nodes import node_of

        assert self.settings is not None
        spider = find_spider(self.settings, [name], "scrapy canonical --audit SPIDER")
        connection.check(self.settings)
        with connection.sync_client(self.settings) as client:
            keys = Keys.from_settings(self.settings, spider.name)
            found = findings.read(node_of(client, keys.tag), keys.audit)
        if not found:
            print(f"# Nothing was tried for {spider.name} yet: crawl with -s CANONICAL_AUDIT=0.01", file=sys.stderr)
        return found


def _refuse_unknown_flags(args: list[str]) -> None:
    """Scrapy hands on what it does not know; no URL begins with a dash."""
    for word in args:
        if word.startswith("-"):
            near = difflib.get_close_matches(word.partition("=")[0], _FLAGS, 1)
            remedy = f"did you mean {near[0]}?" if near else f"use one of {', '.join(_FLAGS)}"
            raise ConfigError("flag", word, f"unknown; {remedy}")


def _urls(args: list[str]) -> Iterable[str]:
    if args:
        return map(_octets, args)
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("URL", "(not given)", _USAGE)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    return (_octets(line.strip()) for line in sys.stdin if line.strip())


def _octets(text: str) -> str:
    """`text` with octets that are not UTF-8 as escapes: that is what a client would send."""
    return re.sub("[\udc80-\udcff]", lambda found: f"%{ord(found[0]) & 0xFF:02X}", text)


def _shown(canonicaliser: Canonicaliser, url: str, opts: argparse.Namespace) -> str:
    from crawler.canonical.explain import Explanation

    if opts.json:
        return Explanation(canonicaliser, url).json()
    return Explanation(canonicaliser, url).text() if opts.explain else canonicaliser.canonical(url)
