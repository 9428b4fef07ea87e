"""A record of what was done to a URL, step by step, for a person to read."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """One change: the name of the step, why it was done (a rule, or the reason), and the part before and after."""

    step: str
    why: str
    before: str
    after: str


class Trace(list[Step]):
    """The steps that changed something."""

    def note(self, step: str, why: str, before: str, after: str) -> None:
        """Add a step if it changed anything."""
        if before != after:
            self.append(Step(step, why, before, after))
