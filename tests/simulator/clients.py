"""The callers: connections, timeouts, users who leave, and layers of retries."""

from __future__ import annotations

import random
from functools import partial

from tests.simulator.arrivals import Ask, plan
from tests.simulator.attempts import Attempt
from tests.simulator.delivery import NOTHING
from tests.simulator.engine import Clock
from tests.simulator.service import Service
from tests.simulator.world import Client, Damage, RetryLayer, World, stream

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})  # what openai-python and anthropic-sdk-python retry
NEW_CONNECTION = 0.06  # share of requests for which no idle connection is at hand
LOSS_S = (0.2, 0.2, 0.4, 1.0, 1.0, 3.0)  # retransmission timeouts: data (200 ms doubling), SYN (1 s, 3 s)


class Callers:
    """Drives every ask of a plan through the service and keeps all attempts in the order in which they were sent."""

    def __init__(self, world: World, clock: Clock, service: Service) -> None:
        self.world, self.clock, self.service = world, clock, service
        self.rng = stream(world.seed, "clients")
        self.network = stream(world.seed, "network")
        self.rtts = {region.name: region for region in world.regions}
        self.attempts: list[Attempt] = []
        self.used_at: dict[str, float] = {}

    def send(self, ask: Ask, number: int = 1) -> None:
        """One attempt, now."""
        client, now = self.world.clients[ask.client], self.clock.now
        attempt = self._attempt(ask, client, number)
        self.attempts.append(attempt)
        arrives = now + attempt.setup_s + attempt.rtt_s / 2
        self.clock.at(arrives, lambda: self._arrive(attempt))
        late = abs(self.rng.gauss(0, 0.002)) + 0.0005  # timers of an event loop fire a little late
        self.clock.at(now + client.total_s + late, lambda: self._give_up(attempt, "total"))
        if client.first_s is not None and ask.stream:
            self.clock.at(now + client.first_s + late, lambda: self._give_up(attempt, "first_token"))
        if ask.leaves_after is not None:
            self.clock.at(now + ask.leaves_after, lambda: self._cancel(attempt))

    def _arrive(self, attempt: Attempt) -> None:
        if attempt.open:
            self.service.receive(attempt, self._learn)

    def _attempt(self, ask: Ask, client: Client, number: int) -> Attempt:
        net, region, now = self.network, self.rtts[ask.region], self.clock.now
        rtt = region.rtt_ms * net.lognormvariate(0, region.jitter)
        new, dns, pool, lost, loss = net.random(), net.uniform(1, 12), net.randint(1, 24), net.random(), net.random()
        extra = self._lossy(ask, lost, loss)
        rtt += sum(hurt.rtt_ms for hurt in self._network(ask)) * net.lognormvariate(0, 0.15)
        conn = f"{client.name}-{ask.region}-{pool}"
        idle = now - self.used_at[conn] if conn in self.used_at else None
        fresh = new < NEW_CONNECTION or idle is None
        self.used_at[conn] = now
        request_id = f"req_{stream(self.world.seed, f'id/{ask.task}/{ask.at}/{number}').getrandbits(72):018x}"
        return Attempt(
            ask=ask, client=client, number=number, request_id=request_id, sent=now, conn_id=conn,
            rtt_s=rtt / 1000 + (0.0 if fresh else extra),
            dns_ms=dns if fresh else None, connect_ms=rtt + extra * 1000 if fresh else None,
            tls_ms=rtt * 1.05 + 1.5 if fresh else None, conn_idle_ms=None if fresh or idle is None else idle * 1000,
        )  # fmt: skip

    def _network(self, ask: Ask) -> list[Damage]:
        now = self.clock.now
        found = [hurt for hurt in self.world.damages if hurt.rtt_ms or hurt.loss_share]
        return [hurt for hurt in found if hurt.value == ask.region and hurt.start <= now < hurt.stop]

    def _lossy(self, ask: Ask, lost: float, loss: float) -> float:
        """Seconds lost to one retransmission on a lossy way."""
        share = sum(hurt.loss_share for hurt in self._network(ask))
        return LOSS_S[int(loss * len(LOSS_S))] if lost < share else 0.0

    def _learn(self, attempt: Attempt) -> None:
        """The service's answer has reached the client."""
        attempt.ended = self.clock.now
        self._next(attempt)

    def _give_up(self, attempt: Attempt, phase: str) -> None:
        if not attempt.open:
            return
        self._stop(attempt)
        if phase == "first_token" and attempt.received.times:
            attempt.ended = None
            attempt.received = NOTHING
            return
        attempt.outcome, attempt.phase, attempt.error, attempt.origin = "timeout", phase, "timeout", "client"
        attempt.status = 200 if attempt.received.times else None
        self._hang_up(attempt)
        self._next(attempt)

    def _cancel(self, attempt: Attempt) -> None:
        if not attempt.open:
            return
        self._stop(attempt)
        attempt.outcome, attempt.error, attempt.origin = "cancelled", "cancelled", "client"
        attempt.status = 200 if attempt.received.times else None
        self._hang_up(attempt)

    def _stop(self, attempt: Attempt) -> None:
        attempt.ended = self.clock.now
        self.service.read(attempt)

    def _hang_up(self, attempt: Attempt) -> None:
        self.clock.at(self.clock.now + attempt.rtt_s / 2, lambda: self.service.leave(attempt))

    def _next(self, attempt: Attempt) -> None:
        delay = retry_delay(attempt, self.rng)
        if delay is not None:
            self.clock.at(self.clock.now + delay, lambda: self.send(attempt.ask, attempt.number + 1))


def retry_delay(attempt: Attempt, rng: random.Random) -> float | None:
    """Seconds until the next attempt, None when no layer tries again.

    Layers multiply: with 3 attempts within and 3 without, the third attempt exhausts the inner layer and the outer one
    waits its own time before it starts the inner one anew.
    """
    done = attempt.number
    for layer in attempt.client.layers:
        if not _retryable(attempt, layer):
            return None
        if done % (layer.retries + 1):
            return _backoff(layer, done % (layer.retries + 1), attempt.retry_after_ms, rng)
        done //= layer.retries + 1
    return None


def _retryable(attempt: Attempt, layer: RetryLayer) -> bool:
    if attempt.outcome == "timeout":
        return layer.retries_timeouts
    if attempt.outcome == "incomplete":
        return layer.retries_broken
    return attempt.error == "connection_reset" or (attempt.outcome != "completed" and attempt.status in RETRIED)


def _backoff(layer: RetryLayer, retry: int, retry_after_ms: float | None, rng: random.Random) -> float:
    wait = min(layer.cap_s, layer.base_s * layer.factor ** (retry - 1)) * (1 - layer.jitter * rng.random())
    if retry_after_ms is not None and layer.obeys_retry_after:
        return max(wait, retry_after_ms / 1000)
    return max(0.0, wait + rng.uniform(0.0005, 0.004))  # the time to build and send a request again


def simulate(world: World) -> list[Attempt]:
    """All attempts of a case in the order in which they were sent."""
    clock = Clock()
    service = Service(world, clock)
    callers = Callers(world, clock, service)
    for ask in plan(world):
        clock.at(ask.at, partial(callers.send, ask))
    clock.run()
    for attempt in callers.attempts:
        service.read(attempt)
    return callers.attempts
