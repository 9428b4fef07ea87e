"""One message to several shards, and one reply from them: so the worker knows one frontier, however many there are.

A host decides the shard of its queue, its pace and what was seen there (:func:`crawler.keys.shard_of`). The first
shard is the run's home: its state, the claim on ``start()``, the seeds and the pause are there. Each shard sees a
conversation of its own with consecutive numbers, in which a part that was not answered is sent again, while the
answers of the others are kept. Acks never travel with what they depend on (:attr:`Policy.together`): that is
confirmed first, on whatever shard.

With ``FRONTIER_WAIT_REPLICAS`` an admission is confirmed only when so many replicas of its shard have it, too.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redis.exceptions import ResponseError

from crawler.frontier.link import Send
from crawler.frontier.message import FULL, LATER, LOCAL, NEW, Admission, Lease, Message, Reply
from crawler.frontier.quiet import NOT_QUIET, Quiet
from crawler.keys import shard_of

_HUNGRY, _SATED = 0.2, 1.0  # seconds after which a shard is asked whatever is known of it; heartbeats need 10 s
_AHEAD = 0.1  # seconds before its host is due that a request is handed out (exchange.lua has the same)

Deliver = Callable[[Send, Message], Awaitable[bytes]]


@dataclass(slots=True, eq=False)
class _Shard:
    """One shard as this worker knows it."""

    send: Send
    seq: int = 0
    asked: float = -math.inf
    reply: Reply | None = None
    wanted: int = 0
    got: int = 0
    places: list[int] = field(default_factory=list)  # of the part's admissions in the message

    @property
    def limit(self) -> float:
        """Leases that it may be good for: what it gave when it gave less than asked, doubled, else any number."""
        return 2 * self.got + 1 if self.got < self.wanted else math.inf

    def due(self, now: float) -> bool:
        """Whether something there may be handed out."""
        reply = self.reply
        return reply is not None and reply.queued > 0 and reply.next_due / 1000 - (now - self.asked) <= _AHEAD


class Shards:
    """Carries messages to one shard per `send`; `safe` tells for each whether all it has written is on its replicas.

    `idle` is FRONTIER_IDLE of a fed spider in ms, None for any other.
    """

    def __init__(
        self,
        sends: Sequence[Send],
        safe: Callable[[int], bool] = lambda _: True,
        idle: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shards = [_Shard(send) for send in sends]
        self._safe, self._idle, self._clock = safe, idle, clock
        self._quiet = Quiet(len(sends))
        self._verdicts: list[int | None] = []  # of the oldest admissions that the worker still holds, None: not asked
        self._outbox: Sequence[Admission] = ()  # those admissions
        self._revived = False  # another shard got work after the home had ended the run

    async def carry(self, message: Message, deliver: Deliver) -> Reply:
        """One exchange with every shard that has to hear or to give something."""
        asked = self._clock()
        parts = self._split(message, asked)
        if message.bye and 0 in parts:  # the others hear from the last message whether the run is over
            await self._ask({0: parts.pop(0)}, asked, deliver)
            over = "yes" if self._home.state == "finished" and not self._revived else "no"
            parts = {index: replace(part, finish=over) for index, part in parts.items()}
        await self._ask(parts, asked, deliver)
        return self._merged(message)

    async def _ask(self, parts: dict[int, Message], asked: float, deliver: Deliver) -> None:
        if len(parts) == 1:
            [(index, part)] = parts.items()
            self._take(index, part, await deliver(self._shards[index].send, part), asked)
            return
        answers = await asyncio.gather(
            *(deliver(self._shards[index].send, part) for index, part in parts.items()), return_exceptions=True
        )
        for (index, part), answer in zip(parts.items(), answers, strict=True):
            if isinstance(answer, BaseException):
                self._shards[index].seq -= isinstance(answer, ResponseError)  # refused: the number was not used
                raise answer
            self._take(index, part, answer, asked)

    # Apart ------------------------------------------------------------------------------------------------------------

    def _split(self, message: Message, now: float) -> dict[int, Message]:
        """The parts of those shards that are to be asked."""
        parts = self._parts(message)
        self._sort(message, parts)
        shares = self._shares(message, now)
        patience = _HUNGRY if message.want else _SATED
        if message.want and self._quiet.empty and self._idle != 0:
            patience = 0.0  # the end of the run is near
        asked = {}
        for index, part in enumerate(parts):
            shard = self._shards[index]
            stale = now - shard.asked >= patience
            if not index or stale or shares.get(index) or message.bye or _has_news(part) or not self._safe(index):
                part.want = shares.get(index, 1 if message.want and stale and not self._paused else 0)
                shard.seq += 1
                part.seq = shard.seq
                asked[index] = part
        parts[0].revive, self._revived = self._revived, False
        return asked

    def _parts(self, message: Message) -> list[Message]:
        over = "yes" if self._shards[0].reply is not None and self._home.state == "finished" else "no"
        parts = [
            Message(
                message.worker, 0, message.run, ahead=message.ahead, full=message.full, bye=message.bye,
                held=message.held, finished=message.finished, failed=message.failed, locals=message.locals,
                finish="no" if self._revived else over,
            ) for _ in self._shards
        ]  # fmt: skip
        home = parts[0]
        home.finish, home.quiet = "decide", self._calm
        home.start, home.seeds, home.busy = message.start, message.seeds, message.busy
        home.dropped = message.dropped
        return parts

    def _sort(self, message: Message, parts: list[Message]) -> None:
        """Puts everything where it belongs: by host, or by the shard in a lease's id."""
        for name in ("started", "turns", "refunds", "crawl_delays", "health", "forgets", "skip"):
            for news in getattr(message, name):
                getattr(parts[self._of(news if isinstance(news, str) else news[0])], name).append(news)
        for ack in message.acks:
            index, lease_id = _apart(ack[0])
            parts[index].acks.append((lease_id, *ack[1:]))
        for name in ("gives", "renew"):
            for tagged in getattr(message, name):
                index, lease_id = _apart(tagged)
                getattr(parts[index], name).append(lease_id)
        outboxes: list[list[Admission]] = [[] for _ in parts]
        self._outbox = message.outbox
        self._verdicts += [None] * (len(message.outbox) - len(self._verdicts))
        for shard in self._shards:
            shard.places = []
        for place, entry in enumerate(message.outbox):
            if self._verdicts[place] is None:
                index = self._of(entry[0])
                outboxes[index].append(entry)
                self._shards[index].places.append(place)
        for part, outbox in zip(parts, outboxes, strict=True):
            part.outbox = outbox

    def _of(self, host: str) -> int:
        return shard_of(host, len(self._shards))

    def _shares(self, message: Message, now: float) -> dict[int, int]:
        """How many of the wanted leases each shard is asked for: evenly from those that have something due."""
        if self._paused:
            return {0: message.want}
        unknown = [index for index, shard in enumerate(self._shards) if shard.reply is None]
        due = [index for index, shard in enumerate(self._shards) if shard.due(now)] or unknown
        due.sort(key=lambda index: (self._shards[index].limit, self._shards[index].asked))
        shares, left = {}, message.want
        for done, index in enumerate(due):
            share = min(self._shards[index].limit, math.ceil(left / (len(due) - done)))
            shares[index] = int(share)
            left -= int(share)
        return shares

    # Together ---------------------------------------------------------------------------------------------------------

    @property
    def _home(self) -> Reply:
        reply = self._shards[0].reply
        assert reply is not None
        return reply

    @property
    def _paused(self) -> bool:
        reply = self._shards[0].reply
        return reply is not None and reply.paused

    @property
    def _calm(self) -> int:
        """See :attr:`Message.quiet`. A fed spider's other shards must have been idle as long as its home."""
        idle = min((shard.reply.idle for shard in self._shards if shard.reply is not None), default=0)
        return NOT_QUIET if self._idle and idle < self._idle else self._quiet.home_ids

    def _take(self, index: int, part: Message, data: bytes, asked: float) -> None:
        shard, answered = self._shards[index], self._clock()
        reply = shard.reply = Reply.unpack(data)
        shard.asked, shard.wanted, shard.got = asked, part.want, len(reply.leases)
        if reply.state == "lost":  # the run is gone: nothing was judged
            shard.places = []
            return
        rolled_back = b"*" in reply.lost  # its ids stand where they stood before
        if rolled_back:  # what it said earlier of admissions that the worker still holds is not true any more
            for place, entry in enumerate(self._outbox):
                if self._of(entry[0]) == index:
                    self._verdicts[place] = None
        self._quiet.look(index, rolled_back or reply.queued + reply.leased, reply.ids, asked, answered)
        for place, verdict in zip(shard.places, reply.verdicts, strict=True):
            self._verdicts[place] = None if verdict == LATER else verdict
        entered = any(
            verdict == NEW and not entry[1] & LOCAL for entry, verdict in zip(part.outbox, reply.verdicts, strict=True)
        )
        home = self._shards[0].reply
        if index and home is not None and home.state == "finished" and (entered or reply.leases):
            self._revived = True
        reply.leases = [replace(lease, id=b"%d:%s" % (index, lease.id)) for lease in reply.leases]
        reply.lost = [b"%d:%s" % (index, lease_id) for lease_id in reply.lost]
        shard.places = []

    def _merged(self, message: Message) -> Reply:
        """The last replies as one; what happened once is taken out of them."""
        now, home = self._clock(), self._home
        replies = [shard.reply for shard in self._shards if shard.reply is not None]
        leases: list[Lease] = []
        lost: list[bytes] = []
        gone: list[str] = []
        turns: list[tuple[str, int]] = []
        misfits: list[str] = []
        for reply in replies:
            leases += reply.leases
            lost += reply.lost
            gone += reply.gone
            turns += reply.turns
            misfits += reply.misfits
            reply.leases, reply.lost, reply.gone, reply.turns, reply.misfits = [], [], [], [], []
        due = [
            max(0, round(shard.reply.next_due - 1000 * (now - shard.asked)))
            for shard in self._shards if shard.reply is not None and shard.reply.next_due >= 0
        ]  # fmt: skip
        return Reply(
            seq=message.seq, now=home.now, verdicts=self._confirmed(message), leases=leases, lost=lost, unacked=[],
            state=self._state(replies), queued=sum(reply.queued for reply in replies),
            leased=sum(reply.leased for reply in replies), dead=sum(reply.dead for reply in replies),
            next_due=min(due, default=-1), start=home.start, paused=home.paused,
            idle=min(reply.idle for reply in replies), epoch=b" ".join(reply.epoch for reply in replies), ids=home.ids,
            gone=gone, odd_seeds=home.odd_seeds, turns=turns, misfits=misfits,
        )  # fmt: skip

    def _state(self, replies: Sequence[Reply]) -> str:
        states = [reply.state for reply in replies]
        for state in ("lost", "full"):
            if state in states:
                return state
        return "running" if self._revived else states[0]

    def _confirmed(self, message: Message) -> bytes:
        """Verdicts up to the first that is not certain yet; those after it are kept, and not asked for again."""
        verdicts = bytes(
            LATER if verdict is None or not self._safe(self._of(entry[0])) else verdict
            for entry, verdict in zip(message.outbox, self._verdicts, strict=False)
        )
        certain = next((place for place, one in enumerate(verdicts) if one in (FULL, LATER)), len(verdicts))
        self._verdicts = [None if verdict == FULL else verdict for verdict in self._verdicts[certain:]]
        return verdicts


def _apart(tagged: bytes) -> tuple[int, bytes]:
    """Shard and id from a lease's id on this side."""
    index, _, lease_id = tagged.partition(b":")
    return int(index), lease_id


def _has_news(part: Message) -> Any:
    return (
        part.outbox or part.acks or part.gives or part.renew or part.started or part.turns or part.refunds
        or part.crawl_delays or part.health or part.forgets or part.locals
    )  # fmt: skip
