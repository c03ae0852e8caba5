"""Healthy look-alikes: nothing is wrong, a finding is a false alarm."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulator.base import with_clients
from tests.simulator.faults import prompt_for
from tests.simulator.setups import A100_8B, BIG, H100_8B
from tests.simulator.traffic import Batch, Helpers, Tasks
from tests.simulator.world import Client, Damage, World, stream


def light(world: World, _rng: random.Random) -> World:
    """A quiet service."""
    return world


def ramp(world: World, rng: random.Random) -> World:
    """A day's rise and fall of the traffic which the service absorbs."""
    top = rng.uniform(1.6, 2.2)
    steps = 24
    phases = tuple(
        (place / steps, 0.5 + (top - 0.5) * (1 - abs(2 * place / steps - 1)) ** 1.3) for place in range(steps)
    )
    return replace(world, load=replace(world.load, phases=phases))


def long_answers(world: World, _rng: random.Random) -> World:
    """Long answers that were asked for and are bounded."""
    return with_clients(world, max_tokens=4096, total_s=600.0)


def parallel_sampling(world: World, rng: random.Random) -> World:
    """Self-consistency: the same prompt several times in the same instant, all succeed."""
    samples, share, same = rng.randint(3, 8), rng.uniform(0.2, 0.6), rng.random() < 0.5
    mix = replace(world.mix, samples=samples, sample_share=share, same_task=same, cancel_share=0.0)
    return replace(world, mix=mix, gateway=replace(world.gateway, error_share=0.0))


def few(world: World, rng: random.Random) -> World:
    """A handful of requests, no failures."""
    mix = replace(world.mix, cancel_share=0.0)
    return replace(world, rows=rng.randint(8, 40), mix=mix, gateway=replace(world.gateway, error_share=0.0))


def mixed_models(world: World, _rng: random.Random) -> World:
    """A small and a big model: the big one is slower by nature."""
    rng = stream(world.seed, "mixed")
    small, big = rng.choice((H100_8B, A100_8B)), rng.choice(BIG)
    first = world.fleet[0].model
    fleet = tuple(
        replace(one, setup=small if one.model == first else big, slots=128,
                kv_tokens=(small if one.model == first else big).kv_tokens)
        for one in world.fleet
    )  # fmt: skip
    renamed = {one: ("swift-8b" if one == first else "grand-70b") for one, _ in world.mix.models}
    fleet = tuple(
        replace(one, model=renamed[one.model], name=one.name.replace(one.model, renamed[one.model])) for one in fleet
    )
    return replace(
        world, fleet=fleet, mix=replace(world.mix, models=tuple((renamed[one], w) for one, w in world.mix.models))
    )


def nonstream(world: World, _rng: random.Random) -> World:
    """Nobody streams."""
    return replace(world, mix=replace(world.mix, stream_share=0.0))


def long_prompts_light(world: World, rng: random.Random) -> World:
    """Some long prompts: the first token follows their length, within the limits."""
    setup = world.fleet[0].setup
    sizes = (prompt_for(setup, 0.3), prompt_for(setup, 1.1))
    return replace(world, mix=replace(world.mix, long_prompt_share=rng.uniform(0.04, 0.12), long_prompt=sizes))


def bursty_clients(world: World, rng: random.Random) -> World:
    """Callers that send in bursts (CV 2 to 4) which the service has room for."""
    return replace(world, load=replace(world.load, cv=rng.uniform(2.0, 4.0)))


def many_tokens_an_event(world: World, rng: random.Random) -> World:
    """Speculative decoding or a stream interval: an event carries 4 to 12 tokens, nothing is held back."""
    delivery = replace(world.gateway.delivery, tokens_per_event=rng.choice((4, 6, 8, 12)))
    return replace(world, gateway=replace(world.gateway, delivery=delivery))


def short_answers(world: World, _rng: random.Random) -> World:
    """Answers of a few tokens, many of them in one read."""
    return world


def one_slow(world: World, rng: random.Random) -> World:
    """A handful of requests, one of which is slow."""
    world = replace(few(world, rng), rows=rng.randint(24, 60))
    at = rng.uniform(0.2, 0.8) * world.span
    spell = 0.6 / world.load.rate
    return replace(world, damages=(Damage("all", "", at, at + spell, wait_ms=2000, wait_as="hidden"),))


def users_who_leave(world: World, rng: random.Random) -> World:
    """Some people stop the answer; the engine hears of it and stops too."""
    mix = replace(world.mix, cancel_share=rng.uniform(0.02, 0.08))
    return replace(world, mix=mix, gateway=replace(world.gateway, aborts=True))


def helper_calls(world: World, rng: random.Random) -> World:
    """Titles and tags beside each chat, on a service that has room for them."""
    return replace(world, mix=replace(world.mix, helpers=Helpers((1, rng.randint(1, 3)), (6, 30), 1.0, 0.0)))


def job_tasks(world: World, rng: random.Random) -> World:
    """Jobs behind a queue, all of which end with their result; the slow ones say that they are alive."""
    return replace(world, mix=replace(world.mix, tasks=Tasks(rng.randint(3, 9))))


def stages(world: World, rng: random.Random) -> World:
    """A search and sometimes a tool before each answer, as quick as they should be."""
    found = (("retrieval", rng.uniform(60, 220)), *((("tool", rng.uniform(30, 150)),) if rng.random() < 0.5 else ()))
    return replace(world, mix=replace(world.mix, stages=found))


def guided(world: World, rng: random.Random) -> World:
    """Answers in the shape of a schema, compiled in no time."""
    mix = replace(world.mix, schema_share=rng.uniform(0.3, 1.0), schemas=rng.randint(3, 60))
    return replace(world, mix=mix, gateway=replace(world.gateway, compile_s=0.03))


def quiet_batch(world: World, rng: random.Random) -> World:
    """A job with two workers beside the people, which nobody notices."""
    start = rng.uniform(0.1, 0.5) * world.span
    batch = Batch("nightly", len(world.clients), start, start + 0.3 * world.span, 2, (500, 1500), (80, 300))
    client = Client("nightly-batch", 0.0, 600.0, max_tokens=world.clients[0].max_tokens)
    return replace(world, clients=(*world.clients, client), mix=replace(world.mix, batches=(batch,)))
