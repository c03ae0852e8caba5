"""A plausible healthy service for a seed: set-up, fleet, workload, callers. Faults are put on top of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.simulator.door import Delivery, Gateway
from tests.simulator.setups import BIG, CODE, SMALL, WORKLOADS, capacity
from tests.simulator.traffic import Lengths, Load, Mix
from tests.simulator.world import Client, Instance, Region, RetryLayer, Setup, World, stream

SLOTS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
TENANTS = ("acme", "borealis", "cobalt", "dorsal", "emporia", "fjord", "granite", "helix", "indigo", "juniper")
REGIONS = ("eu-central-1", "us-east-1", "ap-southeast-2", "eu-west-3")
CALLERS = ("web-chat", "mobile-bff", "support-bot", "doc-search")
MODELS = ("atlas-8b", "birch-8b", "cedar-8b", "delta-70b")


@dataclass(frozen=True)
class Shape:
    """What a scenario asks of its service; None = drawn from the seed. tight: few slots, sized to ``busy``."""

    models: int | None = None
    regions: int | None = None
    replicas: tuple[int, int] = (2, 5)
    lengths: tuple[Lengths, ...] = WORKLOADS
    setups: tuple[Setup, ...] = SMALL + BIG
    tight: bool | None = None
    busy: tuple[float, float] = (0.2, 0.45)
    rate: tuple[float, float] = (1.5, 4.5)
    stream_share: float | None = None
    max_tokens: tuple[int, ...] = (1024, 1536, 2048)


def base(name: str, seed: int, rows: int, shape: Shape, tries: int = 0) -> World:
    """The service of a seed. Every second try draws another one, the tries between have less traffic."""
    rng, calmer = stream(seed, f"base/{name}/{tries // 2}"), 0.65 ** (tries % 2)
    lengths, setup = rng.choice(shape.lengths), rng.choice(shape.setups)
    models = shape.models or rng.choice((1, 1, 1, 2))
    places = shape.regions or rng.choice((1, 1, 2))
    each = rng.randint(*shape.replicas) if models * places == 1 else rng.randint(2, max(2, shape.replicas[1] - 2))
    rate, busy = rng.uniform(*shape.rate), rng.uniform(*shape.busy)
    per_replica = rate / (models * places * each)
    tight = shape.tight if shape.tight is not None else rng.random() < 0.5
    slots = _slots(setup, lengths, per_replica / busy, tight)
    rate = calmer * min(rate, busy * capacity(setup, lengths, slots, setup.kv_tokens) * models * places * each)
    regions = tuple(_region(place, rng) for place in rng.sample(REGIONS, places))
    names = MODELS[:models] if setup in SMALL else tuple(f"{one.split('-')[0]}-70b" for one in MODELS[:models])
    fleet = tuple(
        Instance(f"{model}-{where.name[:2]}{where.name[-1]}-{number}", model, where.name, setup, slots,
                 ((0.0, "2.4.1"),), setup.kv_tokens)
        for model in names for where in regions for number in range(each)
    )  # fmt: skip
    streamed = shape.stream_share if shape.stream_share is not None else rng.choice((1.0, 1.0, 0.9, 0.75))
    return World(
        name=name, seed=seed, rows=rows, load=Load(rate, rng.uniform(1.1, 1.3) if lengths is not CODE else 1.8),
        mix=Mix(lengths, _weights(TENANTS, rng.randint(5, 10), rng), _weights(names, models, rng), streamed,
                cancel_share=rng.uniform(0.0, 0.006)),
        fleet=fleet, regions=regions, clients=_clients(rng, shape),
        gateway=Gateway(rng.uniform(2, 8), rng.choice(("least_busy", "round_robin", "random", "least_busy")),
                        rng.random() < 0.6, error_share=rng.uniform(0, 0.0015),
                        delivery=Delivery(event_bytes=rng.randint(220, 330),
                                          tokens_per_event=rng.choice((1, 1, 1, 1, 2, 4)))),
    )  # fmt: skip


def size_of_fleet(world: World) -> float:
    """Requests per second that the whole fleet can complete."""
    lengths = world.mix.lengths
    return sum(capacity(one.setup, lengths, one.slots, one.kv_tokens) for one in world.fleet)


def with_clients(world: World, **changes: object) -> World:
    """The same world with every client changed in the same way."""
    return replace(world, clients=tuple(replace(one, **changes) for one in world.clients))  # type: ignore[arg-type]  # replace() takes the fields of Client


def _slots(setup: Setup, lengths: Lengths, wanted: float, tight: bool) -> int:
    """The fewest slots with which one replica completes ``wanted`` requests a second; vLLM's 128 when not tight."""
    fits = [slots for slots in SLOTS if capacity(setup, lengths, slots, setup.kv_tokens) >= wanted]
    return (fits or [SLOTS[-1]])[0] if tight else max(128, (fits or [256])[0])


def _region(name: str, rng: random.Random) -> Region:
    return Region(name, rng.choice((rng.uniform(4, 25), rng.uniform(25, 60))), rng.uniform(0.05, 0.2))


def _weights(names: tuple[str, ...], count: int, rng: random.Random) -> tuple[tuple[str, float], ...]:
    """Zipf-like weights in random order: real tenants are uneven."""
    picked = rng.sample(names, count)
    return tuple((one, 1 / (place + 1.5) ** 0.7) for place, one in enumerate(picked))


def _clients(rng: random.Random, shape: Shape) -> tuple[Client, ...]:
    """One to three callers with the habits of the public SDKs (600 s, two retries, .5 s doubling, 0-25 % jitter)."""
    names = rng.sample(CALLERS, rng.randint(1, 3))
    limit = rng.choice((120.0, 300.0, 600.0, 600.0))
    tokens = rng.choice(shape.max_tokens)
    return tuple(
        Client(one, rng.uniform(0.5, 1.5), total_s=limit, layers=(RetryLayer(),), max_tokens=tokens) for one in names
    )
