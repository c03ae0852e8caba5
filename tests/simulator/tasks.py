"""Tasks behind a queue: what their states say, and what goes wrong with workers and results."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulator.attempts import Attempt
from tests.simulator.traffic import Tasks
from tests.simulator.world import World, stream

BEAT_S = 5.0  # a running task says that it is alive


@dataclass(frozen=True)
class Event:
    """One line of a task's history."""

    at: float
    task: str
    state: str
    worker: str | None = None
    result: str | None = None
    heartbeat: bool = False


@dataclass(frozen=True)
class History:
    """All events in order of time, tasks that went wrong, and attempts whose record died with their worker."""

    events: list[Event]
    broken: frozenset[str]
    lost: frozenset[str]


def history(world: World, attempts: list[Attempt]) -> History:
    """The task events of a case; nothing where its tasks have none."""
    tasks = world.mix.tasks
    if tasks is None:
        return History([], frozenset(), frozenset())
    rng, grouped = stream(world.seed, "tasks"), dict[str, list[Attempt]]()
    for one in attempts:
        grouped.setdefault(one.ask.task, []).append(one)
    runs = {task: _run(tasks, task, found, rng) for task, found in grouped.items()}
    deaths = _deaths(world, tasks, runs, rng)
    events, broken, lost = list[Event](), set[str](), set[str]()
    for task, found in grouped.items():
        died = next((at for worker, at in deaths if worker == runs[task][0] and _spans(runs[task], at)), None)
        made, wrong = _events(tasks, task, found, runs[task][0], rng)
        if died is not None:
            made, wrong = [one for one in made if one.at < died], True
            lost.update(one.request_id for one in found if one.ended is None or one.ended > died)
        events += made
        if wrong:
            broken.add(task)
    return History(sorted(events, key=lambda one: (one.at, one.task)), frozenset(broken), frozenset(lost))


def _run(tasks: Tasks, _task: str, found: list[Attempt], rng: random.Random) -> tuple[str, float, float]:
    """Worker, begin and end of a task."""
    end = max(one.ended or one.sent for one in found)
    return f"worker-{rng.randrange(tasks.workers)}", found[0].sent, end


def _spans(run: tuple[str, float, float], at: float) -> bool:
    return run[1] < at < run[2]


def _deaths(
    world: World, tasks: Tasks, runs: dict[str, tuple[str, float, float]], rng: random.Random
) -> list[tuple[str, float]]:
    """Workers that die while they are busy (out of memory, a deploy): the busiest of some random moments."""
    if tasks.fault != "lost":
        return []
    found = []
    for number in range(max(1, round(tasks.share))):
        moments = [
            (
                f"worker-{rng.randrange(tasks.workers)}",
                rng.uniform(max(tasks.start, 0.05 * world.span), 0.9 * world.span),
            )
            for _ in range(12)
        ]
        found.append(
            max(moments, key=lambda one: sum(run[0] == one[0] and _spans(run, one[1]) for run in runs.values()))
        )
        if number > 40:
            break
    return found


def _events(tasks: Tasks, task: str, found: list[Attempt], worker: str, rng: random.Random) -> tuple[list[Event], bool]:
    """The life of one task, and whether something was wrong with it."""
    first, twice = found[0], [one for one in found if one.ask.worker]
    end = max(one.ended or one.sent for one in found if not one.ask.worker)
    done = any(one.outcome == "completed" for one in found)
    made = [Event(first.sent - rng.uniform(0.004, 0.4), task, "queued"), Event(first.sent, task, "running", worker)]
    beat = first.sent + BEAT_S
    while beat < end:
        made.append(Event(beat, task, "running", worker, heartbeat=True))
        beat += BEAT_S
    result = f"res-{rng.getrandbits(40):010x}"
    save = rng.uniform(0.004, 0.08)
    early = tasks.fault == "premature" and end >= tasks.start and done and rng.random() < tasks.share
    if early:
        made.append(Event(end, task, "succeeded", worker))
        if rng.random() < 0.5:
            made.append(Event(end + rng.lognormvariate(2.0, 0.8), task, "finalizing", worker, result))
    elif done:
        made.append(Event(end + save, task, "finalizing", worker, result))
        made.append(Event(end + save + 0.003, task, "succeeded", worker, result))
    else:
        made.append(Event(end + save, task, "cancelled" if found[-1].outcome == "cancelled" else "failed", worker))
    for one in twice:
        other = f"worker-{(int(worker.split('-')[1]) + 1) % max(2, tasks.workers)}"
        made.append(Event(one.sent, task, "running", other))
        if one.outcome == "completed" and one.ended is not None:
            made.append(Event(one.ended + save, task, "succeeded", other, f"res-{rng.getrandbits(40):010x}"))
    return made, early or bool(twice)
