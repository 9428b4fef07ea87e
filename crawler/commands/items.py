"""``scrapy items``: the item files of all workers of a spider as one, without repeats."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scrapy.commands import ScrapyCommand

from crawler import config
from crawler.commands.spider import find_spider, one_line, one_line_flags
from crawler.errors import ConfigError, CrawlerError

USAGE = "scrapy items SPIDER [-o FILE] [--format jsonl|csv|parquet]"


class Command(ScrapyCommand):
    """Exit code 0: written; 1: there are no items; 2: bad flags, a file that cannot be written."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        """Shown in the usage line."""
        return "SPIDER [-o FILE] [--format FORMAT] [--all]"

    def short_desc(self) -> str:
        """Shown in the list of commands."""
        return "Merge the item files of a spider's workers, without repeats"

    def long_desc(self) -> str:
        """Shown by ``scrapy items -h``."""
        return (
            "Reads FEED_DIR/SPIDER/*.jsonl and writes each item once (by its fingerprint), to standard output or FILE. "
            "Lines that are torn are left out and named. Workers may be at work meanwhile."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The flags."""
        super().add_options(parser)
        one_line_flags(parser)
        parser.add_argument("-o", "--output", metavar="FILE", default="", help="write to FILE when all is read")
        parser.add_argument(
            "--format", metavar="FORMAT", default="", help="jsonl, csv or parquet (default: FILE's end)"
        )
        parser.add_argument("--all", action="store_true", help="repeats too")

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Writes the items, then one line about them on standard error."""
        from crawler.output import formats, merge

        assert self.settings is not None
        if len(args) != 1 or args[0].startswith("-"):
            raise ConfigError("spider", " ".join(args) or "(not given)", f"name one: {USAGE}")
        named = opts.format or Path(opts.output).suffix.lstrip(".") or "jsonl"
        name = "jsonl" if named in ("jl", "jsonlines") else named
        if name not in formats.FORMATS:
            raise ConfigError("--format", named, f"must be one of {', '.join(formats.FORMATS)}")
        folder = Path(config.text(self.settings, "FEED_DIR", "items")).expanduser() / args[0]
        if not folder.is_dir() or not (files := merge.feed_files(folder)):
            find_spider(self.settings, args, USAGE)  # a spider that is gone may have left items, so it is asked last
            raise CrawlerError(
                f"no items: there is no JSON-lines file in {folder} (FEED_DIR names the folder above it)"
            )
        items = merge.Merge(files, everything=opts.all)
        with formats.output(opts.output, name) as file:
            formats.FORMATS[name](items, file)
        for path, line in items.torn:
            print(f"{path} line {line}: torn, left out", file=sys.stderr)
        files_ = "1 file" if len(files) == 1 else f"{len(files)} files"
        print(f"{items.items} items from {files_}, {items.repeats} repeats left out", file=sys.stderr)
