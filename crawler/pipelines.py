"""YOURS: what happens to an item on its way from the spider to the feeds.

A class here works once ``ITEM_PIPELINES`` in ``crawler/settings.py`` names it: ``"crawler.pipelines.Tidy": 100``. The
project's own are in ``crawler/output/``: items in a Redis list, items in PostgreSQL.
"""

from __future__ import annotations

from typing import Any

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class Tidy:
    """An example, not in use: white space around texts goes, and so does an item without a title."""

    def process_item(self, item: Any) -> Any:
        """Gives the item on. DropItem: it is counted and forgotten; anything else that is raised: a dead letter."""
        fields = ItemAdapter(item)
        for name, value in fields.items():
            if isinstance(value, str):
                fields[name] = value.strip()
        if not fields.get("title"):
            raise DropItem("no title")
        return item
