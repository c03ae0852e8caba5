"""Faults on the way: network, gateway, application, delivery, provider. Same form as in faults.py."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulator.door import FOREVER, Cut, Freeze, Hasty, Race, Upstream
from tests.simulator.faults import ROUND_S, draw_onset
from tests.simulator.world import Damage, RetryLayer, World, kind_of


def _hurt(world: World, damage: Damage, onset: float) -> World:
    return replace(world, damages=(*world.damages, damage), onset=onset)


def network(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The way to the service is long or lossy for everybody."""
    onset = draw_onset(rng)
    start = onset * world.span
    if kind_of(world, "far", "lossy") == "far":
        rtt = rng.uniform(350, 900) * strength
        return _hurt(world, Damage("region", "", start, FOREVER, rtt_ms=rtt, loss_share=rng.uniform(0, 0.04)), onset)
    loss = min(0.7, rng.uniform(0.12, 0.3) * strength)
    return _hurt(world, Damage("region", "", start, FOREVER, rtt_ms=rng.uniform(20, 90), loss_share=loss), onset)


def keepalive_race(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The server closes idle connections sooner than the caller expects; who sends just then meets a reset or a 502."""
    onset = draw_onset(rng)
    idle = 24 * len(world.clients) * len(world.regions) / world.load.rate  # on average, of one of 24 connections
    likely = min((2.0, 5.0, 10.0, 15.0, 60.0), key=lambda one: abs(one - 0.6 * idle))
    race = Race(likely, rng.uniform(0.3, 0.9) * strength,
                rng.choice((None, None, 502)), onset * world.span)  # fmt: skip
    return replace(world, onset=onset, gateway=replace(world.gateway, race=race))


def gateway_overhead(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The gateway itself works too long on each request (callbacks, look-ups), one after another."""
    onset = draw_onset(rng)
    share = min(1.08, rng.uniform(0.8, 0.9) * strength**0.2)
    gateway = replace(world.gateway, worker_ms=1000 * share / world.load.rate, slow_from=onset * world.span)
    return replace(world, onset=onset, gateway=gateway)


def gateway_timeout(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """A hop between ends what takes longer than its round limit, whoever asks."""
    onset = draw_onset(rng)
    idle = kind_of(world, "deadline", "idle", "deadline") == "idle"
    share = max(0.6, 1 - rng.uniform(0.03, 0.09) * strength)
    wanted = totals[int(share * (len(totals) - 1))]
    limit = min((one for one in ROUND_S if one >= 3), key=lambda one: abs(one - wanted))
    cut = Cut(limit, idle, onset * world.span)
    mix = replace(world.mix, stream_share=min(world.mix.stream_share, 0.6)) if idle else world.mix
    clients = tuple(replace(one, layers=rng.choice(((), (RetryLayer(1),), (RetryLayer(2),)))) for one in world.clients)
    return replace(world, onset=onset, mix=mix, clients=clients, gateway=replace(world.gateway, cut=cut))


def proxy_retry(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The gateway tries again by itself, after an upstream error or when its per-try limit is over."""
    onset = draw_onset(rng)
    start, tries = onset * world.span, rng.randint(2, 4)
    if kind_of(world, "slow", "errors") == "slow":
        upstream = Upstream(tries, rng.choice((0.2, 0.3, 0.5)) / strength**0.5, start)
        world = replace(world, gateway=replace(world.gateway, upstream=upstream, aborts=False))
        wait = Damage("all", "", start, FOREVER, wait_ms=900 * strength, wait_share=rng.uniform(0.06, 0.15),
                      wait_as="queue")  # fmt: skip
        return _hurt(world, wait, onset)
    fails = Damage("all", "", start, FOREVER, fail_share=min(0.6, rng.uniform(0.15, 0.35) * strength),
                   statuses=(502, 503), fail_ms=rng.choice((400.0, 1500.0)))  # fmt: skip
    return _hurt(replace(world, gateway=replace(world.gateway, upstream=Upstream(tries, None, start))), fails, onset)


def event_loop_stall(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A process that serves many streams does something long on its event loop: all its streams stand still."""
    onset = draw_onset(rng)
    one = rng.choice(world.fleet).name if kind_of(world, "all", "one") == "one" else ""
    lasts = rng.uniform(1.5, 5.0) * strength**0.5
    freeze = Freeze(one, lasts * rng.uniform(6, 14) / strength**0.5, lasts, onset * world.span)
    return replace(world, onset=onset, gateway=replace(world.gateway, freeze=freeze))


def slow_stage(stage: str, world: World, rng: random.Random, strength: float) -> World:
    """Something that is done before the model is asked takes seconds, for a share of the requests or for all."""
    onset = draw_onset(rng)
    wait = Damage("all", "", onset * world.span, FOREVER, wait_ms=rng.uniform(1200, 4000) * strength,
                  wait_share=rng.choice((1.0, rng.uniform(0.15, 0.5))), wait_as=stage)  # fmt: skip
    return _hurt(world, wait, onset)


def slow_retrieval(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """The search before the answer is slow."""
    return slow_stage("retrieval", world, rng, strength)


def slow_tool(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """A tool that the answer needs is slow."""
    return slow_stage("tool", world, rng, strength)


def slow_delivery(world: World, rng: random.Random, strength: float, totals: list[float]) -> World:
    """The answer is there, but it is saved, checked or handed on for seconds before anybody has it."""
    onset = draw_onset(rng)
    typical = totals[len(totals) // 2]
    gateway = replace(world.gateway, save_s=typical * rng.uniform(0.6, 1.5) * strength, save_from=onset * world.span)
    return replace(world, onset=onset, gateway=gateway)


def missing_finish(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """Streams end naturally but without finish reason and end mark: always, or in a share of them."""
    onset = draw_onset(rng)
    share = rng.choice((1.0, min(1.0, rng.uniform(0.05, 0.4) * strength)))
    hasty = Hasty(share, strict=True, start=onset * world.span)
    return replace(world, onset=onset, gateway=replace(world.gateway, hasty=hasty))


def provider_tail(world: World, rng: random.Random, strength: float, _totals: list[float]) -> World:
    """One request in some dozens hangs for many seconds, and nothing that is known about it tells which."""
    wait = Damage("all", "", 0.0, FOREVER, wait_ms=rng.uniform(8000, 30_000), wait_as="hidden",
                  wait_share=min(0.08, rng.uniform(0.012, 0.03) * strength))  # fmt: skip
    return _hurt(world, wait, 0.0)
