"""What the door of a service remembers: the account's limit, its own worker, schemas seen, when processes froze."""

from __future__ import annotations

from math import ceil, log

from tests.simulator.door import Freeze, RateLimit
from tests.simulator.world import World, stream


class Limiter:
    """Requests per minute of the account, shared by all callers."""

    def __init__(self, limit: RateLimit) -> None:
        self.limit, self.tokens, self.at, self.minute = limit, float(limit.burst), 0.0, -1

    def take(self, now: float) -> tuple[bool, int, float]:
        """Whether the request may pass, how many more may, and seconds until one may again (whole, as in headers)."""
        limit = self.limit
        if limit.fixed_window:
            if int(now // 60) != self.minute:
                self.minute, self.tokens = int(now // 60), limit.per_minute
            wait = 60 - now % 60
        else:
            self.tokens = min(float(limit.burst), self.tokens + (now - self.at) * limit.per_minute / 60)
            self.at = now
            wait = (1 - self.tokens) * 60 / limit.per_minute
        if self.tokens >= 1:
            self.tokens -= 1
            return True, int(self.tokens), 0.0
        return False, 0, float(ceil(wait))


class Worker:
    """The gateway's own work, one request after another (one process, one core)."""

    def __init__(self, world: World) -> None:
        self.door, self.rng, self.free_at = world.gateway, stream(world.seed, "worker"), 0.0

    def take(self, now: float) -> float:
        """Seconds until the gateway is through with a request that arrives now."""
        if not self.door.worker_ms or now < self.door.slow_from:
            return 0.0
        self.free_at = max(now, self.free_at) + self.rng.lognormvariate(log(self.door.worker_ms), 0.3) / 1000
        return self.free_at - now


def freezes(world: World, freeze: Freeze | None) -> tuple[tuple[float, float], ...]:
    """The spells in which a process stands still, in order, over twice the expected log."""
    if freeze is None:
        return ()
    rng, at, found = stream(world.seed, "freezes"), freeze.start, list[tuple[float, float]]()
    while at < 2 * world.span:
        at += freeze.every_s * rng.uniform(0.4, 1.6)
        lasts = freeze.lasts_s * rng.uniform(0.6, 1.4)
        found.append((at, at + lasts))
        at += lasts
    return tuple(found)
