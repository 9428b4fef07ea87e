"""The container's command: ``scrapy crawl $SPIDER`` with each word of $SPIDER_ARGS (name=value) as a spider argument.

Words are split as a shell does it, so a value with blanks stands in quotes: ``SPIDER_ARGS='title="two words"'``. Given
arguments, it runs ``scrapy`` with them instead: ``docker compose run --rm worker frontier status site``.
"""

# ruff: noqa: INP001 (a script in a folder of configuration, no package)
from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence


def command(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The words to run. Raises ValueError with one line that names the variable."""
    if arguments:
        return ["scrapy", *arguments]
    spider, text = environ.get("SPIDER", ""), environ.get("SPIDER_ARGS", "")
    if not spider:
        raise ValueError("SPIDER=: name the spider to run")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"SPIDER_ARGS={text}: {str(error).lower()}, each quote needs its partner") from None
    for word in words:
        if "=" not in word.lstrip("="):
            raise ValueError(f"SPIDER_ARGS={text}: {word} is no name=value; put a value with blanks in quotes")
    return ["scrapy", "crawl", spider, *(part for word in words for part in ("-a", word))]


if __name__ == "__main__":
    try:
        words = command(sys.argv[1:], os.environ)
    except ValueError as error:
        sys.exit(str(error))
    os.execvp(words[0], words)  # noqa: S606 (no shell is wanted)
