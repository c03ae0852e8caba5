"""Jobs that ask on their own: a batch of items worked off by a fixed number of workers."""

from __future__ import annotations

from dataclasses import replace

from tests.simulator.arrivals import Ask, weighted
from tests.simulator.traffic import Batch
from tests.simulator.world import World, stream


def item(world: World, batch: Batch, place: int) -> Ask | None:
    """The next thing a batch asks for, None when it is through. Runs after the first ask the same again."""
    run, number = divmod(place, batch.items) if batch.items else (0, place)
    if batch.items and run >= batch.runs:
        return None
    rng = stream(world.seed, f"batch/{batch.name}/{number}")
    prompt, answer = rng.randint(*batch.prompt), rng.randint(*batch.answer)
    tenant, model = weighted(world.mix.tenants, rng), weighted(world.mix.models, rng)
    limit = world.clients[batch.client].max_tokens
    fails = rng.random() < batch.fail_share and run == 0
    task = f"{batch.name}-{number:04d}" + (f"-run{run}" if batch.new_tasks else "")
    return Ask(
        at=0.0, task=task, client=batch.client, tenant=tenant, region=rng.choice(world.regions).name, model=model,
        prompt=prompt, answer=min(answer, limit or answer), max_tokens=limit, finish="stop", stream=False,
        prefix=f"{model}/{batch.name}", prefix_tokens=min(64, prompt - 1), prompt_hash=f"{rng.getrandbits(64):016x}",
        poison=fails, leaves_after=None, options=world.clients[batch.client].options, template="batch",
        key=task, batch=batch.name, place=place,
    )  # fmt: skip


def again(ask: Ask) -> Ask:
    """The same task as a second worker gets it."""
    return replace(ask, worker=ask.worker + 1)
