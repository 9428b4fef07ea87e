"""The sample of a frontier that is spread over shards, or lies on a cluster: one of each shard, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from crawler.frontier.seedkey import SeedKey
from crawler.keys import Keys
from crawler.metrics.memory import Bloom
from crawler.metrics.sample import Sample, Sampler, Server
from crawler.nodes import node_of

if TYPE_CHECKING:
    import redis


class SpreadSampler(Sampler):
    """`shards`: the keys, those of the run's home first; `connect` makes a client, perhaps of a cluster."""

    def __init__(
        self, connect: Callable[[], redis.Redis], shards: Sequence[Keys], seeds: SeedKey, delay: float, cluster: bool
    ) -> None:
        super().__init__(connect, shards[0].frontier, shards[0].dedup, seeds.name, delay)
        self._shards, self._seeds, self._delay, self._cluster = shards, seeds, delay, cluster
        self._samplers: list[Sampler] = []

    def read(self) -> Sample:
        """A new sample. Blocks."""
        if self._client is None:
            self._client = self._connect()
            self._samplers = [self._sampler(keys) for keys in self._shards]
        outside = self._seeds.waiting(self._client) if self._cluster else 0
        return _sum([sampler.read() for sampler in self._samplers], outside)

    def _sampler(self, keys: Keys) -> Sampler:
        node = node_of(self._client, keys.tag)
        seeds = f"{keys.frontier}:seeds" if self._cluster or keys.shard else self._seeds.name
        return Sampler(lambda: node, keys.frontier, keys.dedup, seeds, self._delay)


def _sum(samples: Sequence[Sample], outside: int) -> Sample:
    home = samples[0]
    hosts: Counter[str] = Counter()
    for sample in samples:
        hosts.update(sample.hosts)
    servers = [sample.server for sample in samples if sample.server is not None]
    return Sample(
        oldest=max(sample.oldest for sample in samples),
        hosts={name: hosts[name] for name in home.hosts},
        workers=home.workers,
        seeds=home.seeds + outside,
        bloom=_bloom([sample.bloom for sample in samples if sample.bloom is not None]),
        server=max(servers, key=_fullness, default=None),
    )


def _fullness(server: Server) -> tuple[float, int]:
    return server.used / server.most if server.most else 0.0, server.used


def _bloom(blooms: Sequence[Bloom]) -> Bloom | None:
    """All as one: a page is asked for in one of them, in each as often as it holds pages."""
    if not blooms:
        return None
    elements = sum(one.elements for one in blooms)
    error = sum(one.error * one.elements for one in blooms) / elements if elements else blooms[0].error
    room, size = sum(one.room for one in blooms), sum(one.size for one in blooms)
    return Bloom(elements, room, size, error, blooms[0].configured)
