"""What the trials found, kept in Redis, and what it suggests.

=================== ====== ===================================================================================
key                 type   what it holds
=================== ====== ===================================================================================
BASE                hash   HOST, subject, outcome (joined by tabs) → how often
BASE:examples       hash   the same and a number from 1 → JSON [variant, reference]; the first few of each
BASE:tried          set    8 bytes for each URL tried, so that each is tried once
=================== ====== ===================================================================================
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from crawler.canonical.trials import LEARN, Trial

if TYPE_CHECKING:
    import redis
    import redis.asyncio

EXAMPLES = 3
_ENOUGH = 5  # trials of a parameter before leaving it out is suggested


@dataclass(slots=True)
class Finding:
    """All trials of one subject on one host."""

    host: str
    subject: str
    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def checked(self) -> int:
        """Trials that had an answer."""
        return self.outcomes["same"] + self.outcomes["changed"]


class Findings:
    """Writes findings from a crawl. Raises what the client raises."""

    def __init__(self, client: redis.asyncio.Redis, base: str) -> None:
        self._client = client
        self._base = base

    async def first(self, trial: Trial) -> bool:
        """Whether no worker has tried this before; from now on one has."""
        digest = blake2b(f"{trial.variant}\n{trial.reference}".encode(), digest_size=8).digest()
        return bool(await self._client.sadd(f"{self._base}:tried", digest))

    async def add(self, host: str, trial: Trial, outcome: str) -> None:
        """Count `outcome` for each subject of the trial."""
        for subject in trial.subjects:
            name = f"{host}\t{subject}\t{outcome}"
            count = await self._client.hincrby(self._base, name, 1)
            if count <= EXAMPLES:
                pair = json.dumps([trial.variant, trial.reference])
                await self._client.hset(f"{self._base}:examples", f"{name}\t{count}", pair)


def forget(client: redis.Redis, base: str) -> None:
    """Deletes the findings under `base`."""
    client.delete(base, f"{base}:examples", f"{base}:tried")


def read(client: redis.Redis, base: str) -> list[Finding]:
    """All findings, those that changed pages first."""
    found: dict[tuple[str, str], Finding] = {}
    for name, count in _pairs(client.hgetall(base)):
        host, subject, outcome = name.decode().split("\t")
        finding = found.setdefault((host, subject), Finding(host, subject))
        finding.outcomes[outcome] += int(count)
    for name, pair in sorted(_pairs(client.hgetall(f"{base}:examples"))):
        host, subject, outcome, _ = name.decode().split("\t")
        first, second = json.loads(pair)
        found[host, subject].examples.setdefault(outcome, []).append((first, second))
    return sorted(found.values(), key=lambda one: (-one.outcomes["changed"], one.host, one.subject))


def _pairs(reply: object) -> Iterable[tuple[bytes, bytes]]:
    assert isinstance(reply, dict)
    return reply.items()


def report(findings: Iterable[Finding]) -> str:
    """A table for a person."""
    rows: list[tuple[str, ...]] = [("host", "what", "tried", "changed", "volatile", "failed", "example")]
    for one in findings:
        counts = (one.checked, one.outcomes["changed"], one.outcomes["volatile"], one.outcomes["failed"])
        pair = next(iter(one.examples.get("changed", ())), None)
        rows.append((one.host, one.subject, *map(str, counts), " ".join(pair or ())))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[6]]).rstrip()
        for row in rows
    )


def suggest(findings: Iterable[Finding]) -> str:
    """Site rules that the findings speak for, as TOML for a person to judge and to paste."""
    by_host: dict[str, list[Finding]] = {}
    for one in findings:
        by_host.setdefault(one.host, []).append(one)
    rules = [rule for host, ones in sorted(by_host.items()) for rule in (_restoring(host, ones), _dropping(host, ones))]
    return "\n".join(filter(None, rules)) or "# Nothing to suggest."


def _restoring(host: str, findings: list[Finding]) -> str:
    """A rule that undoes what changed pages."""
    guilty = [one for one in findings if one.outcomes["changed"] and not one.subject.startswith(LEARN)]
    if not guilty:
        return ""
    lines = ["[[site]]", f"hosts = [{_quoted('=' + host)}]"]
    names = [one for one in guilty if " " not in one.subject and one.subject != "order"]
    if names:
        counts = ", ".join(f"{one.subject} {one.outcomes['changed']} of {one.checked}" for one in names)
        lines.append(f"# left out, these changed the page: {counts}")
        lines.append(f"restore = {_list(one.subject.removeprefix(';') for one in names)}")
    for one in guilty:
        if one.subject == "order":
            lines.append(f'order = "keep"  # sorted, {one.outcomes["changed"]} of {one.checked} pages changed')
        elif " " in one.subject:
            lines.append(f"# {one.subject}: changed {one.outcomes['changed']} of {one.checked}; look for its rule")
    lines += _examples("different", [pair for one in guilty for pair in one.examples.get("changed", ())])
    return "\n".join(lines) + "\n"


def _dropping(host: str, findings: list[Finding]) -> str:
    """A rule that drops what never changed a page."""
    learnt = [one for one in findings if one.subject.startswith(LEARN)]
    idle = [one for one in learnt if not one.outcomes["changed"] and one.outcomes["same"] >= _ENOUGH]
    if not idle:
        return ""
    lines = ["[[site]]", f"hosts = [{_quoted('=' + host)}]"]
    counts = ", ".join(f"{one.subject.removeprefix(LEARN)} {one.outcomes['same']}" for one in idle)
    lines.append(f"# left out, these never changed the page; tried: {counts}")
    lines.append(f"strip = {_list(one.subject.removeprefix(LEARN) for one in idle)}")
    lines += _examples("same", [pair for one in idle for pair in one.examples.get("same", ())])
    apart = [pair for one in learnt for pair in one.examples.get("changed", ())]
    lines += _examples("different", apart) if apart else ["different = []  # give a pair that must stay apart"]
    return "\n".join(lines) + "\n"


def _examples(key: str, pairs: list[tuple[str, str]]) -> list[str]:
    return [f"{key} = [", *(f"  [{_quoted(first)}, {_quoted(second)}]," for first, second in pairs[:EXAMPLES]), "]"]


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, words))}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
