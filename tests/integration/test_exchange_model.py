"""The exchange against a model in plain Python: whatever workers do, nothing is lost, doubled or owned twice.

Workers admit, lease, acknowledge, fail, give back, renew, say stale things, die and come back under other names; leases
end; replies are lost and messages repeated; seeds come; a host dies, is given up and answers again. After every step
all of Redis is compared with the model.
Time does not pass by itself: leases are long, and a step of the test ends them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import msgpack
import pytest
import redis as redis_py
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from crawler.frontier.message import ADD, FILTER, LOCAL, START
from tests.support.exchange_model import (
    FULL_AT,
    HOPELESS,
    MAX_DELIVERIES,
    PACED_CONCURRENCY,
    SEED_KEY,
    Entry,
    Model,
    check,
    everything,
)
from tests.support.shard import CONSTANTS, Shard

PACED_DELAY = 20  # ms between two requests of host "p"
NAMES = [f"{host}{n}" for host in ("a", "b", "p", "j", "g") for n in range(5)]
JARS = {f"j{n}": {"jar": f"jar {n % 2}"} for n in range(5)}  # host "j": requests of two cookie jars
GIVE_UP = 500  # ms for which host "g" fails until it is given up
FLAGS = [FILTER | ADD, FILTER | ADD, 0, ADD, START | ADD, LOCAL | FILTER | ADD, LOCAL]
workers = st.integers(0, 1)
choices = st.lists(st.integers(0, 30), max_size=4)


class Frontier(RuleBasedStateMachine):
    """Steps of workers w1, w2 …; a dead one's name is never used again."""

    client: ClassVar[redis_py.Redis]

    def __init__(self) -> None:
        super().__init__()
        self.client.flushdb()
        constants = CONSTANTS | {
            "lease": 10**9, "concurrency": 100, "dead_max": 1000, "max_deliveries": MAX_DELIVERIES,
            "hosts": {"p": (PACED_DELAY, PACED_CONCURRENCY)}, "backoff": 0, "give_up": GIVE_UP,
            "dedup": {"full": FULL_AT},
        }  # fmt: skip
        self.shard = Shard(self.client, constants=constants)
        self.base = self.shard.keys.frontier
        self.model = Model()
        self.workers = ["w1", "w2"]
        self.born = 2
        self.last: dict[str, dict[str, Any]] = {}  # worker → its last message
        self.paced_starts: list[int] = []

    @initialize()
    def join(self) -> None:
        assert self.shard.join("w1")[0] == "begun"
        assert self.shard.join("w2")[0] == "joined"
        for worker in self.workers:
            self.say(worker)

    # Helpers.
    def say(self, worker: str, **fields: Any) -> Any:
        self.nobody_is_late()
        self.last[worker] = fields
        return self.shard.say(worker, **fields)

    def nobody_is_late(self) -> None:
        """However slowly the test runs: no outage, no worker silent for too long, but the dead ones."""
        seconds, micros = self.client.time()
        now = int(seconds) * 1000 + int(micros) // 1000
        beat = msgpack.packb([now, False, "test", 0], use_bin_type=False)
        with self.client.pipeline() as pipe:
            pipe.hset(f"{self.base}:meta", "seen", now)
            pipe.hset(f"{self.base}:workers", mapping=dict.fromkeys(self.workers, beat))
            pipe.execute()

    def forget(self, worker: str) -> None:
        """The worker was not heard of for long."""
        beat: Any = self.client.hget(f"{self.base}:workers", worker)
        old = msgpack.unpackb(beat, raw=True)
        self.client.hset(f"{self.base}:workers", worker, msgpack.packb([1, *old[1:]], use_bin_type=False))

    @staticmethod
    def pick(choices: list[int], ids: list[int]) -> list[int]:
        """At most as many of `ids` as there are choices, each once."""
        return list(dict.fromkeys(ids[choice % len(ids)] for choice in choices)) if ids else []

    def held(self, worker: str) -> list[int]:
        return [id_ for id_, entry in self.model.live.items() if entry.owner == worker]

    # Steps. What is drawn never depends on the model: the paced host's turns come with the real clock.
    @rule(
        number=workers,
        outbox=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(FLAGS), st.integers(-1, 1)), max_size=5),
        picks=st.tuples(choices, choices, choices, choices, choices),
        needs=st.integers(0, 5),
        failed=st.sets(st.integers(0, 3)),
        want=st.integers(0, 6),
        seeds=st.integers(0, 2),
    )
    def exchange(
        self, number: int, outbox: list[tuple[str, int, int]], picks: tuple[list[int], ...], needs: int,
        failed: set[int], want: int, seeds: int,
    ) -> None:  # fmt: skip
        """One message with everything in it, stale things too."""
        model, worker = self.model, self.workers[number]
        mine = self.held(worker)
        acks = self.pick(picks[0], mine)
        gives = self.pick(picks[1], [i for i in mine if i not in acks and not model.live[i].seed])
        renews = self.pick(picks[2], [i for i in mine if i not in acks and i not in gives])
        stale = self.pick(picks[3], [i for i in range(1, model.ids + 1) if i not in mine])
        own_locals = [n for n, holder in model.locals.items() if holder == worker]
        local_done = [own_locals[i] for i in self.pick(picks[4], list(range(len(own_locals))))]
        need = min(needs, len(outbox))
        reasons = ["callback: Error" if i in failed else "" for i in range(len(acks))]

        reply = self.say(
            worker, want=want, seeds=seeds, ahead=0, locals=[name.encode() for name in local_done],
            outbox=[
                (n[0], flags, n.encode(), n.encode(), priority, n.encode(), *([JARS[n]] if n in JARS else []))
                for n, flags, priority in outbox
            ],
            acks=[(str(i).encode(), need, reason, "", b"") for i, reason in zip(acks, reasons, strict=True)]
            + [(str(i).encode(), 0, "", "", b"") for i in stale],
            gives=[str(i).encode() for i in gives], renew=[str(i).encode() for i in renews],
        )  # fmt: skip

        verdicts = model.admit(outbox, worker, set(self.workers))
        assert reply.verdicts.decode() == "".join(map(str, verdicts))
        for name in local_done:
            model.locals.pop(name, None)
        first_full = verdicts.index(2) + 1 if 2 in verdicts else None
        unacked = acks if first_full is not None and need >= first_full else []
        assert [int(i) for i in reply.unacked] == unacked
        assert [int(i) for i in reply.lost] == stale, "a stale acknowledgement must be told, and change nothing"
        for id_, reason in zip(acks, reasons, strict=True):
            if id_ not in unacked:
                del model.live[id_]
                model.acked.append(id_)
                model.dead += bool(reason)
        for id_ in gives:
            model.live[id_].owner, model.live[id_].ended = None, False
        for id_ in [*renews, *unacked]:  # what was done, but waits for room, is not given to another
            model.live[id_].ended = False
        model.reclaim()
        self.take(worker, reply, want, seeds)

    def take(self, worker: str, reply: Any, want: int, seeds: int) -> None:
        """Checks what was leased, and notes it."""
        model = self.model
        requests = [lease for lease in reply.leases if int(lease.id) <= model.ids]  # seeds of dead workers, too
        assert len(requests) <= want
        for host in ("a", "b", "p", "g", ""):
            given = [int(lease.id) for lease in requests if lease.host == host]
            assert given == model.queued(host)[: len(given)], "leased out of order, or what is not queued"
        if want and any(model.queued(host) for host in "ab") and not model.queued("j"):
            assert requests, "something could be leased, and nothing was"
        for lease in requests:
            entry = model.live[int(lease.id)]
            assert (entry.payload, entry.host, entry.deliveries) == (lease.payload, lease.host, lease.redeliveries)
            entry.owner = worker
            if jar := JARS.get(lease.payload.decode(), {}).get("jar"):
                assert model.jars.get(jar, worker) == worker or model.jars[jar] not in self.workers, "another's jar"
                model.jars[jar] = worker
            if lease.host == "p":
                self.paced_starts.append(reply.now + lease.in_ms)
        expected = model.seeds[:seeds] if not model.full else []
        fresh = [lease for lease in reply.leases if int(lease.id) > model.ids]
        assert [lease.payload for lease in fresh] == [b"seed:" + seed for seed in expected]
        for lease in fresh:
            model.ids += 1
            assert int(lease.id) == model.ids
            model.live[model.ids] = Entry(lease.payload, "", (0, model.ids), owner=worker, seed=True)
            model.admitted += 1
        del model.seeds[: len(expected)]

    @rule(number=workers)
    def repeat(self, number: int) -> None:
        """A reply was lost: the worker sends its last message again. Nothing changes."""
        worker = self.workers[number]
        fields = self.last[worker]
        before = everything(self.client)
        replies = [self.shard.say(worker, repeat=True, **fields) for _ in range(2)]
        assert replies[0] == replies[1]
        assert everything(self.client) == before

    @rule(picks=choices)
    def leases_end(self, picks: list[int]) -> None:
        """Time passes for some leases."""
        leased = [i for i, entry in self.model.live.items() if entry.owner is not None]
        for id_ in self.pick(picks, leased):
            self.client.zadd(f"{self.base}:leases", {str(id_): 1}, xx=True)
            self.model.live[id_].ended = True

    @rule(number=workers, properly=st.booleans())
    def worker_goes(self, number: int, properly: bool) -> None:
        """A worker dies, or says good-bye; another comes."""
        worker = self.workers[number]
        if properly:
            gives = [i for i in self.held(worker) if not self.model.live[i].seed]
            self.say(worker, gives=[str(i).encode() for i in gives], bye=True)
            for id_ in gives:
                self.model.live[id_].owner, self.model.live[id_].ended = None, False
            self.model.reclaim()
        else:
            self.forget(worker)
        self.born += 1
        self.workers[number] = f"w{self.born}"
        self.shard.join(f"w{self.born}")  # a new worker may have a larger memory: it tries again
        self.model.full = False
        self.say(f"w{self.born}")
        self.model.reclaim()

    @rule(count=st.integers(1, 3))
    def seeds_come(self, count: int) -> None:
        for number in range(count):
            seed = f"{self.model.ids}-{len(self.model.seeds)}-{number}".encode()
            self.client.rpush(SEED_KEY, seed)
            self.model.seeds.append(seed)

    @rule(number=workers, failures=st.integers(0, HOPELESS + 1))
    def host_fails_or_answers(self, number: int, failures: int) -> None:
        """So many failures in a row, some time apart; none: it answers."""
        worker, hosts = self.workers[number], f"{self.base}:hosts"
        if not failures:
            self.say(worker, health=[("g", 1, 0, 0)])
            self.model.answers()
            self.model.reclaim()
        for _ in range(failures):
            reply = self.say(worker, health=[("g", 0, 0, 0)])
            assert reply.gone == (["g"] if self.model.fails() else [])
            self.model.reclaim()
            packed: Any = self.client.hget(hosts, "g")
            record = msgpack.unpackb(packed)
            record["first"] -= GIVE_UP
            self.client.hset(hosts, "g", msgpack.packb(record, use_bin_type=False))

    # What must hold.
    @invariant()
    def redis_holds_what_the_model_holds(self) -> None:
        check(self.model, self.client, self.base)

    @invariant()
    def nothing_is_lost_or_done_twice(self) -> None:
        model = self.model
        assert len(model.acked) == len(set(model.acked))
        given_up = model.admitted - len(model.live) - len(model.acked)
        assert 0 <= given_up <= model.dead

    @invariant()
    def the_paced_host_keeps_its_pace(self) -> None:
        starts = sorted(self.paced_starts)
        assert all(later - earlier >= PACED_DELAY for earlier, later in pairwise(starts))

    def teardown(self) -> None:
        """One worker does all that is left, and the run ends with nothing left over."""
        if not self.last:
            return
        leases: Any = self.client.zrange(f"{self.base}:leases", 0, -1)
        for worker in self.workers:
            self.forget(worker)
        self.workers = ["w0"]
        if leases:
            self.client.zadd(f"{self.base}:leases", dict.fromkeys(leases, 1))
        start, reply = "want", self.say("w0")
        for _ in range(400):
            reply = self.say("w0", want=50, seeds=0 if self.model.full else 10, ahead=100, start=start)
            start = "done"
            self.say("w0", acks=[(lease.id, 0, "", "", b"") for lease in reply.leases])
            if not reply.queued and not reply.leased and not reply.leases:
                break
        assert self.client.hlen(f"{self.base}:requests") == 0
        left: Any = self.client.keys("*")
        names = {key.decode().removeprefix(f"{self.base}:") for key in left if b":bye:" not in key}
        of_the_run = {"starts", "locals", "jars", "holders"}  # it is not over while seeds wait
        assert names <= {"meta", "memory", "workers", "replies", "dead", "due", "hosts", "runs", SEED_KEY} | of_the_run


def run(client: redis_py.Redis, examples: int, steps: int) -> None:
    Frontier.client = client
    run_state_machine_as_test(
        Frontier,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )  # fmt: skip


def test_the_exchange_does_what_the_model_does(redis: redis_py.Redis) -> None:
    run(redis, examples=40, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_exchange_does_what_the_model_does_for_long(redis: redis_py.Redis) -> None:
    run(redis, examples=600, steps=60)
