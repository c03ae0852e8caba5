"""Faults of the callers. Same form as in faults.py; knowledge/latency.md F, G, I, the catalogue's layer "caller"."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulator.base import with_clients
from tests.simulator.door import Hasty, RateLimit
from tests.simulator.faults import ROUND_S, draw_onset
from tests.simulator.traffic import Batch, Helpers
from tests.simulator.world import Client, Damage, RetryLayer, World, kind_of


def patience(totals: list[float], share: float) -> float:
    """A round limit near that share of the healthy totals."""
    return min(ROUND_S, key=lambda one: abs(one - totals[int(share * (len(totals) - 1))]))


def retry_amplification(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """A short trigger; callers give up, ask again and the service works for those who left: retries keep it down."""
    onset = rng.uniform(0.15, 0.35)
    seconds = rng.uniform(0.06, 0.1) * strength * world.span
    limit = max(4.0, patience(totals, 0.97) * 1.2)
    layer = RetryLayer(rng.randint(3, 5), rng.uniform(0.3, 1.5), rng.choice((1.0, 2.0)), 8.0, 0.5)
    world = with_clients(world, total_s=limit, layers=(layer,))
    world = replace(world, onset=onset, gateway=replace(world.gateway, aborts=False))
    busier = replace(world.load, phases=((0.0, 1.0), (onset, 1.15 + 0.1 * strength)))
    start = onset * world.span
    trigger = Damage("all", "", start, start + seconds, slow=rng.uniform(3.0, 5.0))
    return replace(world, load=busier, damages=(*world.damages, trigger))


def retry_after_ignored(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A limited account whose callers come back long before the time that the refusal names."""
    from_share = draw_onset(rng)
    allowed = max(6.0, round(world.load.rate * 60 / (1.1 + rng.uniform(0.05, 0.3) * strength)))
    layer = RetryLayer(rng.randint(3, 6), rng.uniform(0.05, 0.4), rng.choice((1.0, 1.5)), 2.0, rng.choice((0.0, 0.25)),
                       obeys_retry_after=False)  # fmt: skip
    limit = _limit(allowed, rng, from_share * world.span)
    world = replace(with_clients(world, layers=(layer,)), onset=from_share)
    return replace(world, gateway=replace(world.gateway, limit=limit))


def _limit(per_minute: float, rng: random.Random, start: float) -> RateLimit:
    return RateLimit(per_minute, rng.randint(3, 12), rng.random() < 0.4, start)


