"""Is this worker well? Judged by when its exchange with the frontier last got through, not by what it believes."""

from __future__ import annotations

from typing import NamedTuple

SILENT = 10.0
"""Seconds without an answered exchange after which a worker is not well; working or idle, it has several a second."""


class Verdict(NamedTuple):
    """An answer to a probe."""

    ok: bool
    text: str


class Health:
    """Times are seconds of any one clock. A worker without a shared frontier never calls `exchanged`: it is well."""

    def __init__(self, now: float, *, shared: bool) -> None:
        self._last, self._shared = now, shared
        self.closing = False

    def exchanged(self, now: float) -> None:
        """An exchange was answered."""
        self._last = now

    def healthy(self, now: float) -> Verdict:
        """Alive (or nobody would answer) and exchanging; a worker that closes needs the frontier no more."""
        silent = now - self._last
        if self.closing:
            return Verdict(True, "closing")
        if self._shared and silent > SILENT:
            return Verdict(False, f"no exchange with the frontier for {silent:.0f} s")
        return Verdict(True, "ok")

    def ready(self, now: float) -> Verdict:
        """Healthy and taking work."""
        return Verdict(False, "closing") if self.closing else self.healthy(now)
