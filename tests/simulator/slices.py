"""Faults of one value of one dimension: an instance, a version, a model, a region, a tenant."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulator.arrivals import weighted
from tests.simulator.door import FOREVER
from tests.simulator.faults import draw_onset
from tests.simulator.world import Damage, World, kind_of


def _hurt(world: World, where: tuple[str, str], onset: float, rng: random.Random, strength: float) -> Damage:
    """Slow steps in two cases of three, else failures."""
    found = Damage(*where, onset * world.span, FOREVER)
    if kind_of(world, "slow", "fails", "slow") == "slow":
        return replace(found, slow=1 + rng.uniform(1.0, 2.2) * strength)
    statuses = rng.choice(((500,), (502, 503), (503,)))
    return replace(found, fail_share=min(0.9, rng.uniform(0.2, 0.45) * strength), statuses=statuses,
                   fail_midway=rng.choice((0.0, 0.0, 0.4)), fail_ms=rng.choice((10.0, 60.0, 800.0)))  # fmt: skip


def _with(world: World, damage: Damage, onset: float) -> World:
    subject = (("subject", f"{_COLUMN[damage.dimension]}={damage.value}"),)
    return replace(world, damages=(*world.damages, damage), onset=onset, notes=subject)


_COLUMN = {"instance": "instance", "version": "app_version", "model": "model", "region": "region", "tenant": "tenant"}


def bad_instance(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """One replica computes slowly (clocks, a neighbour, a dying card) or fails."""
    onset, guilty = draw_onset(rng), rng.choice(world.fleet).name
    return _with(world, _hurt(world, ("instance", guilty), onset, rng, strength), onset)


def bad_version(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A new version on half of the replicas or more (one after the other within seconds) is slow or fails."""
    onset = rng.uniform(0.2, 0.5)
    count = rng.choice((len(world.fleet) // 2, len(world.fleet) // 2, len(world.fleet)))
    picked = rng.sample(world.fleet, max(2, count))
    new = {one.name: onset * world.span + 4.0 * place for place, one in enumerate(picked)}
    fleet = tuple(
        replace(one, versions=(*one.versions, (new[one.name], "2.5.0"))) if one.name in new else one
        for one in world.fleet
    )
    damage = _hurt(world, ("version", "2.5.0"), 0.0, rng, strength)
    return _with(replace(world, fleet=fleet), damage, onset)


def bad_model(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """One of several models of the same class becomes slow or fails from some moment on."""
    onset, guilty = rng.uniform(0.2, 0.5), weighted(world.mix.models, rng)
    damage = _hurt(world, ("model", guilty), onset, rng, strength)
    damage = replace(damage, slow=damage.slow * 1.3) if damage.slow > 1 else damage
    return _with(world, damage, onset)


def bad_region(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The way to one region is long and lossy, or everything there is slow or fails."""
    onset, guilty = draw_onset(rng), rng.choice(world.regions).name
    if kind_of(world, "way", "service") == "way":
        damage = Damage("region", guilty, onset * world.span, FOREVER, rtt_ms=rng.uniform(400, 1200) * strength,
                        loss_share=rng.uniform(0.05, 0.25))  # fmt: skip
        return _with(world, damage, onset)
    return _with(world, _hurt(world, ("region", guilty), onset, rng, strength), onset)


def bad_tenant(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """One tenant's requests wait (a policy hook, an adapter to load) or fail, at the same tokens as everybody's."""
    onset = draw_onset(rng)
    total = sum(weight for _, weight in world.mix.tenants)
    guilty = rng.choice([name for name, weight in world.mix.tenants if 0.06 <= weight / total <= 0.3])
    damage = Damage("tenant", guilty, onset * world.span, FOREVER)
    if kind_of(world, "waits", "fails", "waits") == "waits":
        damage = replace(damage, wait_ms=rng.uniform(2000, 5000) * strength, wait_share=rng.uniform(0.5, 1.0),
                         wait_as=rng.choice(("queue", "door")))  # fmt: skip
    else:
        damage = replace(damage, fail_share=min(0.9, rng.uniform(0.25, 0.6) * strength),
                         statuses=rng.choice(((500,), (502,))), fail_ms=rng.choice((15.0, 400.0)))  # fmt: skip
    return _with(world, damage, onset)
