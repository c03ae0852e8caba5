"""Faults of jobs behind a queue: workers, leases, results, keys. Same form as in faults.py."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulator.faults import draw_onset
from tests.simulator.world import World


def _task_fault(world: World, fault: str, onset: float, share: float, lease_s: float | None = None) -> World:
    tasks = world.mix.tasks
    if tasks is None:
        raise ValueError("a service without tasks has no faults of tasks")
    changed = replace(tasks, fault=fault, start=onset * world.span, share=share, lease_s=lease_s or tasks.lease_s)
    return replace(world, onset=onset, mix=replace(world.mix, tasks=changed))


def lost_worker(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Workers die (out of memory, a deploy) and nobody picks up what they had in hand."""
    return _task_fault(world, "lost", rng.uniform(0.1, 0.4), rng.randint(1, 3) * strength**2)


def duplicate_execution(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """A lease shorter than the longer tasks: they are handed out again while the first worker is still at it."""
    share = max(0.5, 1 - rng.uniform(0.03, 0.1) * strength)
    return _task_fault(world, "duplicate", draw_onset(rng), share, totals[int(share * (len(totals) - 1))])


def premature_success(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Tasks are called a success before their result is saved, some of them without any."""
    return _task_fault(world, "premature", draw_onset(rng), min(1.0, rng.uniform(0.03, 0.25) * strength))


def idempotency_conflict(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A key that is not one: made of the user's name, so that other questions come under the same key."""
    return _task_fault(world, "conflict", draw_onset(rng), min(1.0, rng.uniform(0.05, 0.3) * strength))
