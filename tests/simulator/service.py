"""The service: door, rate limit, faults, routing and replicas. Clients call ``receive`` and are called back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from math import ceil, log

from tests.simulator.attempts import Attempt
from tests.simulator.delivery import receive
from tests.simulator.engine import Clock, Job, Replica
from tests.simulator.setups import API_AFTER_MS, API_BEFORE_MS
from tests.simulator.world import Damage, Delivery, Instance, RateLimit, World, stream

Answer = Callable[[Attempt], None]
ERRORS = {429: "rate_limit", 500: "server_error", 502: "upstream_error", 503: "server_error", 504: "upstream_error"}


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


class Service:
    """Everything behind the network."""

    def __init__(self, world: World, clock: Clock) -> None:
        self.world, self.clock = world, clock
        self.rng = stream(world.seed, "service")
        self.noise = stream(world.seed, "delivery")
        self.limiter = Limiter(world.gateway.limit) if world.gateway.limit else None
        self.pools: dict[tuple[str, str], list[Replica]] = {}
        for one in world.fleet:
            rng = stream(world.seed, f"engine/{one.name}")
            replica = Replica(one, clock, rng, self._slow(one), world.gateway.cold)
            self.pools.setdefault((one.model, one.region), []).append(replica)
        self.turns = {pool: cycle(replicas) for pool, replicas in self.pools.items()}
        self.active: dict[Attempt, Answer] = {}
        self.awake_until: dict[tuple[str, str], tuple[float, float]] = {}
        for damage in world.damages:
            if damage.kills:
                clock.at(damage.start, lambda hurt=damage: self._kill(hurt))  # type: ignore[misc]  # mypy: lambda default

    def receive(self, attempt: Attempt, answer: Answer) -> None:
        """A request arrives at the door now; ``answer`` is called when the client has learned how it ended."""
        now = self.clock.now
        attempt.reached = now
        attempt.overhead_s = self.rng.lognormvariate(log(self.world.gateway.overhead_ms), 0.3) / 1000
        if self.limiter and now >= self.limiter.limit.start:
            passed, attempt.limit_remaining, wait = self.limiter.take(now)
            if not passed:
                attempt.retry_after_ms = wait * 1000
                self._refuse(attempt, answer, 429, 2.0)
                return
        replica = self._route(attempt)
        attempt.replica, attempt.version = replica, replica.instance.version(now)
        hurts = [hurt for hurt in self.world.damages if hurt.start <= now < hurt.stop and self._met(hurt, attempt)]
        if not self._fails(attempt, answer, hurts):
            self._work(attempt, answer, hurts)

    def leave(self, attempt: Attempt) -> None:
        """The client has hung up; whether the engine stops depends on the service."""
        if self.world.gateway.aborts and attempt.job and attempt.replica:
            attempt.replica.abort(attempt.job)

    def delivery(self, attempt: Attempt) -> Delivery:
        found = self.world.gateway.delivery
        return found if attempt.sent >= found.start else replace(found, mode="direct")

    def read(self, attempt: Attempt) -> None:
        """Fills in what the client has read so far."""
        job, replica = attempt.job, attempt.replica
        if job and replica and attempt.ask.stream and not attempt.received.times:
            way = attempt.rtt_s / 2
            found = receive(replica.token_times(job), job.finished, self.delivery(attempt), way, self.noise)
            attempt.received = found if attempt.ended is None else found.until(attempt.ended)

    def _met(self, hurt: Damage, attempt: Attempt) -> bool:
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

    def _slow(self, one: Instance) -> Callable[[float], float]:
        hurts = [hurt for hurt in self.world.damages if hurt.slow != 1.0]

        def factor(now: float) -> float:
            found = 1.0
            for hurt in hurts:
                at = {"instance": one.name, "model": one.model, "region": one.region, "all": hurt.value}
                value = one.version(now) if hurt.dimension == "version" else at[hurt.dimension]
                if hurt.start <= now < hurt.stop and value == hurt.value:
                    found *= hurt.slow
            return found

        return factor if hurts else lambda _now: 1.0

    def _route(self, attempt: Attempt) -> Replica:
        key = (attempt.ask.model, attempt.ask.region)
        pool = self.pools[key]
        if self.world.gateway.routing == "round_robin":
            return next(self.turns[key])
        if self.world.gateway.routing == "random":
            return self.rng.choice(pool)
        fewest = min(one.load for one in pool)
        return self.rng.choice([one for one in pool if one.load == fewest])

    def _fails(self, attempt: Attempt, answer: Answer, hurts: list[Damage]) -> bool:
        """Draws whether the attempt fails at once; marks it when it will break off midway."""
        if attempt.ask.poison:
            self._refuse(attempt, answer, 500, 60.0)
            return True
        for hurt in hurts:
            if self.rng.random() < hurt.fail_share:
                if self.rng.random() < hurt.fail_midway:
                    attempt.breaks = True
                    return False
                self._refuse(attempt, answer, self.rng.choice(hurt.statuses), hurt.fail_ms)
                return True
        if self.rng.random() < self.world.gateway.error_share:
            self._refuse(attempt, answer, self.rng.choice((500, 502, 503)), 40.0)
            return True
        return False

    def _refuse(self, attempt: Attempt, answer: Answer, status: int, after_ms: float) -> None:
        took = attempt.overhead_s + self.rng.lognormvariate(log(after_ms), 0.4) / 1000
        attempt.refused_at, attempt.refused_as = self.clock.now + took, status

        def told() -> None:
            attempt.status, attempt.error = status, ERRORS[status]
            attempt.origin = "gateway" if status in {429, 502, 503, 504} else "provider"
            attempt.outcome = "rate_limited" if status == 429 else "failed"
            answer(attempt)

        self.clock.at(attempt.refused_at + attempt.rtt_s / 2, lambda: told() if attempt.open else None)

    def _work(self, attempt: Attempt, answer: Answer, hurts: list[Damage]) -> None:
        ask, replica = attempt.ask, attempt.replica
        if replica is None:
            raise ValueError("a request works only where it was routed to")
        before = API_BEFORE_MS * self.rng.lognormvariate(0, 0.2) / 1000
        held = self._activation(attempt)
        waits = [hurt for hurt in hurts if hurt.wait_ms and self.rng.random() < hurt.wait_share]
        in_queue = sum(self._wait(hurt) for hurt in waits if hurt.wait_in_queue)
        attempt.overhead_s += before + held + sum(self._wait(hurt) for hurt in waits if not hurt.wait_in_queue)
        length = max(1, round(ask.answer * self.rng.uniform(0.1, 0.9))) if attempt.breaks else ask.answer
        job = Job(ask.prompt, length, ask.prefix, ask.prefix_tokens, lambda: self._done(attempt))
        attempt.job = job
        self.active[attempt] = answer
        queued = self.clock.now + attempt.overhead_s

        def submit() -> None:
            if not job.aborted:
                replica.submit(job)
                job.submitted = queued

        self.clock.at(queued + in_queue, submit)

    def _wait(self, hurt: Damage) -> float:
        return self.rng.lognormvariate(log(hurt.wait_ms), 0.5) / 1000

    def _activation(self, attempt: Attempt) -> float:
        """Seconds for which an activator in front holds the request until a replica is up (scale to zero)."""
        cold, now = self.world.gateway.cold, self.clock.now
        if not cold or not cold.in_front:
            return 0.0
        key = (attempt.ask.model, attempt.ask.region)
        last, ready = self.awake_until.get(key, (0.0, 0.0))
        if now - last > cold.idle_s and not any(one.load for one in self.pools[key]):
            ready = now + self.rng.lognormvariate(log(cold.load_s), 0.25)
        self.awake_until[key] = (max(now, ready), ready)
        return max(0.0, ready - now)

    def _done(self, attempt: Attempt) -> None:
        job, answer = attempt.job, self.active.pop(attempt, None)
        if job is None or job.done is None or answer is None:
            return
        back = attempt.rtt_s / 2 + API_AFTER_MS / 1000
        last = job.done + back
        if attempt.open and attempt.ask.stream:
            self.read(attempt)
            last = max(last, attempt.received.times[-1] + API_AFTER_MS / 1000)

        def told() -> None:
            attempt.status, attempt.outcome = 200, "completed"
            if attempt.breaks:
                self._break(attempt)
            answer(attempt)

        self.clock.at(last, lambda: told() if attempt.open else None)

    def _break(self, attempt: Attempt) -> None:
        """The connection ends early: a stream is left without its end, an answer in one piece becomes a 502."""
        streamed = attempt.ask.stream
        attempt.outcome = "incomplete" if streamed else "failed"
        attempt.status = 200 if streamed else 502
        attempt.error, attempt.origin = "connection_reset" if streamed else "upstream_error", "gateway"

    def _kill(self, hurt: Damage) -> None:
        """The processes behind a damage die: whatever is in flight there breaks off at this instant."""
        for attempt, answer in list(self.active.items()):
            if not self._met(hurt, attempt):
                continue
            del self.active[attempt]
            if attempt.job and attempt.replica:
                attempt.replica.abort(attempt.job)
            self.clock.at(self.clock.now + attempt.rtt_s / 2, lambda a=attempt, f=answer: self._killed(a, f))  # type: ignore[misc]  # mypy: lambda default

    def _killed(self, attempt: Attempt, answer: Answer) -> None:
        if not attempt.open:
            return
        attempt.breaks = True
        self.read(attempt)
        if attempt.received.times:
            self._break(attempt)
        else:
            attempt.outcome, attempt.error, attempt.origin = "failed", "connection_reset", "gateway"
        answer(attempt)
