"""What happens now: a live panel in a terminal, a plain line a second anywhere else."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_WINDOW = 2.0  # seconds a rate is taken over


class Moment(NamedTuple):
    """One look at the crawl. `status` is the site's; `workers` are their states: starting, running, done or killed."""

    status: Mapping[str, Any]
    queued: int
    leased: int
    workers: Mapping[str, str]


class Display:
    """Shows :class:`Moment` after Moment; a context manager, so that the terminal is whole afterwards."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._began = self._printed = time.monotonic()
        self._past: deque[tuple[float, dict[str, int]]] = deque()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        """An event, above the panel."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, moment: Moment) -> None:
        """The present figures."""
        now = time.monotonic()
        counts = {name: int(agent[0]) for name, agent in moment.status["agents"].items()}
        self._past.append((now, counts))
        while len(self._past) > 2 and now - self._past[0][0] > _WINDOW:
            self._past.popleft()
        rates = {name: self._rate(name) for name in moment.workers}
        if self._live:
            self._live.update(_panel(moment, counts, rates, now - self._began), refresh=True)
        elif now - self._printed >= 1:
            self._printed = now
            self.say(_line(moment, rates, now - self._began))

    def _rate(self, name: str) -> float:
        (then, before), (now, after) = self._past[0], self._past[-1]
        return (after.get(name, 0) - before.get(name, 0)) / max(0.1, now - then)


def _panel(moment: Moment, counts: Mapping[str, int], rates: Mapping[str, float], seconds: float) -> Group:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("worker")
    for title in ("pages", "pages/s", "state"):
        table.add_column(title, justify="left" if title == "state" else "right")
    for name, state in moment.workers.items():
        style = {"killed": "red", "running": "green"}.get(state, "dim")
        table.add_row(name, str(counts.get(name, 0)), f"{rates[name]:.0f}", Text(state, style=style))
    fetched, pages = moment.status["fetched"], moment.status["pages"]
    head = Text(f"{fetched} of {pages} pages · {moment.queued} queued · {moment.leased} leased · {seconds:.0f} s")
    bar = Table.grid()  # a bar alone would not end its line
    bar.add_row(ProgressBar(total=pages, completed=fetched, width=60))
    return Group(head, bar, table)


def _line(moment: Moment, rates: Mapping[str, float], seconds: float) -> str:
    workers = " · ".join(
        f"{name} {rates[name]:.0f}/s" if state == "running" else f"{name} {state}"
        for name, state in moment.workers.items()
    )
    fetched, pages = moment.status["fetched"], moment.status["pages"]
    return f"{seconds:4.0f} s  {fetched}/{pages} pages  {moment.queued} queued  {moment.leased} leased  {workers}"
