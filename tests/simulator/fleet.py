"""The replicas of a service and how requests come to them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from math import log
from random import Random

from tests.simulator.arrivals import Ask
from tests.simulator.attempts import Attempt
from tests.simulator.engine import Replica
from tests.simulator.jobs import Clock
from tests.simulator.world import Damage, Instance, World, stream


class Fleet:
    """All replicas by model and region, the routing, and an activator in front where a service scales to zero."""

    def __init__(self, world: World, clock: Clock, rng: Random) -> None:
        self.world, self.clock, self.rng = world, clock, rng
        self.pools: dict[tuple[str, str], list[Replica]] = {}
        for one in world.fleet:
            own = stream(world.seed, f"engine/{one.name}")
            replica = Replica(one, clock, own, _slow(world, one), world.gateway.cold, world.gateway)
            self.pools.setdefault((one.model, one.region), []).append(replica)
        self._turns = {pool: cycle(replicas) for pool, replicas in self.pools.items()}
        self._awake_until: dict[tuple[str, str], tuple[float, float]] = {}

    @property
    def replicas(self) -> list[Replica]:
        return [one for pool in self.pools.values() for one in pool]

    def crowd(self, ask: Ask) -> int:
        """Requests that wait or run behind the door for this one's model and region."""
        return sum(one.load for one in self.pools[ask.model, ask.region])

    def route(self, ask: Ask) -> Replica:
        key = (ask.model, ask.region)
        pool = self.pools[key]
        if self.world.gateway.routing == "round_robin":
            return next(self._turns[key])
        if self.world.gateway.routing == "random":
            return self.rng.choice(pool)
        fewest = min(one.load for one in pool)
        return self.rng.choice([one for one in pool if one.load == fewest])

    def activation(self, ask: Ask) -> float:
        """Seconds for which an activator in front holds the request until a replica is up (scale to zero)."""
        cold, now = self.world.gateway.cold, self.clock.now
        if not cold or not cold.in_front:
            return 0.0
        key = (ask.model, ask.region)
        last, ready = self._awake_until.get(key, (0.0, 0.0))
        if now - last > cold.idle_s and not any(one.load for one in self.pools[key]):
            ready = now + self.rng.lognormvariate(log(cold.load_s), 0.25)
        self._awake_until[key] = (max(now, ready), ready)
        return max(0.0, ready - now)


def met(hurt: Damage, attempt: Attempt) -> bool:
    """Whether a damage is about this attempt."""
    instance = attempt.replica.instance if attempt.replica else None
    values = {
        "all": hurt.value,
        "tenant": attempt.ask.tenant,
        "model": attempt.ask.model,
        "region": attempt.ask.region,
        "instance": instance.name if instance else None,
        "version": attempt.version,
    }
    return values[hurt.dimension] == hurt.value


def _slow(world: World, one: Instance) -> Callable[[float], float]:
    hurts = [hurt for hurt in world.damages if hurt.slow != 1.0]

    def factor(now: float) -> float:
        found = 1.0
        for hurt in hurts:
            at = {"instance": one.name, "model": one.model, "region": one.region, "all": hurt.value}
            value = one.version(now) if hurt.dimension == "version" else at[hurt.dimension]
            if hurt.start <= now < hurt.stop and value == hurt.value:
                found *= hurt.slow
        return found

    return factor if hurts else lambda _now: 1.0
