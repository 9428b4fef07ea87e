"""The actions of ``scrapy frontier`` that look: status, watch, workers, hosts, dead."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import time
from itertools import islice

from crawler.commands.place import Frontier, age, json_lines, limit, table


def status(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Everything in numbers."""
    facts = frontier.control.status()
    if opts.json:
        print(json.dumps({"spider": frontier.name, **facts}))
        return
    if facts["run"] is None:
        print(f"{frontier.name}: never crawled with this frontier; {facts['seeds']} seeds wait")
        return
    paused = ", PAUSED" if facts["paused"] else ""
    full = ", MEMORY FULL (see BLOOM_CAPACITY)" if facts["memory_full"] else ""
    print(f"run       {facts['run']}: {facts['state']}{paused}{full}, begun {age(facts['age_seconds'])} ago, "
          f"last work {age(facts['idle_seconds'])} ago, start(): {facts['start']}")  # fmt: skip
    fallen = f" ({facts['dead_fallen']} older ones fell out: FRONTIER_DEAD_MAX)" if facts["dead_fallen"] else ""
    print(f"requests  {facts['queued']} queued, {facts['leased']} leased, {facts['done']} done, "
          f"{facts['dead']} dead{fallen}")  # fmt: skip
    if facts["dropped"]:
        print("dropped   " + ", ".join(f"{n} {reason}" for reason, n in sorted(facts["dropped"].items())))
    print(f"seeds     {facts['seeds']} wait (one that was taken counts as done, and so does its request)")
    print(
        f"hosts     {facts['hosts_queued']} wait ({facts['hosts_due']} due), {facts['hosts_busy']} being asked"
        + (f", {facts['hosts_given_up']} given up" if facts["hosts_given_up"] else "")
    )
    if facts["next_due_seconds"] is not None:
        print(f"next host due in {facts['next_due_seconds']:.1f} s, longest overdue {facts['overdue_seconds']:.1f} s")
    print(f"workers   {facts['workers_live']} live, {facts['workers_dead']} not heard of")


def watch(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """The numbers, live, until Ctrl-C or the end of the run."""
    from crawler.frontier.watch import watch as show

    with contextlib.suppress(KeyboardInterrupt):
        show(frontier.control, frontier.dead, frontier.name)


def workers(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Who works on it."""
    rows = frontier.control.workers()
    if opts.json:
        json_lines({**dataclasses.asdict(row), "live": row.live} for row in rows)
        return
    cells = [
        [
            row.name, "live" if row.live else "dead", f"{row.age:.1f} s ago", str(row.held), str(row.finished),
            str(row.failed), row.info,
        ]
        for row in rows
    ]  # fmt: skip
    table(["worker", "state", "heard of", "holds", "done", "failed", "host pid versions"], cells, "no workers")


def hosts(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Hosts in the order of their turn."""
    rows = frontier.control.hosts(limit(opts) or 100_000)
    if opts.json:
        json_lines(map(dataclasses.asdict, rows))
        return
    cells = [
        [
            row.host or "(seeds)",
            str(row.queued),
            str(row.leased),
            "busy" if row.due_in is None else f"{row.due_in:.1f} s",
        ]
        for row in rows
    ]
    table(["host", "queued", "leased (with a delay)", "due in"], cells, "no hosts with queued requests")


def dead(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Dead letters, the newest first."""
    letters = frontier.dead
    shown = islice(letters(opts.reason or ""), limit(opts) or None)
    if opts.json:
        json_lines(
            {
                "id": letter.id.decode(), "time": letter.time, "reason": letter.reason, "url": letter.url,
                "seed": letter.seed, "host": letter.host, "worker": letter.worker, "deliveries": letter.deliveries,
            }
            for letter in shown
        )  # fmt: skip
        return
    cells = [
        [
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(letter.time)), str(letter.deliveries), letter.reason,
            letter.url or (f"seed {letter.seed!r}" if letter.seed is not None else "(no URL)"),
        ]
        for letter in shown
    ]  # fmt: skip
    table(["time", "deliveries", "reason", "request"], cells, "no dead letters")
    if len(cells) < (total := len(letters)) and not opts.reason:
        print(f"{len(cells)} of {total}; --limit 0 shows all")
