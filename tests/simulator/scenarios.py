"""Named scenarios: service, fault, label, and the check that users felt it (or, if healthy, felt nothing)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulator import faults, healthy, slices
from tests.simulator.attempts import Attempt
from tests.simulator.base import Shape, base
from tests.simulator.clients import simulate
from tests.simulator.indicators import Seen, felt, is_healthy, look
from tests.simulator.setups import AGENT, CHAT, LONG_ANSWERS, RAG, SHORT, SMALL
from tests.simulator.world import World, stream

Fault = Callable[[World, random.Random, float, list[float]], World]
Calm = Callable[[World, random.Random], World]
STEPS = 14  # how often a fault is made stronger, or a healthy service drawn anew, before the seed is given up


@dataclass(frozen=True)
class Scenario:
    """``fault`` or ``calm`` is set. accepted: ids that are equally right (CATALOGUE, last lines)."""

    name: str
    shape: Shape
    fault: Fault | None = None
    calm: Calm | None = None
    accepted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One simulated incident or quiet spell, and what users of its healthy twin (world ``well``) saw."""

    scenario: Scenario
    world: World
    well: World
    attempts: list[Attempt]
    seen: Seen
    twin: Seen
    strength: float

    @property
    def cause(self) -> str | None:
        """The id of the injected cause; None for a healthy case."""
        return None if self.scenario.calm else self.scenario.name

    @property
    def subject(self) -> str | None:
        """The guilty slice as ``column=value``, where the fault is one."""
        return dict(self.world.notes).get("subject")


_TALK = (CHAT, RAG, AGENT, SHORT)
_ROOMY = Shape(tight=False, busy=(0.1, 0.3))
_PEERS = Shape(models=1, regions=1, replicas=(4, 6))

SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("queueing", Shape(tight=True, busy=(0.35, 0.5)), faults.queueing, accepted=("overload",)),
        Scenario("long_prefill", Shape(models=1, regions=1, replicas=(4, 6), tight=False, busy=(0.05, 0.2),
                                       rate=(0.8, 2.0)), faults.long_prefill),
        Scenario("client_timeout_short", Shape(tight=False, busy=(0.1, 0.3), lengths=_TALK),
                 faults.client_timeout_short),
        Scenario("retry_without_backoff", Shape(tight=True, busy=(0.4, 0.55), lengths=_TALK),
                 faults.retry_without_backoff, accepted=("retry_amplification",)),
        Scenario("nested_retries", Shape(), faults.nested_retries),
        Scenario("rate_limiting", Shape(), faults.rate_limiting),
        Scenario("server_errors", Shape(), faults.server_errors),
        Scenario("proxy_buffering", Shape(lengths=_TALK, stream_share=1.0), faults.proxy_buffering),
        Scenario("fake_streaming", Shape(lengths=_TALK, stream_share=1.0), faults.fake_streaming),
        Scenario("bad_instance", _PEERS, slices.bad_instance),
        Scenario("bad_version", _PEERS, slices.bad_version),
        Scenario("bad_model", Shape(models=3, regions=1, setups=SMALL), slices.bad_model),
        Scenario("bad_region", Shape(models=1, regions=3), slices.bad_region, accepted=("network",)),
        Scenario("bad_tenant", Shape(), slices.bad_tenant),
        Scenario("unbounded_max_tokens", Shape(lengths=_TALK), faults.unbounded_max_tokens),
        Scenario("cold_start", Shape(models=1, regions=1, replicas=(1, 2), tight=False, busy=(0.1, 0.3),
                                     rate=(0.2, 0.8)), faults.cold_start),
        Scenario("healthy_light", _ROOMY, calm=healthy.light),
        Scenario("healthy_ramp", Shape(busy=(0.15, 0.35)), calm=healthy.ramp),
        Scenario("healthy_long_answers", Shape(lengths=(LONG_ANSWERS,), rate=(0.5, 1.5), tight=False, busy=(0.05, 0.2),
                                               max_tokens=(4096,)), calm=healthy.long_answers),
        Scenario("healthy_parallel_sampling", Shape(tight=False, busy=(0.03, 0.12), lengths=_TALK, replicas=(4, 6),
                                                    rate=(0.4, 1.2)), calm=healthy.parallel_sampling),
        Scenario("healthy_few", Shape(tight=False, busy=(0.05, 0.2), rate=(0.05, 0.6)), calm=healthy.few),
        Scenario("healthy_mixed_models", Shape(models=2, regions=1, tight=False, busy=(0.05, 0.2), setups=SMALL),
                 calm=healthy.mixed_models),
        Scenario("healthy_nonstream", Shape(), calm=healthy.nonstream),
        Scenario("healthy_long_prompts_light", Shape(models=1, tight=False, busy=(0.05, 0.15), rate=(0.8, 2.0)),
                 calm=healthy.long_prompts_light),
        Scenario("healthy_bursty_clients", Shape(tight=False, busy=(0.05, 0.2)), calm=healthy.bursty_clients),
    )
}  # fmt: skip


class NoImpactError(Exception):
    """No strength made users feel the fault (or no calm made the service healthy): the seed gives no case."""


def make(name: str, seed: int, rows: int) -> Case:
    """The case of a scenario and seed. Raises NoImpactError and KeyError (unknown scenario)."""
    scenario = SCENARIOS[name]
    if scenario.calm:
        return _healthy_case(scenario, seed, rows)
    return _faulty_case(scenario, seed, rows)


def _healthy_case(scenario: Scenario, seed: int, rows: int) -> Case:
    if scenario.calm is None:
        raise ValueError(scenario.name)
    for step in range(STEPS):
        world = base(scenario.name, seed, rows, scenario.shape, step)
        world = scenario.calm(world, stream(seed, f"calm/{scenario.name}"))
        attempts = simulate(world)
        seen = look(attempts)
        if is_healthy(seen):
            return Case(scenario, world, world, attempts, seen, seen, 0.0)
    raise NoImpactError(f"{scenario.name} {seed}: not healthy at any load")


def _faulty_case(scenario: Scenario, seed: int, rows: int) -> Case:
    if scenario.fault is None:
        raise ValueError(scenario.name)
    well, twin, totals = _twin(scenario, seed, rows)
    for step in range(STEPS):
        strength = 1.3**step
        world = scenario.fault(well, stream(seed, f"fault/{scenario.name}"), strength, totals)
        attempts = simulate(world)
        seen = look(attempts)
        if felt(seen, twin):
            return Case(scenario, world, well, attempts, seen, twin, strength)
    raise NoImpactError(f"{scenario.name} {seed}: users never felt it")


def _twin(scenario: Scenario, seed: int, rows: int) -> tuple[World, Seen, list[float]]:
    for step in range(STEPS):
        well = base(scenario.name, seed, rows, scenario.shape, step)
        well = _traffic(scenario, well)
        attempts = simulate(well)
        twin = look(attempts)
        if is_healthy(twin):
            done = [one.ended - one.sent for one in attempts if one.outcome == "completed" and one.ended]
            return well, twin, sorted(done)
    raise NoImpactError(f"{scenario.name} {seed}: the twin is not healthy")


def _traffic(scenario: Scenario, world: World) -> World:
    """Cold starts need silences; the twin has the same ones."""
    if scenario.name != "cold_start":
        return world

    rng = stream(world.seed, "sessions")
    sessions = (rng.uniform(40, 80), rng.uniform(350, 800))
    return replace(world, load=replace(world.load, sessions=sessions))
