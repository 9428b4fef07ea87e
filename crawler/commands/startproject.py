"""``scrapy startproject``: Scrapy's own project. ``TEMPLATES_DIR`` holds our spider templates and no project."""

from __future__ import annotations

from pathlib import Path

import scrapy
from scrapy.commands import startproject


class Command(startproject.Command):
    """Scrapy's command with Scrapy's project; a copy of this one is made with ``make new``."""

    @property
    def templates_dir(self) -> str:
        """Scrapy's, whatever ``TEMPLATES_DIR`` says."""
        return str(Path(scrapy.__path__[0], "templates", "project"))
