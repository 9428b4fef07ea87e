"""A local website whose every page, link and fetch is known: the judge of the demo, the tests and the benchmarks."""

from tests.site.options import Options, plain
from tests.site.report import Report
from tests.site.server import Site, SiteProcess

__all__ = ["Options", "Report", "Site", "SiteProcess", "plain"]
