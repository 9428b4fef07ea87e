"""What became of a URL and why, for people and for programs: the text and the JSON of ``scrapy canonical``."""

from __future__ import annotations

import json

from crawler.canonical.keys import request_key
from crawler.canonical.trace import Trace
from crawler.canonical.url import Canonicaliser


class Explanation:
    """The canonical form of `url`, the fingerprint of a plain GET for it, and the steps that led there."""

    def __init__(self, canonicaliser: Canonicaliser, url: str) -> None:
        self.url = url
        self.steps = Trace()
        self.canonical = canonicaliser.canonical(url, trace=self.steps)
        self.fingerprint = request_key("GET", self.canonical).hex()

    def text(self) -> str:
        """A line for the URL, one per step, one for the result."""
        width = max((len(step.step) for step in self.steps), default=0)
        lines = [f"{self.url}"]
        for step in self.steps:
            change = f"{step.before} → {step.after}" if step.after else step.before
            lines.append(f"  {step.step:<{width}}  {change}  ({step.why})")
        lines.append(f"  = {self.canonical}" + ("" if self.steps else "  (nothing to do)"))
        return "\n".join(lines)

    def json(self) -> str:
        """One line of JSON: ``url``, ``canonical``, ``fingerprint`` (hex), ``steps``."""
        steps = [step._asdict() for step in self.steps]
        data = {"url": self.url, "canonical": self.canonical, "fingerprint": self.fingerprint, "steps": steps}
        return json.dumps(data, ensure_ascii=False)
