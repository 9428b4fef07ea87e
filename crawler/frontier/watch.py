"""The live view of a frontier in a terminal: a table that is drawn anew each second; elsewhere one line per change.

Not among the commands: Scrapy imports all of those whenever it starts, and rich takes longer than the others together.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from crawler.frontier.control import Control
    from crawler.frontier.deadletters import DeadLetters

_ROWS = 10  # of hosts and of workers
_LETTERS = 5
_SPAN = 10  # looks over which the rate is taken


def watch(
    control: Control, dead: DeadLetters, name: str, *,
    every: float = 1.0, console: Console | None = None, pause: Callable[[float], None] = time.sleep,
) -> None:  # fmt: skip
    """Shows the frontier every `every` seconds until its run is finished; KeyboardInterrupt is the caller's."""
    console = console or Console()
    done: deque[tuple[float, int]] = deque(maxlen=_SPAN)
    finished: defaultdict[str, deque[tuple[float, int]]] = defaultdict(lambda: deque(maxlen=_SPAN))
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            facts = control.status()
            done.append((time.monotonic(), facts["done"]))
            for row in control.workers():
                finished[row.name].append((time.monotonic(), row.finished))
            line = _headline(name, facts, _rate(done))
            if console.is_terminal:
                live.update(Group(line, _tables(control, dead, finished)), refresh=True)
            else:
                console.print(line, soft_wrap=True)  # one line each, however long
            if facts["state"] in ("finished", "none"):
                break
            pause(every)
    if not console.is_terminal:
        console.print(_tables(control, dead, finished), end="")


def _rate(done: deque[tuple[float, int]]) -> float:
    (began, first), (now, last) = done[0], done[-1]
    return max(0, last - first) / (now - began) if now > began else 0.0


def _headline(name: str, facts: dict[str, Any], rate: float) -> Text:
    paused = " PAUSED" if facts["paused"] else ""
    run = f"run {facts['run']} {facts['state']}" if facts["state"] != "none" else "no run"
    return Text(
        f"{name} {run}{paused}: {facts['queued']} queued, {facts['leased']} leased, "
        f"{facts['done']} done ({rate:.1f} requests/s), {facts['dead']} dead, {facts['seeds']} seeds, "
        f"{facts['hosts_due']} of {facts['hosts_queued']} hosts due, "
        f"{facts['workers_live']} workers ({facts['workers_dead']} not heard of)"
    )


def _tables(control: Control, dead: DeadLetters, finished: Mapping[str, deque[tuple[float, int]]]) -> Group:
    workers = _table("worker", "state", "heard of", "holds", "requests/s", "done", "failed")
    for row in sorted(control.workers(), key=lambda row: row.age)[:_ROWS]:
        rate = f"{_rate(finished[row.name]):.1f}" if row.live else ""
        state = "live" if row.live else "[red]dead[/]"
        counts = (str(row.held), rate, str(row.finished), str(row.failed))
        workers.add_row(row.name, state, f"{row.age:.1f} s ago", *counts)
    hosts = _table("host", "queued", "leased (with a delay)", "due in")
    for host in control.hosts(_ROWS):
        due = "busy" if host.due_in is None else f"{host.due_in:.1f} s"
        hosts.add_row(Text(host.host or "(seeds)"), str(host.queued), str(host.leased), due)
    letters = _table("newest dead letters", "request")
    for letter in islice(dead(), _LETTERS):
        letters.add_row(Text(letter.reason), Text(letter.url or letter.seed or ""))
    return Group(*(table for table in (workers, hosts, letters) if table.row_count))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    return table
