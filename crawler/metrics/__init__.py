"""What happened → Prometheus: an endpoint in each worker that shows, when asked, what others already count."""

from crawler.metrics.extension import MetricsExtension

__all__ = ["MetricsExtension"]