def retry_of_unretryable(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """What can never succeed (a dead key, a wrong body, a model that is gone) is asked for again and again."""
    onset = draw_onset(rng)
    kind = kind_of(world, "key", "body", "model")
    share = min(0.5, rng.uniform(0.04, 0.12) * strength)
    wrong = {
        "key": ("caller", world.clients[0].name, min(1.0, 2 * share), rng.choice((401, 403))),
        "body": ("all", "", share, rng.choice((400, 422))),
        "model": ("tenant", rng.choice(world.mix.tenants)[0], min(1.0, 3 * share), 404),
    }[kind]
    wait, grows = rng.choice(((0.5, 2.0), (1.0, 1.0), (0.2, 1.0), (2.0, 2.0)))
    layer = RetryLayer(rng.randint(2, 5), wait, grows, 8.0, rng.choice((0.0, 0.25)), retries_wrong=True)
    return replace(
        with_clients(world, layers=(layer,)), onset=onset, mix=replace(world.mix, wrong=wrong, wrong_from=onset)
    )


def retry_of_success(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Answers come whole but without a finish reason; a strict client takes them for failures and asks again."""
    onset = draw_onset(rng)
    hasty = Hasty(min(1.0, rng.uniform(0.08, 0.4) * strength), strict=False, start=onset * world.span)
    world = with_clients(world, again=rng.randint(1, 4))
    return replace(world, onset=onset, gateway=replace(world.gateway, hasty=hasty))


def timeout_resubmission(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """Calls in one piece that take long are given up, submitted again, and every submission is worked off and paid."""
    limit = patience(totals, max(0.75, 1 - rng.uniform(0.04, 0.1) * strength))
    layer = RetryLayer(rng.randint(2, 4), rng.choice((1.0, 2.0, 0.5)), 2.0, 10.0, rng.choice((0.0, 0.1)))
    world = with_clients(world, total_s=limit, layers=(layer,))
    return replace(world, gateway=replace(world.gateway, aborts=False))


def connection_pool_limit(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """The caller's HTTP pool is smaller than what it asks at once: requests wait at home, the service has room."""
    busy = world.load.rate * sum(totals) / len(totals)
    size = max(2, round(busy * rng.uniform(0.9, 1.15) / strength**0.5))
    guilty = world.clients[0]
    alone = kind_of(world, "all", "one")
    if alone == "all":
        merged = (replace(guilty, weight=1.0, pool=size, total_s=600.0),)
        return replace(world, clients=merged)
    weights = sum(one.weight for one in world.clients)
    return replace(
        world,
        clients=tuple(
            replace(one, pool=max(2, round(size * one.weight / weights)), total_s=600.0) for one in world.clients
        ),
    )


def auxiliary_calls(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A user interface asks for a title, tags and follow-ups beside each chat, on a service sized for the chats."""
    onset = draw_onset(rng)
    most = round(rng.randint(2, 3) * strength)
    low = rng.randint(8, 20)
    helpers = Helpers((max(1, most - 1), most), (low, round((low + 30) * strength)), 1.0, onset * world.span)
    return replace(world, onset=onset, mix=replace(world.mix, helpers=helpers))


def batch_crowds_out_online(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A nightly job with many workers on the instances that serve people."""
    slots = sum(one.slots for one in world.fleet)
    workers = round(min(slots * 1.3, 40 * len(world.fleet)) * rng.uniform(0.8, 1.3) * strength)
    windows = rng.randint(1, 3)
    places = sorted(rng.sample(range(1, 8), windows))
    client = len(world.clients)
    batches = tuple(
        Batch(f"job-{number}", client, place / 9 * world.span, (place / 9 + rng.uniform(0.07, 0.1)) * world.span,
              workers, (1200, 4000), (200, 700))
        for number, place in enumerate(places)
    )  # fmt: skip
    return replace(world, clients=_with_batch(world), onset=places[0] / 9, mix=replace(world.mix, batches=batches))


def batch_replay(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A job that failed in part is run again whole."""
    items = round(world.rows * rng.uniform(0.08, 0.2) * strength**0.5)
    start = rng.uniform(0.1, 0.3) * world.span
    runs = 2 if strength < 2 else 3
    batch = Batch("import-17", len(world.clients), start, world.span * 1.5, rng.randint(3, 8), (500, 1600), (60, 260),
                  items, runs, min(0.6, rng.uniform(0.05, 0.25) * strength), rng.random() < 0.5)  # fmt: skip
    return replace(
        world, clients=_with_batch(world), onset=start / world.span, mix=replace(world.mix, batches=(batch,))
    )


def _with_batch(world: World) -> tuple[Client, ...]:
    """The callers and one more, which asks only for its batch and does not try again by itself."""
    return (*world.clients, Client("nightly-batch", 0.0, 600.0, None, (), world.clients[0].max_tokens))


def cancel_not_propagated(world: World, _rng: random.Random, _strength: float, _totals: list[float]) -> World:
    """People leave as they do in the twin, but nobody tells the engine."""
    return replace(world, gateway=replace(world.gateway, aborts=False))


def usage_not_requested(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Streams that do not ask for usage: all callers, or one of them, all along or since a release."""
    onset = draw_onset(rng) / strength
    everyone = rng.random() < 0.5 or strength > 1
    clients = tuple(
        replace(one, usage_until=onset * world.span, weight=one.weight if everyone else 2 * one.weight)
        if everyone or place == 0 else one
        for place, one in enumerate(world.clients)
    )  # fmt: skip
    return replace(world, clients=clients, onset=onset)
