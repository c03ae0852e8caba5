"""One simulated incident or quiet spell: the service of a seed, its fault, and the check that users felt it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulator.attempts import Attempt
from tests.simulator.base import base
from tests.simulator.clients import record
from tests.simulator.indicators import Seen, felt, is_healthy, look
from tests.simulator.pairs import PAIRS
from tests.simulator.sampling import Sample
from tests.simulator.scenarios import CALLER, ENGINE, HEALTHY, SLICES, TASKS, WAY, Scenario
from tests.simulator.world import World, stream

SINGLE = {one.name: one for one in (*CALLER, *WAY, *ENGINE, *SLICES, *TASKS)}
SCENARIOS = {**SINGLE, **{one.name: one for one in (*HEALTHY, *PAIRS)}}
STEPS = 14  # how often a fault is made stronger, or a healthy service drawn anew, before the seed is given up


@dataclass(frozen=True)
class Case:
    """What happened, and what users of its healthy twin (world ``well``) saw."""

    scenario: Scenario
    world: World
    well: World
    attempts: list[Attempt]
    samples: list[Sample]
    seen: Seen
    twin: Seen
    strength: float

    @property
    def causes(self) -> tuple[str, ...]:
        """The ids of the injected causes: none for a healthy case, two for a pair."""
        return self.scenario.causes

    @property
    def subject(self) -> str | None:
        """The guilty slice as ``column=value``, where the fault is one."""
        return dict(self.world.notes).get("subject")


class NoImpactError(Exception):
    """No strength made users feel the fault (or no calm made the service healthy): the seed gives no case."""


def make(name: str, seed: int, rows: int) -> Case:
    """The case of a scenario and seed. Raises NoImpactError and KeyError (unknown scenario)."""
    scenario = SCENARIOS[name]
    if scenario.calm:
        return _healthy_case(scenario, seed, rows)
    return _faulty_case(scenario, seed, rows)


def stronger(case: Case, times: float, rows: int) -> World:
    """The world of a single fault so many times as strong."""
    well, _, totals = _twin(case.scenario, case.well.seed, rows)
    return case.scenario.faults[0](well, _draws(case.scenario, well.seed, 0), case.strength * times, totals)


def _healthy_case(scenario: Scenario, seed: int, rows: int) -> Case:
    if scenario.calm is None:
        raise ValueError(scenario.name)
    for step in range(STEPS):
        world = base(scenario.name, seed, rows, scenario.shape, step)
        world = scenario.calm(world, stream(seed, f"calm/{scenario.name}"))
        found = record(world)
        seen = look(world, found.attempts)
        if is_healthy(seen):
            return Case(scenario, world, world, found.attempts, found.samples, seen, seen, 0.0)
    raise NoImpactError(f"{scenario.name} {seed}: not healthy at any load")


def _faulty_case(scenario: Scenario, seed: int, rows: int) -> Case:
    """One fault as strong as users feel it; of a pair each is felt by itself, then both are put on."""
    well, twin, totals = _twin(scenario, seed, rows)
    alone = [_felt_case(scenario, well, twin, totals, number) for number in range(len(scenario.faults))]
    if len(alone) == 1:
        return alone[0]
    world = well
    for number, (fault, one) in enumerate(zip(scenario.faults, alone, strict=True)):
        world = fault(world, _draws(scenario, seed, number), one.strength, totals)
    found = record(world)
    seen = look(world, found.attempts)
    return Case(scenario, world, well, found.attempts, found.samples, seen, twin, alone[-1].strength)


def _draws(scenario: Scenario, seed: int, number: int) -> random.Random:
    return stream(seed, f"fault/{scenario.name}" + (f"/{number}" if number else ""))


def _felt_case(scenario: Scenario, well: World, twin: Seen, totals: list[float], number: int) -> Case:
    for step in range(STEPS):
        strength = 1.3**step
        world = scenario.faults[number](well, _draws(scenario, well.seed, number), strength, totals)
        found = record(world)
        seen = look(world, found.attempts)
        if felt(seen, twin) and scenario.shows(seen, twin):
            return Case(scenario, world, well, found.attempts, found.samples, seen, twin, strength)
    raise NoImpactError(f"{scenario.name} {well.seed}: users never felt it")


def _twin(scenario: Scenario, seed: int, rows: int) -> tuple[World, Seen, list[float]]:
    for step in range(STEPS):
        well = base(scenario.name, seed, rows, scenario.shape, step)
        if scenario.traffic:
            well = scenario.traffic(well, stream(seed, f"traffic/{scenario.name}"))
        attempts = record(well).attempts
        twin = look(well, attempts)
        if is_healthy(twin):
            done = [one.ended - one.sent for one in attempts if one.outcome == "completed" and one.ended]
            return well, twin, sorted(done)
    raise NoImpactError(f"{scenario.name} {seed}: the twin is not healthy")
