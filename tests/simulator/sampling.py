"""Gauges and counters of the engines, read at a fixed beat as a scraper reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulator.engine import Replica
from tests.simulator.jobs import Clock
from tests.simulator.world import World, stream

HOST_SHARE = 0.5  # of the fixed part of a step in which no kernel runs


@dataclass(frozen=True)
class Sample:
    """One value of one replica."""

    at: float
    instance: str
    model: str
    name: str
    value: float


class Sampler:
    """Reads every replica 60 to 250 times a case, at most every 5 s."""

    def __init__(self, world: World, clock: Clock, replicas: Sequence[Replica], last: float) -> None:
        self.clock, self.replicas, self.last = clock, replicas, last
        self.rng = stream(world.seed, "samples/engine")
        self.beat = max(5.0, last / 250)
        self.samples: list[Sample] = []
        clock.at(self.rng.uniform(0, self.beat), self._read)

    def _read(self) -> None:
        for one in self.replicas:
            running = len(one.decoding) + len(one.prefilling)
            values = {
                "waiting": len(one.waiting), "running": running, "kv_usage": round(one.kv_share, 4),
                "gpu_util": round(self._busy(one), 2), "preemptions": one.preempted,
                "prefix_queries": one.asked_tokens, "prefix_hits": one.hit_tokens,
            }  # fmt: skip
            self.samples += [
                Sample(self.clock.now, one.instance.name, one.instance.model, name, float(value))
                for name, value in values.items()
            ]
        if self.clock.now < self.last:
            self.clock.at(self.clock.now + self.beat, self._read)

    def _busy(self, one: Replica) -> float:
        """The share of time in which kernels run: none when idle, about half for a small batch, near all when full."""
        if not (one.decoding or one.prefilling) or not one.step_ms:
            return 0.0
        share = 1 - HOST_SHARE * one.instance.setup.base_ms / one.step_ms
        return min(1.0, share * self.rng.uniform(0.97, 1.03))
