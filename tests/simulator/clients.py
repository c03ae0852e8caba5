"""The callers: connections, timeouts, users who leave, and layers of retries."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from functools import partial

from tests.simulator.arrivals import Ask, plan
from tests.simulator.attempts import Attempt
from tests.simulator.batches import again, item
from tests.simulator.delivery import NOTHING
from tests.simulator.jobs import Clock
from tests.simulator.sampling import Sample, Sampler
from tests.simulator.service import Service
from tests.simulator.traffic import Batch
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
        self.held: dict[str, int] = {}
        self.queued: dict[str, deque[tuple[float, Ask, int]]] = {}
        self.places: dict[str, int] = {}

    def send(self, ask: Ask, number: int = 1) -> None:
        """One attempt, now, or when its caller has a free connection."""
        client = self.world.clients[ask.client]
        if client.pool is not None:
            if self.held.get(client.name, 0) >= client.pool:
                self.queued.setdefault(client.name, deque()).append((self.clock.now, ask, number))
                return
            self.held[client.name] = self.held.get(client.name, 0) + 1
        self._launch(ask, number, self.clock.now)

    def _launch(self, ask: Ask, number: int, since: float) -> None:
        client, now = self.world.clients[ask.client], self.clock.now
        attempt = self._attempt(ask, client, number, since)
        self.attempts.append(attempt)
        arrives = now + attempt.setup_s + attempt.rtt_s / 2
        self.clock.at(arrives, lambda: self._arrive(attempt))
        late = abs(self.rng.gauss(0, 0.002)) + 0.0005  # timers of an event loop fire a little late
        self.clock.at(since + client.total_s + late, lambda: self._give_up(attempt, "total"))
        if client.first_s is not None and ask.stream:
            self.clock.at(since + client.first_s + late, lambda: self._give_up(attempt, "first_token"))
        if ask.leaves_after is not None:
            self.clock.at(since + ask.leaves_after, lambda: self._cancel(attempt))
        tasks = self.world.mix.tasks
        if tasks and tasks.fault == "duplicate" and now >= tasks.start and not ask.worker and number == 1:
            self.clock.at(now + tasks.lease_s, lambda: self.send(again(ask)) if attempt.open else None)

    def start(self, batch: Batch) -> None:
        """The workers of a batch begin."""
        for _ in range(batch.workers):
            self._next_item(batch)

    def _next_item(self, batch: Batch) -> None:
        place = self.places.get(batch.name, 0)
        ask = item(self.world, batch, place)
        if ask is not None and self.clock.now < batch.stop:
            self.places[batch.name] = place + 1
            self.send(ask)

    def _over(self, attempt: Attempt) -> None:
        """An attempt has ended for its caller: its connection is free."""
        client = attempt.client
        if client.pool is None:
            return
        waiting = self.queued.get(client.name)
        if waiting:
            since, ask, number = waiting.popleft()
            self._launch(ask, number, since)
        else:
            self.held[client.name] -= 1

    def _arrive(self, attempt: Attempt) -> None:
        if not attempt.open:
            return
        if self._raced(attempt):
            return
        self.service.receive(attempt, self._learn)

    def _raced(self, attempt: Attempt) -> bool:
        """The connection was closed while the request was on its way: a reset, or a 502 of the hop that met it."""
        race, idle = self.world.gateway.race, attempt.conn_idle_ms
        if race is None or idle is None or self.clock.now < race.start:
            return False
        if not race.idle_s <= idle / 1000 < race.idle_s + race.width_s or self.rng.random() > 0.9:
            return False
        if race.status is not None:
            attempt.reached = attempt.refused_at = self.clock.now
            attempt.refused_as = race.status

        def told() -> None:
            attempt.outcome, attempt.status = "failed", race.status
            attempt.error = "connection_reset" if race.status is None else "upstream_error"
            attempt.origin = "client" if race.status is None else "gateway"
            self._learn(attempt)

        took = attempt.rtt_s / 2 + self.rng.uniform(0.0002, 0.002)
        self.clock.at(self.clock.now + took, lambda: told() if attempt.open else None)
        return True

    def _attempt(self, ask: Ask, client: Client, number: int, since: float) -> Attempt:
        net, region, now = self.network, self.rtts[ask.region], self.clock.now
        rtt = region.rtt_ms * net.lognormvariate(0, region.jitter)
        new, dns, pool, lost, loss = net.random(), net.uniform(1, 12), net.randint(1, 24), net.random(), net.random()
        extra = self._lossy(ask, lost, loss)
        rtt += sum(hurt.rtt_ms for hurt in self._network(ask)) * net.lognormvariate(0, 0.15)
        conn = f"{client.name}-{ask.region}-{pool}"
        idle = now - self.used_at[conn] if conn in self.used_at else None
        race = self.world.gateway.race
        closed = race is not None and idle is not None and now >= race.start and idle >= race.idle_s + race.width_s
        fresh = new < NEW_CONNECTION or idle is None or closed
        self.used_at[conn] = now
        request_id = (
            f"req_{stream(self.world.seed, f'id/{ask.task}/{ask.at}/{number}{_place(ask)}').getrandbits(72):018x}"
        )
        return Attempt(
            ask=ask, client=client, number=number, request_id=request_id, sent=since, conn_id=conn, pool_s=now - since,
            rtt_s=rtt / 1000 + (0.0 if fresh else extra),
            dns_ms=dns if fresh else None, connect_ms=rtt + extra * 1000 if fresh else None,
            tls_ms=rtt * 1.05 + 1.5 if fresh else None, conn_idle_ms=None if fresh or idle is None else idle * 1000,
        )  # fmt: skip

    def _network(self, ask: Ask) -> list[Damage]:
        now = self.clock.now
        found = [hurt for hurt in self.world.damages if hurt.rtt_ms or hurt.loss_share]
        return [hurt for hurt in found if hurt.value in {ask.region, ""} and hurt.start <= now < hurt.stop]

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
        self._over(attempt)

    def _stop(self, attempt: Attempt) -> None:
        attempt.ended = self.clock.now
        self.service.read(attempt)

    def _hang_up(self, attempt: Attempt) -> None:
        self.clock.at(self.clock.now + attempt.rtt_s / 2, lambda: self.service.leave(attempt))

    def _next(self, attempt: Attempt) -> None:
        self._over(attempt)
        delay = retry_delay(attempt, self.rng)
        if delay is not None:
            self.clock.at(self.clock.now + delay, lambda: self.send(attempt.ask, attempt.number + 1))
        elif attempt.ask.batch is not None:
            batch = next(one for one in self.world.mix.batches if one.name == attempt.ask.batch)
            self.clock.at(self.clock.now + 0.01, lambda: self._next_item(batch))


def _place(ask: Ask) -> str:
    """What tells calls of one task apart that are no retries of each other."""
    return f"/{ask.place}/{ask.worker}" if ask.place >= 0 or ask.worker else ""


def retry_delay(attempt: Attempt, rng: random.Random) -> float | None:
    """Seconds until the next attempt, None when no layer tries again.

    Layers multiply: with 3 attempts within and 3 without, the third attempt exhausts the inner layer and the outer one
    waits its own time before it starts the inner one anew.
    """
    if not attempt.told_finish and attempt.number <= attempt.client.again:
        return rng.uniform(0.2, 1.5)
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
    if attempt.status in {400, 401, 403, 404, 422}:
        return layer.retries_wrong
    return attempt.error == "connection_reset" or (attempt.outcome != "completed" and attempt.status in RETRIED)


def _backoff(layer: RetryLayer, retry: int, retry_after_ms: float | None, rng: random.Random) -> float:
    wait = min(layer.cap_s, layer.base_s * layer.factor ** (retry - 1)) * (1 - layer.jitter * rng.random())
    if retry_after_ms is not None and layer.obeys_retry_after:
        return max(wait, retry_after_ms / 1000)
    return max(0.0, wait + rng.uniform(0.0005, 0.004))  # the time to build and send a request again


@dataclass(frozen=True)
class Record:
    """Everything that happened in a case: attempts in the order in which they were sent, gauges of the engines."""

    attempts: list[Attempt]
    samples: list[Sample]


def record(world: World) -> Record:
    """Runs a world to its end."""
    clock = Clock()
    service = Service(world, clock)
    callers = Callers(world, clock, service)
    asks = plan(world)
    for ask in asks:
        clock.at(ask.at, partial(callers.send, ask))
    for batch in world.mix.batches:
        clock.at(batch.start, partial(callers.start, batch))
    last = max(ask.at for ask in asks)
    sampler = Sampler(world, clock, service.fleet.replicas, last)
    clock.run()
    for attempt in callers.attempts:
        service.read(attempt)
    return Record(callers.attempts, sampler.samples)


def simulate(world: World) -> list[Attempt]:
    """All attempts of a case in the order in which they were sent."""
    return record(world).attempts
