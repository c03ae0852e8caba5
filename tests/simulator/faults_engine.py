"""Faults of the engine, its memory and its input. Same form as in faults.py; knowledge/latency.md A to E."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulator.base import size_of_fleet, with_clients
from tests.simulator.door import FOREVER
from tests.simulator.faults import draw_onset, prompt_for
from tests.simulator.setups import capacity, mean_length
from tests.simulator.world import Damage, World, kind_of


def overload(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Far more is asked than the service ever completed: everything is slow, callers give up, the door turns away."""
    onset = draw_onset(rng)
    many = (1.3 + rng.uniform(0.0, 0.5) * strength) * size_of_fleet(world) / world.load.rate
    load = replace(world.load, phases=((0.0, 1.0), (onset, many)))
    world = with_clients(replace(world, load=load, onset=onset), total_s=rng.choice((30.0, 60.0, 120.0)))
    if kind_of(world, "waits", "sheds") == "waits":
        return world
    slots = sum(one.slots for one in world.fleet) / len({(one.model, one.region) for one in world.fleet})
    over = max(4, round(min(slots, 160) * rng.uniform(1.2, 2.0)))
    return replace(world, gateway=replace(world.gateway, shed_over=over))


def single_slot(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The engine runs one sequence at a time (or two): a default that nobody changed."""
    rho = rng.uniform(0.6, 0.8) * strength**0.5
    setup = world.fleet[0].setup
    each = world.load.rate / len(world.fleet)
    slots = min((1, 2), key=lambda one: abs(each / capacity(setup, world.mix.lengths, one, setup.kv_tokens) - rho))
    rate = rho * capacity(setup, world.mix.lengths, slots, setup.kv_tokens) / each
    fleet = tuple(replace(one, slots=slots) for one in world.fleet)
    return replace(world, fleet=fleet, load=replace(world.load, phases=((0.0, min(3.0, rate)),)))


def hol_long_outputs(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A few very long answers, asked for and bounded, hold the slots; short requests wait behind them."""
    onset = draw_onset(rng)
    usual = mean_length(world.mix.lengths.answer)
    low, high = 1800, 4000
    room = (rng.uniform(0.75, 0.95) * strength**0.3 * size_of_fleet(world) / world.load.rate - 1) * usual / 2800
    share = min(0.25, max(0.015, room))
    mix = replace(world.mix, long_answer_share=share, long_answer=(low, high), long_from=onset)
    return replace(world, mix=mix, onset=onset)


def hol_long_prompts(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Very long prompts are worked off whole, in one step: everybody else on the instance stands still."""
    setup, onset = world.fleet[0].setup, draw_onset(rng)
    seconds = (rng.uniform(1.5, 3.0), rng.uniform(4.0, 9.0))
    sizes = (prompt_for(setup, seconds[0]), prompt_for(setup, seconds[1]))
    most = int(0.4 * setup.kv_tokens)
    sizes = (min(most // 2, sizes[0]), min(most, sizes[1]))
    share = min(0.12, rng.uniform(0.12, 0.25) * strength * len(world.fleet) / (world.load.rate * sum(seconds) / 2))
    fleet = tuple(replace(one, setup=replace(one.setup, budget=10**6)) for one in world.fleet)
    mix = replace(world.mix, long_prompt_share=share, long_prompt=sizes, long_from=onset)
    return replace(world, fleet=fleet, mix=mix, onset=onset)


def kv_preemption(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """KV memory is too small for the sequences that are let in: they are thrown out and computed again."""
    lengths, onset = world.mix.lengths, draw_onset(rng)
    one = mean_length(lengths.prompt) + mean_length(lengths.answer) / 2
    least = 1.2 * (lengths.prompt[-1][1] + lengths.answer[-1][1])
    memory = round(max(least, rng.uniform(7, 14) * one))
    running = world.load.rate * (sum(totals) / len(totals)) / len(world.fleet)
    many = rng.uniform(0.55, 0.75) * strength**0.5 * memory / one / running
    fleet = tuple(replace(each, kv_tokens=memory, slots=256) for each in world.fleet)
    load = replace(world.load, phases=((0.0, 1.0), (onset, many)) if onset else ((0.0, many),))
    return replace(world, fleet=fleet, load=load, onset=onset)


def compute_bound(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The card is full: batches so large (or clocks so low) that each token takes its time; nobody queues."""
    onset = draw_onset(rng)
    if kind_of(world, "batch", "clocks") == "clocks":
        slow = Damage("all", "", onset * world.span, FOREVER, slow=rng.uniform(1.6, 2.2) * strength**0.5)
        return replace(world, damages=(*world.damages, slow), onset=onset)
    many = min(1.05, rng.uniform(0.8, 0.92) * strength**0.1) * size_of_fleet(world) / world.load.rate
    return replace(world, onset=onset, load=replace(world.load, phases=((0.0, 1.0), (onset, many))))


def model_reload(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Two callers want other options of one engine (context size): each switch loads the model anew."""
    return replace(world, gateway=replace(world.gateway, reload_s=rng.uniform(4, 12) * strength**0.5))


def grammar_compile(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A schema that an engine has not seen costs seconds before its first token."""
    gateway = replace(
        world.gateway, compile_s=rng.uniform(3, 12) * strength, compile_as=rng.choice(("queue", "hidden"))
    )
    return replace(world, gateway=gateway)


def cache_miss(world: World, rng: random.Random, _strength: float, _totals: list[float]) -> World:
    """Prompts share thousands of tokens, but from some moment on (or ever) none of them is found in the cache."""
    onset = draw_onset(rng)
    return replace(world, onset=onset, gateway=replace(world.gateway, cache_until=onset * world.span))


def context_overflow(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Some prompts (a history that grew, a pasted document) do not fit the context of the model."""
    onset = draw_onset(rng)
    context = rng.choice((8192, 16_384, 32_768))
    share = min(0.3, rng.uniform(0.025, 0.08) * strength)
    mix = replace(world.mix, long_prompt_share=share, long_prompt=(round(context * 0.9), context * 2), long_from=onset)
    return replace(world, onset=onset, mix=mix, gateway=replace(world.gateway, context=max(context, _longest(world))))


def _longest(world: World) -> int:
    """What the twin's requests need at most."""
    limits = [one.max_tokens or 0 for one in world.clients]
    return round(world.mix.lengths.prompt[-1][1] + max(limits)) + 64
