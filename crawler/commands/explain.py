"""``scrapy frontier explain``: what became of a URL, in words."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crawler.commands.spider import make_fingerprinter
from crawler.errors import ConfigError, CrawlerError
from crawler.keys import Keys, shard_of
from crawler.nodes import node_of

if TYPE_CHECKING:
    from scrapy import Request

    from crawler.commands.place import Frontier
    from crawler.frontier.explain import Explanation


def explain(frontier: Frontier, opts: argparse.Namespace, rest: list[str]) -> None:
    """What became of a URL."""
    from scrapy import Request

    from crawler.canonical import canonical_host, canonical_url
    from crawler.frontier.explain import explain as look
    from crawler.frontier.slot import host_of

    try:
        request = Request(rest[0])
    except ValueError:
        raise ConfigError("URL", rest[0], "must begin with a scheme, e.g. https://") from None
    fingerprinter = make_fingerprinter(frontier.settings, frontier.spider_class)
    canonical: Callable[[str], str] = getattr(fingerprinter, "canonical_url", canonical_url)
    host: Callable[[str], str] = getattr(fingerprinter, "canonical_host", canonical_host)
    place = frontier.shards[shard_of(host_of(request, host), len(frontier.shards))]
    found = look(frontier.control, request, canonical, host, _seen(frontier, fingerprinter, request, place))
    if opts.json:
        print(json.dumps(dataclasses.asdict(found)))
    else:
        _tell(found)


def _seen(frontier: Frontier, fingerprinter: Any, request: Request, place: Keys) -> bool | None:
    """Whether it was seen; None when the dupefilter can't be asked from here."""
    from scrapy.utils.misc import load_object

    dupefilter = load_object(frontier.settings["DUPEFILTER_CLASS"])
    if not hasattr(dupefilter, "memory_at"):
        return None
    try:
        memory = dupefilter.memory_at(frontier.settings, node_of(frontier.client, place.tag), place.dedup)
        return bool(memory.has([fingerprinter.fingerprint(request)]) == b"1")
    except CrawlerError as error:
        print(error, file=sys.stderr)
        return None


def _tell(found: Explanation) -> None:
    print(f"{found.url}\ncanonical {found.canonical}")
    print({True: "seen      yes", False: "seen      no: it was never admitted", None: "seen      unknown"}[found.seen])
    for queued in found.queued:
        print(f"queued    place {queued['place']} of host {found.host}{_times(queued)}")
    for leased in found.leased:
        print(f"leased    by {leased['worker']}, the lease ends in {leased['lease_ends_in']:.0f} s{_times(leased)}")
    for letter in found.dead:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(letter["time"]))
        print(f"dead      {when}: {letter['reason']}")
    if found.seen and not (found.queued or found.leased or found.dead):
        print("finished  it is neither queued nor leased nor dead")
    for note in found.notes:
        print(f"note      {note}")


def _times(entry: dict[str, Any]) -> str:
    return f", taken back {entry['deliveries']} times from dead workers" if entry["deliveries"] else ""
