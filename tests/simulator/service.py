"""The service: door, limits, faults, routing and replicas. Clients call ``receive`` and are called back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log

from tests.simulator.attempts import Attempt
from tests.simulator.delivery import receive
from tests.simulator.door import Delivery
from tests.simulator.door_state import Limiter, Worker, freezes
from tests.simulator.fleet import Fleet, met
from tests.simulator.jobs import Clock, Job
from tests.simulator.setups import API_AFTER_MS, API_BEFORE_MS
from tests.simulator.world import Damage, World, stream

Answer = Callable[[Attempt], None]
ERRORS = {
    400: "invalid_request", 401: "auth", 403: "auth", 404: "invalid_request", 422: "invalid_request", 429: "rate_limit",
    500: "server_error", 502: "upstream_error", 503: "server_error", 504: "timeout",
}  # fmt: skip


class Service:
    """Everything behind the network."""

    def __init__(self, world: World, clock: Clock) -> None:
        self.world, self.clock, self.door = world, clock, world.gateway
        self.rng = stream(world.seed, "service")
        self.more = stream(world.seed, "service/more")
        self.noise = stream(world.seed, "delivery")
        self.limiter = Limiter(world.gateway.limit) if world.gateway.limit else None
        self.worker = Worker(world)
        self.frozen = freezes(world, world.gateway.freeze)
        self.schemas: set[tuple[str, str]] = set()
        self.fleet = Fleet(world, clock, self.rng)
        self.active: dict[Attempt, Answer] = {}
        for damage in world.damages:
            if damage.kills:
                clock.at(damage.start, lambda hurt=damage: self._kill(hurt))  # type: ignore[misc]  # mypy: lambda default

    def receive(self, attempt: Attempt, answer: Answer) -> None:
        """A request arrives at the door now; ``answer`` is called when the client has learned how it ended."""
        now = self.clock.now
        attempt.reached = now
        attempt.overhead_s = self.rng.lognormvariate(log(self.door.overhead_ms), 0.3) / 1000 + self.worker.take(now)
        if self.limiter and now >= self.limiter.limit.start:
            passed, attempt.limit_remaining, wait = self.limiter.take(now)
            if not passed:
                attempt.retry_after_ms = wait * 1000
                self._refuse(attempt, answer, 429, 2.0)
                return
        if self._turned_away(attempt, answer):
            return
        self._watch(attempt, answer)
        self._try(attempt, answer)

    def _turned_away(self, attempt: Attempt, answer: Answer) -> bool:
        """What the caller did wrong, and what a full house does not take."""
        ask, door = attempt.ask, self.door
        if ask.wrong is not None:
            self._refuse(attempt, answer, ask.wrong, 8.0)
        elif door.context is not None and ask.prompt + (ask.max_tokens or 0) > door.context:
            self._refuse(attempt, answer, 400, 12.0, "context_length")
        elif door.shed_over is not None and self.fleet.crowd(ask) >= door.shed_over:
            self._refuse(attempt, answer, 503, 3.0, "overloaded")
        else:
            return False
        return True

    def _watch(self, attempt: Attempt, answer: Answer) -> None:
        cut = self.door.cut
        if cut is not None and self.clock.now >= cut.start and not (cut.idle and attempt.ask.stream):
            late = abs(self.more.gauss(0, 0.002)) + 0.0005
            self.clock.at(self.clock.now + cut.limit_s + late, lambda: self._cut(attempt, answer))

    def _try(self, attempt: Attempt, answer: Answer) -> None:
        """One try upstream; the first one unless the gateway itself tries again."""
        now, replica = self.clock.now, self.fleet.route(attempt.ask)
        attempt.replica, attempt.version = replica, replica.instance.version(now)
        hurts = [hurt for hurt in self.world.damages if hurt.start <= now < hurt.stop and met(hurt, attempt)]
        if not self._fails(attempt, answer, hurts):
            self._work(attempt, answer, hurts)

    def leave(self, attempt: Attempt) -> None:
        """The client has hung up; whether the engine stops depends on the service."""
        if self.door.aborts and attempt.job and attempt.replica:
            attempt.replica.abort(attempt.job)

    def delivery(self, attempt: Attempt) -> Delivery:
        found = self.door.delivery
        return found if attempt.sent >= found.start else replace(found, mode="direct")

    def read(self, attempt: Attempt) -> None:
        """Fills in what the client has read so far."""
        job, replica = attempt.job, attempt.replica
        if job and replica and attempt.ask.stream and not attempt.received.times:
            way = attempt.rtt_s / 2
            tokens = replica.token_times(job)
            if attempt.frozen:
                tokens = [attempt.thaw(at) for at in tokens]
            found = receive(tokens, job.finished, self.delivery(attempt), way, self.noise)
            attempt.received = found if attempt.ended is None else found.until(attempt.ended)

    def _fails(self, attempt: Attempt, answer: Answer, hurts: list[Damage]) -> bool:
        """Draws whether the attempt fails at once; marks it when it will break off midway."""
        if attempt.ask.poison:
            self._upstream_failed(attempt, answer, 500, 60.0)
            return True
        for hurt in hurts:
            if self.rng.random() < hurt.fail_share:
                if self.rng.random() < hurt.fail_midway:
                    attempt.breaks = True
                    return False
                self._upstream_failed(attempt, answer, self.rng.choice(hurt.statuses), hurt.fail_ms)
                return True
        if self.rng.random() < self.door.error_share:
            self._refuse(attempt, answer, self.rng.choice((500, 502, 503)), 40.0)
            return True
        return False

    def _again(self, attempt: Attempt) -> bool:
        """Whether the gateway may try once more by itself."""
        upstream = self.door.upstream
        return upstream is not None and self.clock.now >= upstream.start and attempt.upstream_tries < upstream.tries

    def _upstream_failed(self, attempt: Attempt, answer: Answer, status: int, after_ms: float) -> None:
        if not self._again(attempt):
            self._refuse(attempt, answer, status, after_ms)
            return
        attempt.upstream_tries += 1
        took = self.more.lognormvariate(log(after_ms), 0.4) / 1000
        self.clock.at(self.clock.now + took, lambda: self._try(attempt, answer) if attempt.open else None)

    def _refuse(self, attempt: Attempt, answer: Answer, status: int, after_ms: float, error: str | None = None) -> None:
        took = attempt.overhead_s + self.rng.lognormvariate(log(after_ms), 0.4) / 1000
        attempt.refused_at, attempt.refused_as = self.clock.now + took, status
        self._tell(attempt, answer, status, error or ERRORS[status])

    def _tell(self, attempt: Attempt, answer: Answer, status: int, error: str) -> None:
        """The client learns of an error that the door gave at ``refused_at``."""

        def told() -> None:
            attempt.status, attempt.error = status, error
            attempt.origin = "gateway" if status in {429, 502, 503, 504} else "provider"
            attempt.outcome = "rate_limited" if status == 429 else "failed"
            answer(attempt)

        at = attempt.refused_at if attempt.refused_at is not None else self.clock.now
        self.clock.at(at + attempt.rtt_s / 2, lambda: told() if attempt.open else None)

    def _work(self, attempt: Attempt, answer: Answer, hurts: list[Damage]) -> None:
        ask, replica = attempt.ask, attempt.replica
        if replica is None:
            raise ValueError("a request works only where it was routed to")
        before = API_BEFORE_MS * self.rng.lognormvariate(0, 0.2) / 1000
        held = self.fleet.activation(ask)
        waits = [(hurt.wait_as, self._wait(hurt)) for hurt in hurts
                 if hurt.wait_ms and self.rng.random() < hurt.wait_share]  # fmt: skip
        attempt.stages = self._stages(waits)
        attempt.overhead_s += before + held + sum(wait for place, wait in waits if place == "door")
        hidden = sum(wait for place, wait in waits if place == "hidden")
        in_queue = sum(wait for place, wait in waits if place == "queue")
        compiling = self._compiling(attempt)
        if self.door.compile_as == "queue":
            in_queue += compiling
        attempt.hidden_s = hidden + (0.0 if self.door.compile_as == "queue" else compiling)
        length = max(1, round(ask.answer * self.rng.uniform(0.1, 0.9))) if attempt.breaks else ask.answer
        job = Job(ask.prompt, length, ask.prefix, ask.prefix_tokens, lambda: self._done(attempt, job), ask.options)
        attempt.job = job
        attempt.jobs.append(job)
        self.active[attempt] = answer
        queued = self.clock.now + attempt.overhead_s + sum(attempt.stages.values()) + attempt.hidden_s
        self._submit(attempt, job, queued, in_queue)

    def _submit(self, attempt: Attempt, job: Job, queued: float, in_queue: float) -> None:
        replica = attempt.replica
        freeze = self.door.freeze
        if freeze and replica and freeze.instance in {"", replica.instance.name}:
            attempt.frozen = self.frozen
            late = attempt.thaw(queued)
            attempt.overhead_s += late - queued
            queued = late

        def submit() -> None:
            if not job.aborted and replica:
                replica.submit(job)
                job.submitted = queued

        self.clock.at(queued + in_queue, submit)
        upstream = self.door.upstream
        if upstream and upstream.per_try_s and self._again(attempt):
            self.clock.at(self.clock.now + upstream.per_try_s, lambda: self._per_try(attempt, job))

    def _per_try(self, attempt: Attempt, job: Job) -> None:
        """The try took too long: the gateway starts another one and forgets the first, which goes on."""
        if not attempt.open or attempt.job is not job or job.first is not None or not self._again(attempt):
            return
        answer = self.active.pop(attempt, None)
        if answer is not None:
            attempt.upstream_tries += 1
            self._try(attempt, answer)

    def _stages(self, waits: list[tuple[str, float]]) -> dict[str, float]:
        found = {name: self.more.lognormvariate(log(ms), 0.45) / 1000 for name, ms in self.world.mix.stages}
        for place, wait in waits:
            if place in {"retrieval", "tool"}:
                found[place] = found.get(place, 0.0) + wait
        return found

    def _compiling(self, attempt: Attempt) -> float:
        """Seconds for a schema that this instance sees for the first time."""
        schema, replica = attempt.ask.schema, attempt.replica
        if schema is None or replica is None or not self.door.compile_s:
            return 0.0
        if (replica.instance.name, schema) in self.schemas:
            return 0.0
        self.schemas.add((replica.instance.name, schema))
        return self.more.lognormvariate(log(self.door.compile_s), 0.5)

    def _wait(self, hurt: Damage) -> float:
        return self.rng.lognormvariate(log(hurt.wait_ms), 0.5) / 1000

    def _done(self, attempt: Attempt, job: Job) -> None:
        answer = self.active.pop(attempt, None) if attempt.job is job else None
        if job.done is None or answer is None:
            return
        back = attempt.rtt_s / 2 + API_AFTER_MS / 1000
        last = attempt.thaw(job.done) + back
        if attempt.open and attempt.ask.stream:
            self.read(attempt)
            last = max(last, attempt.received.times[-1] + API_AFTER_MS / 1000)
        if self.door.save_s and self.clock.now >= self.door.save_from:
            attempt.saving_s = self.more.lognormvariate(log(self.door.save_s), 0.5)
        hasty = self.door.hasty
        if hasty and attempt.ask.stream and self.clock.now >= hasty.start:
            attempt.told_finish = self.more.random() >= hasty.share

        def told() -> None:
            attempt.status, attempt.outcome = 200, "completed"
            if not attempt.told_finish and hasty and hasty.strict:
                attempt.outcome = "incomplete"
            if attempt.breaks:
                self._break(attempt)
            answer(attempt)

        self.clock.at(last + attempt.saving_s, lambda: told() if attempt.open else None)

    def _cut(self, attempt: Attempt, answer: Answer) -> None:
        """The gateway's timer: a 504 before the first byte, a broken stream after it."""
        if not attempt.open or attempt.refused_at is not None or (attempt.job and attempt.job.finished):
            return
        attempt.cut_at = self.clock.now
        self.active.pop(attempt, None)
        self.leave(attempt)
        if not attempt.ask.stream or attempt.job is None or attempt.job.first is None:
            attempt.refused_at, attempt.refused_as = self.clock.now, 504
            self._tell(attempt, answer, 504, "timeout")
            return

        def broken() -> None:
            attempt.ended = self.clock.now
            self.read(attempt)
            self._break(attempt)
            answer(attempt)

        self.clock.at(self.clock.now + attempt.rtt_s / 2, lambda: broken() if attempt.open else None)

    def _break(self, attempt: Attempt) -> None:
        """The connection ends early: a stream is left without its end, an answer in one piece becomes a 502."""
        streamed = attempt.ask.stream
        attempt.outcome = "incomplete" if streamed else "failed"
        attempt.status = 200 if streamed else 502
        attempt.error, attempt.origin = "connection_reset" if streamed else "upstream_error", "gateway"

    def _kill(self, hurt: Damage) -> None:
        """The processes behind a damage die: whatever is in flight there breaks off at this instant."""
        for attempt, answer in list(self.active.items()):
            if not met(hurt, attempt):
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
