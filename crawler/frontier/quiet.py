"""When several shards are empty together, though no call can look at two of them at once.

A shard that is empty at one look and empty at the next, with as many ids given as before, was empty all the time
between: whatever enters a shard moves its `ids`. So each shard has a stretch of time in which it is known to be
empty, from the moment the first of such answers was here to the moment the last of such questions was sent. If all
stretches have a moment in common, then at that moment no shard held a request. And then none ever will again: a
request is made by a callback of a request that stays in its shard until what it made is safe in theirs, by
``start()``, or from a seed.

The two others are the home shard's business, and they move *its* `ids`: a seed is taken there (and stays until what
it made is safe), and the end of ``start()`` is told there after the last of its requests is safe. So the home ends
the run when its `ids` are what they were at that moment, it is empty itself, ``start()`` is over, no seed waits and
no worker says that it is busy. Whatever came in since the moment has moved the number, and the worker looks again.
"""

from __future__ import annotations

from dataclasses import dataclass

NOT_QUIET = -2


@dataclass(slots=True)
class _Stretch:
    ids: int
    since: float
    until: float


class Quiet:
    """What one worker knows about the emptiness of `shards`. Times are seconds of any steady clock."""

    def __init__(self, shards: int) -> None:
        self._stretches: list[_Stretch | None] = [None] * shards

    def look(self, shard: int, requests: int, ids: int, asked: float, answered: float) -> None:
        """A shard said how many requests it holds, and how many ids it ever gave."""
        known = self._stretches[shard]
        if requests:
            self._stretches[shard] = None
        elif known is None or known.ids != ids:
            self._stretches[shard] = _Stretch(ids, answered, asked)
        else:
            known.until = asked

    @property
    def home_ids(self) -> int:
        """`ids` of the first shard when all were empty together, NOT_QUIET if that is not known."""
        known = [stretch for stretch in self._stretches if stretch is not None]
        if len(known) < len(self._stretches):
            return NOT_QUIET
        together = max(one.since for one in known) <= min(one.until for one in known)
        return known[0].ids if together else NOT_QUIET

    @property
    def empty(self) -> bool:
        """Whether each shard was empty when last looked at."""
        return None not in self._stretches
