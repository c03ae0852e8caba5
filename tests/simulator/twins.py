"""What a scenario needs in its service before anything is wrong: silences, jobs, stages, schemas, long prefixes."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulator.base import with_clients
from tests.simulator.traffic import Tasks
from tests.simulator.world import Client, World


def silences(world: World, rng: random.Random) -> World:
    """Traffic in sessions with idle minutes between them."""
    return replace(world, load=replace(world.load, sessions=(rng.uniform(40, 80), rng.uniform(350, 800))))


def impatient(world: World, rng: random.Random) -> World:
    """Users who leave, of whom the engine hears."""
    mix = replace(world.mix, cancel_share=rng.uniform(0.06, 0.16))
    return replace(world, mix=mix, gateway=replace(world.gateway, aborts=True))


def in_one_piece(world: World, rng: random.Random) -> World:
    """Mostly calls that are not streamed."""
    return replace(world, mix=replace(world.mix, stream_share=rng.choice((0.0, 0.0, 0.3))))


def half_streamed(world: World, rng: random.Random) -> World:
    """Some calls are streamed and some are not."""
    return replace(world, mix=replace(world.mix, stream_share=rng.uniform(0.55, 0.9)))


def staged(world: World, rng: random.Random) -> World:
    """A search, a tool or both before each call, quick as they should be."""
    found = (("retrieval", rng.uniform(60, 220)), ("tool", rng.uniform(30, 180)))
    return replace(world, mix=replace(world.mix, stages=found))


def guided(world: World, rng: random.Random) -> World:
    """A share of the answers follow one of many schemas."""
    mix = replace(world.mix, schema_share=rng.uniform(0.3, 0.9), schemas=rng.randint(12, 60))
    return replace(world, mix=mix, gateway=replace(world.gateway, compile_s=0.03))


def two_options(world: World, rng: random.Random) -> World:
    """Two callers of one engine, one of which asks for another context size now and then."""
    first = replace(world.clients[0], weight=1.0)
    other = Client("nightly-sync", rng.uniform(0.03, 0.1), first.total_s, options="ctx32k", max_tokens=first.max_tokens)
    return replace(world, clients=(first, other))


def jobs(world: World, rng: random.Random) -> World:
    """Jobs behind a queue, whose states are logged."""
    return replace(world, mix=replace(world.mix, tasks=Tasks(rng.randint(2, 6))))


def may_be_long(world: World, _rng: random.Random) -> World:
    """Answers may be up to 4,096 tokens long, though they are not."""
    return with_clients(world, max_tokens=4096, total_s=600.0)
