"""``scrapy demo``: a website with known truth, some workers, a kill if wanted, and a verdict by the site's own books.

Nothing of a user's is touched: the server, its data, the feeds and the logs live in a temporary folder.
"""

from crawler.demo.run import Plan, run

__all__ = ["Plan", "run"]
