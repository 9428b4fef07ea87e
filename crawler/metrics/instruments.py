"""What nobody else counts: responses that came over the network, and how long downloads and exchanges take.

Scrapy's stats count responses from caches too, and keep no distributions.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Histogram, disable_created_metrics
from prometheus_client.registry import CollectorRegistry

DOWNLOAD_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
EXCHANGE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx", "other")


class Instruments:
    """Registers its metrics with `labels`, the same for the whole worker. `shared`: there are exchanges to time."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str], *, shared: bool) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # else there is a series more per histogram

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, [*labels], registry=registry, buckets=buckets).labels(*labels.values())

        text = "Responses over the network, robots.txt and redirects included."
        responses = Counter("crawler_responses", text, [*labels, "status_class"], registry=registry)
        self._responses = {name: responses.labels(*labels.values(), name) for name in _CLASSES}
        self._downloads = histogram(
            "crawler_download_seconds", "From the request on the wire to the response.", DOWNLOAD_BUCKETS
        )
        self._exchanges = shared and histogram(
            "crawler_frontier_exchange_seconds", "One exchange, repeats after errors included.", EXCHANGE_BUCKETS
        )

    def response(self, status: int, seconds: float | None) -> None:
        """A response came; `seconds` from request to response, if it is known."""
        self._responses.get(f"{status // 100}xx", self._responses["other"]).inc()
        if seconds is not None:
            self._downloads.observe(seconds)

    def exchange(self, seconds: float) -> None:
        """An exchange was answered."""
        if self._exchanges:
            self._exchanges.observe(seconds)
