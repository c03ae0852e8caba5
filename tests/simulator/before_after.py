"""``python -m tests.simulator.before_after``: how often `llmdoctor compare` gives the verdict that is true.

Every pair is two runs of one service on different random streams: calm and calm (noise), faulty and calm (fixed),
calm and faulty (regression), the same fault on both sides (noise with episodes), a stronger fault and the fault that
users just feel (partly fixed, where at least a third of what they felt is gone: some faults are on or off), and calm
with other lengths at as much work (mix). What breaks no limit is better, not fixed. To abstain ("undetermined") is
counted apart from being wrong: a single outage on one side only proves nothing, and the comparison says so.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from llmdoctor.compare import Side, compare, side
from llmdoctor.compare.findings import OF_LOGS
from llmdoctor.diagnose import Options, diagnose
from llmdoctor.diagnose.values import as_dict
from llmdoctor.ingest import ReadOptions, read
from llmdoctor.rulebook import load
from llmdoctor.store import Store
from tests.simulator.cases import SCENARIOS, Case, NoImpactError, make, stronger
from tests.simulator.clients import record
from tests.simulator.indicators import Seen, look
from tests.simulator.log import write
from tests.simulator.world import World

# Faults that change what is asked: at equal requests nothing is slower. Where answers ran on, bounding them is the fix.
OF_REQUESTS = frozenset({"long_prefill"})
RIGHT = {
    "noise": {"no_change"},
    "noise, faulty": {"no_change"},
    "fixed": {"fixed"},
    "regression": {"regression"},
    "partly": {"partly_fixed"},
    "mix": {"mix"},
}
STRONGER = 1.3**5
LEAST_EASED = 1 / 3
TIMES = ("ttft", "total", "tpot_p95", "queue_p99")


def pairs(case: Case, rows: int) -> Iterator[tuple[str, World, World]]:
    """(truth, world before, world after) of one case."""
    well = replace(case.well, seed=case.well.seed + 1000)
    yield "noise", case.well, well
    if not case.causes:
        yield "mix", case.well, replace(_other_lengths(case.well), seed=case.well.seed + 2000)
        return
    yield "noise, faulty", case.world, replace(case.world, seed=case.world.seed + 1000)
    yield "fixed", case.world, well
    yield "regression", well, case.world
    if len(case.causes) == 1:
        strong = stronger(case, STRONGER, rows)
        strong = replace(strong, seed=strong.seed + 3000)
        if _eased(look(strong, record(strong).attempts), case.seen, case.twin) >= LEAST_EASED:
            yield "partly", strong, case.world


def _eased(before: Seen, after: Seen, twin: Seen) -> float:
    """The part that is gone of what users felt before, by what they felt most: shares that rose by a fiftieth, times
    that rose by half; 0 where they felt no more."""
    felt = []
    for name, value in dataclasses.asdict(before).items():
        if name == "n":
            continue
        both = (value, getattr(after, name), getattr(twin, name))
        for strong, weak, well in zip(*(one if isinstance(one, tuple) else (one,) for one in both), strict=True):
            more, is_time = strong - well, name in TIMES
            if more >= (max(0.1, 0.5 * well) if is_time else 0.02):
                felt.append((more / max(well, 1e-3) if is_time else more, 1 - (weak - well) / more))
    return max(felt, default=(0.0, 0.0))[1]


def _other_lengths(world: World) -> World:
    """More of the longer prompts and answers that were asked for before, and so many fewer requests."""
    lengths = world.mix.lengths
    prompt, answer = (
        tuple((share ** (1 / 0.45), size) for share, size in points) for points in (lengths.prompt, lengths.answer)
    )
    more = max(_mean(prompt) / _mean(lengths.prompt), _mean(answer) / _mean(lengths.answer))
    mix = replace(world.mix, lengths=replace(lengths, prompt=prompt, answer=answer))
    return replace(world, mix=mix, load=replace(world.load, rate=world.load.rate / more))


def _mean(points: tuple[tuple[float, float], ...]) -> float:
    steps = pairwise(points)
    return sum((share - before) * (size + smaller) / 2 for (before, smaller), (share, size) in steps)


def told(case: Case, world: World, fields: str) -> Side:
    """What an analysis says of one run."""
    found = record(world)
    run = replace(case, world=world, attempts=found.attempts, samples=found.samples)
    with tempfile.TemporaryDirectory(prefix="llmdoctor-compared-") as folder, Store() as store:
        write(run, fields, Path(folder))
        store.create()
        read(store, [folder], ReadOptions())
        return side("run", "logs", as_dict(diagnose(store, load(), Options())))


def score(names: list[str], seeds: range, rows: int, fields: str) -> dict[str, Counter[str]]:
    """Verdicts by truth; what is wrong is printed at once."""
    levels: dict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        for seed in seeds:
            try:
                case = make(name, seed, rows)
            except NoImpactError:
                continue
            sides: dict[World, Side] = {}
            for truth, *worlds in pairs(case, rows):
                for world in worlds:
                    if world not in sides:
                        sides[world] = told(case, world, fields)
                before, after = (sides[world] for world in worlds)
                verdict = compare(before, after, "compare").verdict
                levels[truth][verdict.level] += 1
                right = {"mix"} if name in OF_REQUESTS and truth in ("fixed", "regression") else RIGHT[truth]
                if not any(one["state"] == "present" and one["id"] not in OF_LOGS for one in before.symptoms):
                    right = right | ({"better"} if right & {"fixed", "partly_fixed"} else set())
                levels[f"{truth}: right"]["n"] += verdict.level in right
                if verdict.level not in {*right, "undetermined"}:
                    print(f"{name} {seed} {truth}: {verdict.level}: {verdict.text}")
    return levels


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.before_after", description=__doc__)
    parser.add_argument("--seeds", default="0:2", help="FROM:TO, TO not included")
    parser.add_argument("--scenarios", default=",".join(name for name in SCENARIOS if "+" not in name))
    parser.add_argument("--fields", default="full")
    parser.add_argument("--rows", type=int, default=1500)
    args = parser.parse_args()
    low, high = (int(part) for part in args.seeds.split(":"))
    levels = score(args.scenarios.split(","), range(low, high), args.rows, args.fields)
    for truth in RIGHT:
        found, right = levels[truth], levels[f"{truth}: right"]["n"]
        if n := found.total():
            shares = f"right {right / n:.2f}  cannot tell {found['undetermined'] / n:.2f}"
            print(f"{truth:14} n {n:>3}  {shares}  {dict(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
