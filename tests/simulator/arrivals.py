"""Who asks what and when: arrivals, lengths and identities, drawn before anything runs."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

from tests.simulator.traffic import Lengths
from tests.simulator.world import World, stream


@dataclass(frozen=True)
class Ask:
    """One thing a user wanted. ``answer`` is how many tokens the model would write if nothing stopped it."""

    at: float
    task: str
    client: int
    tenant: str
    region: str
    model: str
    prompt: int
    answer: int
    max_tokens: int | None
    finish: str
    stream: bool
    prefix: str
    prefix_tokens: int
    prompt_hash: str
    poison: bool
    leaves_after: float | None
    options: str = "ctx8k"
    template: str = "chat"
    schema: str | None = None
    wrong: int | None = None  # the status with which it is always refused: the caller's own mistake
    key: str | None = None
    batch: str | None = None
    place: int = -1  # in its batch, counted over all runs
    worker: int = 0  # 1: the task was handed out a second time


def draw_length(points: tuple[tuple[float, float], ...], rng: random.Random) -> int:
    """One draw from a piecewise linear inverse distribution function, at least 1 token."""
    share = rng.uniform(points[0][0], points[-1][0])
    at = min(bisect_right(points, (share, float("inf"))), len(points) - 1)
    (low, a), (high, b) = points[at - 1], points[at]
    return max(1, round(a + (b - a) * (share - low) / (high - low)))


def weighted(pairs: Sequence[tuple[str, float]], rng: random.Random) -> str:
    return rng.choices([name for name, _ in pairs], [weight for _, weight in pairs])[0]


def arrival_times(world: World, count: int) -> list[float]:
    """``count`` instants of a gamma renewal process (CV 1.1 to 1.3 for chat: diagnosis.md 3.6) with phases."""
    load, rng = world.load, stream(world.seed, "arrivals")
    shape = 1 / load.cv**2
    now, left, times = 0.0, 0, list[float]()
    for _ in range(count):
        share = now / world.span
        pace = load.rate * [many for since, many in load.phases if since <= share][-1]
        now += rng.gammavariate(shape, 1 / (shape * pace))
        if load.sessions and left <= 0:
            now += rng.lognormvariate(log(load.sessions[1]), 0.9) if times else 0.0
            left = max(3, round(rng.lognormvariate(log(load.sessions[0]), 0.4)))
        left -= 1
        times.append(now)
    return times


def plan(world: World) -> list[Ask]:
    """Every ask of the case in order of time (``rows`` of them, parallel samples counted one by one)."""
    rng, asks = stream(world.seed, "asks"), list[Ask]()
    samples = stream(world.seed, "samples")
    for number, at in enumerate(arrival_times(world, world.rows)):
        if len(asks) >= world.rows:
            break
        ask = _ask(world, number, at, rng)
        many = world.mix.samples if samples.random() < world.mix.sample_share else 1
        asks.extend(_sampled(world, ask, many, rng))
    more = stream(world.seed, "more")
    asks = [_dressed(world, ask, more) for ask in asks]
    helping = stream(world.seed, "helpers")
    return asks + [extra for ask in asks for extra in _helpers(world, ask, helping)]


def _dressed(world: World, ask: Ask, rng: random.Random) -> Ask:
    """What is drawn apart, so that the draws of lengths and places stay as they are."""
    mix, options = world.mix, world.clients[ask.client].options
    guided, which, long_draw, long_size, wrong_draw, key = (rng.random() for _ in range(6))
    answer, finish = ask.answer, ask.finish
    if long_draw < mix.long_answer_share and ask.at >= mix.long_from * world.span:
        low, high = mix.long_answer
        answer = min(round(low * (high / low) ** long_size), ask.max_tokens or high)
        finish = "stop"
    schema = f"schema-{int(mix.schemas * which**2):04d}" if guided < mix.schema_share else None
    shared = mix.tasks and mix.tasks.fault == "conflict" and key < mix.tasks.share
    late = mix.tasks is not None and ask.at >= mix.tasks.start
    name = f"user-{int(key * 9973) % 40}" if shared and late else ask.task
    return replace(
        ask,
        answer=answer,
        finish=finish,
        options=options,
        schema=schema,
        wrong=_wrong(world, ask, wrong_draw),
        key=name,
    )


def _wrong(world: World, ask: Ask, draw: float) -> int | None:
    """The status of a call that is wrong in itself: a dead key, a model that is not there, a malformed body."""
    if world.mix.wrong is None or ask.at < world.mix.wrong_from * world.span:
        return None
    dimension, value, share, status = world.mix.wrong
    place = {"all": value, "caller": world.clients[ask.client].name, "tenant": ask.tenant}[dimension]
    return status if place == value and draw < share else None


def _helpers(world: World, ask: Ask, rng: random.Random) -> list[Ask]:
    """Short calls of the user interface about the same chat, some before the answer, most with it."""
    wanted = world.mix.helpers
    if wanted is None or ask.at < wanted.start or rng.random() > wanted.share:
        return []
    found = []
    for number in range(rng.randint(*wanted.count)):
        at = ask.at + rng.uniform(0.005, 0.25)
        found.append(
            replace(
                ask,
                at=at,
                task=f"{ask.task}-aux{number}",
                prompt=rng.randint(120, 400) + min(ask.prompt, 600),
                answer=rng.randint(*wanted.answer),
                finish="stop",
                prefix=f"{ask.model}/aux{number}",
                prefix_tokens=96,
                prompt_hash=f"{rng.getrandbits(64):016x}",
                template=("title", "tags", "follow-up", "search")[number % 4],
                leaves_after=None,
                stream=False,
                schema=None,
                key=f"{ask.task}-aux{number}",
                poison=False,
            )
        )
    return found


def _ask(world: World, number: int, at: float, rng: random.Random) -> Ask:
    mix = world.mix
    client = rng.choices(range(len(world.clients)), [one.weight for one in world.clients])[0]
    tenant, model = weighted(mix.tenants, rng), weighted(mix.models, rng)
    region = rng.choice(world.regions).name
    prompt, answer = draw_length(mix.lengths.prompt, rng), draw_length(mix.lengths.answer, rng)
    long_draw, long_size, away_draw, poison_draw = rng.random(), rng.random(), rng.random(), rng.random()
    if long_draw < mix.long_prompt_share and at >= mix.long_from * world.span:
        low, high = mix.long_prompt
        prompt = round(low * (high / low) ** long_size)
    limit = world.clients[client].max_tokens
    runaway = away_draw < mix.runaway_share
    answer = mix.runaway_cap if runaway else answer
    finish = "length" if runaway or (limit is not None and answer > limit) else "stop"
    prefix_tokens = _prefix(mix.lengths, tenant, world.seed)
    leaves, streamed = rng.random(), rng.random()
    patience = rng.lognormvariate(log(4.0), 0.8)
    return Ask(
        at=at, task=f"task-{world.seed:03d}-{number:05d}", client=client, tenant=tenant, region=region, model=model,
        prompt=prompt, answer=answer if limit is None else min(answer, limit), max_tokens=limit, finish=finish,
        stream=streamed < mix.stream_share, prefix=f"{model}/{tenant}", prefix_tokens=min(prefix_tokens, prompt - 1),
        prompt_hash=f"{rng.getrandbits(64):016x}", poison=poison_draw < mix.poison_share,
        leaves_after=patience if leaves < mix.cancel_share else None,
    )  # fmt: skip


def _prefix(lengths: Lengths, tenant: str, seed: int) -> int:
    """The system prompt of a tenant: the same number of tokens in every request."""
    return stream(seed, f"prefix/{tenant}").randint(*lengths.prefix)


def _sampled(world: World, ask: Ask, many: int, rng: random.Random) -> list[Ask]:

    if many == 1:
        return [ask]
    copies = []
    for number in range(many):
        answer = draw_length(world.mix.lengths.answer, rng)
        limit = ask.max_tokens
        copies.append(
            replace(
                ask,
                at=ask.at + number * rng.uniform(0.0001, 0.002),
                task=ask.task if world.mix.same_task else f"{ask.task}-{number}",
                answer=answer if limit is None else min(answer, limit),
                finish="length" if limit is not None and answer > limit else "stop",
            )
        )
    return copies
