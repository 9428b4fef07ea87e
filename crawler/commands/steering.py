"""The actions of ``scrapy frontier`` that change something: host, requeue, drop, pause, resume, flush."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from crawler.commands.place import Frontier, confirm
from crawler.commands.spider import make_fingerprinter, whole_number
from crawler.errors import ConfigError


def host(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """One host's own pace; without a flag it is shown."""
    name = _queue_of(frontier, rest[0])
    record = frontier.control.host(name, **_host_changes(opts))
    if opts.json:
        print(json.dumps({"host": name, **record}))
        return
    said = [
        f"delay {record['delay'] / 1000:g} s" if "delay" in record else "",
        f"concurrency {record['concurrency']}" if "concurrency" in record else "",
        "BLOCKED: its requests wait" if record.get("blocked") else "",
        f"Crawl-delay {record['crawl_delay'] / 1000:g} s (robots.txt)" if record.get("crawl_delay") else "",
        f"{record['failures']} failures in a row" if record.get("failures") else "",
        "GIVEN UP: its requests go to the dead letters" if record.get("given_up") else "",
    ]
    print(f"{name}: " + (", ".join(filter(None, said)) or "nothing special: the settings count"))


def _queue_of(frontier: Frontier, given: str) -> str:
    """The queue that people mean by a URL, or by a host as they write it: ``Example.com:8080`` is ``example.com``."""
    from crawler.canonical import canonical_host

    part = frontier.control.of(given)
    is_host = "." in given or ":" in given  # any other word is a slot's name, which a spider chose
    known = part.client.exists(part.key(f"queue:{given}")) or part.client.hexists(part.key("hosts"), given)
    if not is_host or known:
        return given
    url = given if "://" in given else f"http://{given}/"
    with suppress(ValueError):
        url = f"http://[{IPv6Address(given)}]/"
    try:
        _ = urlsplit(url).port
    except ValueError:  # "shop:slow" is a slot's name too
        return given
    fingerprinter = make_fingerprinter(frontier.settings, frontier.spider_class)
    host: Callable[[str], str] = getattr(fingerprinter, "canonical_host", canonical_host)
    return host(url) or given


def _host_changes(opts: argparse.Namespace) -> dict[str, int | bool]:
    changes: dict[str, int | bool] = {}
    if opts.reset:
        changes = dict.fromkeys(("delay", "concurrency", "blocked"), False)
    if opts.delay is not None:
        try:
            changes["delay"] = round(1000 * float(opts.delay))
        except (ValueError, OverflowError):
            raise ConfigError("--delay", opts.delay, "must be a number of seconds") from None
        if changes["delay"] < 0:
            raise ConfigError("--delay", opts.delay, "must be at least 0")
    if opts.concurrency is not None:
        changes["concurrency"] = whole_number("--concurrency", opts.concurrency, low=1)
    if opts.block is not None:
        changes["blocked"] = opts.block
    return changes


def requeue(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Dead letters get another chance."""
    requests, seeds = frontier.dead.requeue(opts.reason or "")
    print(f"{requests} requests queued again, {seeds} seeds pushed again; {len(frontier.dead)} dead letters left")
    facts = frontier.control.status()
    if (requests or seeds) and facts["state"] == "finished":
        print(
            f"run {facts['run']} is finished: they wait for the next one, which `scrapy crawl {frontier.name}` begins "
            "(workers that FRONTIER_RUN pins need another name in it)"
        )


def drop(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Dead letters are deleted."""
    confirm(opts, f"deletes dead letters of {frontier.name}")
    print(f"{frontier.dead.drop(opts.reason or '')} dead letters deleted; {len(frontier.dead)} left")


def pause(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """No new request starts, on any worker."""
    frontier.control.pause()
    print(f"{frontier.name} is paused: within a second no worker starts a request; go on with scrapy frontier resume")


def resume(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """The end of a pause."""
    frontier.control.resume()
    print(f"{frontier.name} goes on")


def flush(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """Everything but waiting seeds is deleted; a memory that spiders share is kept."""
    confirm(opts, f"deletes the queue, the dead letters, the runs and the memory of what {frontier.name} has seen")
    live = [worker.name for worker in frontier.control.workers() if worker.live]
    # A shared memory stays too, but this spider may begin anew with other rules: there would be no other way to.
    dropped = frontier.control.flush(keep_versions=bool(opts.keep_seen))
    said = [f"{dropped} requests dropped"]
    if opts.keep_seen:
        said.append("what was seen is kept")
    elif frontier.keys.scope:
        said.append(f"what was seen is kept: DEDUP_SCOPE={frontier.keys.scope} shares it with other spiders")
    else:
        said.append("what was seen is forgotten" if _forget(frontier) else "its dupefilter can't forget: it is kept")
    if seeds := frontier.control.waiting_seeds():
        said.append(f"{seeds} seeds still wait in {frontier.control.seeds.name}")
    if live:
        said.append(f"{len(live)} workers will stop")
    print(f"{frontier.name}: " + "; ".join(said))


def _forget(frontier: Frontier) -> bool:
    from scrapy.utils.misc import load_object

    from crawler.canonical import findings
    from crawler.dedup.memory import clear
    from crawler.nodes import node_of

    dupefilter = load_object(frontier.settings["DUPEFILTER_CLASS"])
    findings.forget(node_of(frontier.client, frontier.keys.tag), frontier.keys.audit)
    if not hasattr(dupefilter, "admission"):
        return False
    for keys in frontier.shards:
        clear(node_of(frontier.client, keys.tag), keys.dedup)
    return True
