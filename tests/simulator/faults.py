"""The sixteen faults: each puts one known thing wrong on a healthy world. Definitions: CATALOGUE, diagnosis.md 5.1.

Every function takes the healthy world, its random stream, a strength (1 = mild, raised until users feel it) and the
total times that users of the healthy twin saw (seconds, sorted), and returns the faulty world.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import sqrt

from tests.simulator.base import size_of_fleet, with_clients
from tests.simulator.door import FOREVER, ColdStart, Delivery, RateLimit
from tests.simulator.world import Damage, RetryLayer, Setup, World, kind_of

ROUND_S = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0)


def draw_onset(rng: random.Random) -> float:
    """Where in the log a fault begins: all along in three of ten cases."""
    return 0.0 if rng.random() < 0.3 else rng.uniform(0.2, 0.55)


def queueing(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """More is asked than the slots complete, all along, from some moment on, or for a while."""
    onset, lasts = draw_onset(rng), rng.random() < 0.5
    rho = 1 + rng.uniform(0.12, 0.4) * strength
    many = rho * size_of_fleet(world) / world.load.rate
    stop = onset + 0.6 * (1 - onset) / many
    after = () if lasts else ((stop, 0.8),)
    phases = ((0.0, 1.0), (onset, many), *after)
    return replace(with_clients(world, total_s=600.0), load=replace(world.load, phases=phases), onset=onset)


def prompt_for(setup: Setup, seconds: float) -> int:
    """Tokens of a prompt that takes so long to prefill alone (the positive root of the step-time model)."""
    a, b = setup.pair_ms / 2, setup.prefill_ms + setup.base_ms / setup.budget
    return round((-b + sqrt(b * b + 4 * a * seconds * 1000)) / (2 * a))


def long_prefill(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A few very long prompts, each slow by itself, on a service that has room for them."""
    setup, onset = world.fleet[0].setup, draw_onset(rng)
    few = rng.random() < 0.6
    low, high = (3.0, 9.0) if few else (1.5, 4.5)
    room = 0.09 * len(world.fleet) / (world.load.rate * (low + high) / 2)
    share = min(room, rng.uniform(0.02, 0.05) if few else rng.uniform(0.06, 0.15)) * strength
    most = int(0.5 * min(one.kv_tokens for one in world.fleet))
    sizes = (min(most // 2, prompt_for(setup, low)), min(most, prompt_for(setup, high)))
    return replace(
        world, onset=onset, mix=replace(world.mix, long_prompt_share=share, long_prompt=sizes, long_from=onset)
    )


def client_timeout_short(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """Some or all callers give up at a value inside the healthy spread; the service does not notice and goes on."""
    share = max(0.5, 1 - rng.uniform(0.06, 0.18) * strength)
    wanted = totals[int(share * (len(totals) - 1))]
    limit = min(ROUND_S, key=lambda one: abs(one - wanted))
    layers = rng.choice(((), (RetryLayer(1),), (RetryLayer(2),)))
    guilty = set(range(len(world.clients))) if rng.random() < 0.5 else {0}
    clients = tuple(
        replace(one, total_s=limit, layers=layers, weight=2 * one.weight) if place in guilty else one
        for place, one in enumerate(world.clients)
    )
    return replace(world, clients=clients, gateway=replace(world.gateway, aborts=False))


def retry_without_backoff(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """A short outage, or a short peak with impatient callers; every failure is tried again at once or in lockstep."""
    wait = rng.choice((0.0, 0.0, 0.02, 0.1, 1.0))
    layer = RetryLayer(rng.randint(4, 8), wait, 1.0, 60.0, 0.0, retries_broken=True)
    onset = rng.uniform(0.2, 0.6)
    start = onset * world.span
    if kind_of(world, "outage", "peak", "outage") == "outage":
        seconds = (0.02 + 0.03 * rng.random()) * strength * world.span
        status = rng.choice((500, 502, 503))
        outage = Damage("all", "", start, start + seconds, fail_share=0.97, statuses=(status,),
                        fail_ms=rng.uniform(4, 30), kills=True)  # fmt: skip
        return replace(with_clients(world, layers=(layer,)), damages=(*world.damages, outage), onset=onset)
    many = (1.3 + 0.3 * strength) * size_of_fleet(world) / world.load.rate
    patience = min((one for one in ROUND_S if one > totals[len(totals) // 2] / 3 and one >= 2.0), default=10.0)
    peak = ((0.0, 1.0), (onset, many), (onset + (0.06 + 0.04 * strength) / many * 3, 1.0))
    world = with_clients(world, layers=(layer,), first_s=min(patience, 10.0), total_s=max(120.0, 12 * patience))
    return replace(world, load=replace(world.load, phases=peak), onset=onset)


def nested_retries(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """An SDK that tries again inside an application that tries again: tasks that fail hard cost the product."""
    inner = RetryLayer(rng.choice((2, 2, 1)))
    pause, grows, jitter = rng.uniform(4, 10), rng.choice((1.0, 2.0)), rng.choice((0.0, 0.25))
    outer = RetryLayer(2, pause, grows, 30.0, jitter, retries_broken=True)
    world = with_clients(world, layers=(inner, outer))
    if kind_of(world, "poison", "outage", "outage") == "poison":
        return replace(world, mix=replace(world.mix, poison_share=rng.uniform(0.025, 0.06) * strength))
    windows = rng.randint(1, 3)
    length = rng.uniform(0.04, 0.09) * strength * world.span / windows
    starts = sorted(rng.uniform(0.1, 0.85) * world.span for _ in range(windows))
    took = rng.uniform(5, 200)
    damages = tuple(
        Damage("all", "", start, start + max(20.0, length), fail_share=0.97, statuses=(503,), fail_ms=took)
        for start in starts
    )
    return replace(world, damages=(*world.damages, *damages), onset=starts[0] / world.span)


def rate_limiting(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The account may ask for less per minute than its callers do, all along or since the quota changed."""
    onset = draw_onset(rng)
    allowed = world.load.rate * 60 / (1 + rng.uniform(0.15, 0.6) * strength)
    limit = RateLimit(max(6.0, round(allowed)), rng.randint(3, 15), rng.random() < 0.4, onset * world.span)
    layer = RetryLayer(rng.choice((1, 2, 2, 3)), cap_s=60.0)
    return replace(with_clients(world, layers=(layer,)), gateway=replace(world.gateway, limit=limit), onset=onset)


def server_errors(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A share of requests fails on the server whoever asks and wherever they land."""
    onset = draw_onset(rng)
    damage = Damage(
        "all", "", onset * world.span, FOREVER, fail_share=min(0.6, rng.uniform(0.04, 0.15) * strength),
        fail_midway=rng.choice((0.0, 0.0, 0.3)), statuses=rng.choice(((500,), (502, 503), (500, 502, 503))),
        fail_ms=rng.choice((20.0, 300.0, 1500.0)),
    )  # fmt: skip
    return replace(world, damages=(*world.damages, damage), onset=onset)


def proxy_buffering(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Something between service and caller collects the stream: whole, or in buffers of a fixed size."""
    onset = draw_onset(rng)
    size = rng.choice((4096, 8192, 16384, 32768))
    mode = "proxy_full" if strength > 1.5 else kind_of(world, "proxy_lumps", "proxy_full", "proxy_lumps")
    delivery = replace(world.gateway.delivery, mode=mode, start=onset * world.span, lump_bytes=size)
    return _delivered(world, delivery, onset)


def fake_streaming(world: World, rng: random.Random, _strength: float, _totals: list[float]) -> World:
    """The application waits for the whole answer and then plays it as a stream: at once or word by word."""
    onset = draw_onset(rng)
    mode = kind_of(world, "fake_burst", "fake_paced", "fake_burst")
    delivery = replace(
        world.gateway.delivery, mode=mode, start=onset * world.span, pace_ms=rng.uniform(5, 20), tokens_per_event=1
    )
    return _delivered(world, delivery, onset)


def _delivered(world: World, delivery: Delivery, onset: float) -> World:
    return replace(world, gateway=replace(world.gateway, delivery=delivery), onset=onset)


def unbounded_max_tokens(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """No limit was asked for, so a few answers run on to the model's cap."""
    setup = world.fleet[0].setup
    step_s = (setup.base_ms + 8 * setup.seq_ms) / 1000 * 1.3
    fits = [cap for cap in (2048, 4096, 8192, 16384) if cap * step_s < 260 and cap < 0.3 * setup.kv_tokens]
    cap = rng.choice(fits[-2:])
    room = 0.35 * len(world.fleet) * world.fleet[0].slots / (world.load.rate * cap * step_s)
    mix = replace(world.mix, runaway_share=min(room, rng.uniform(0.012, 0.03)) * strength, runaway_cap=cap)
    return replace(with_clients(world, max_tokens=None, total_s=600.0), mix=mix)


def cold_start(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The model is unloaded after some idle minutes: the first to come pays, and whoever comes while it loads."""
    idle_s = rng.choice((120.0, 300.0, 300.0, 600.0)) if strength < 2 else 120.0
    load_s = world.fleet[0].setup.cold_s * rng.uniform(0.6, 1.2)
    return replace(world, gateway=replace(world.gateway, cold=ColdStart(idle_s, load_s, rng.random() < 0.4)))
