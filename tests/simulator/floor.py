"""``make floor``: a small part of the corpus, for every change; fails when less is found than is on record.

Its seeds are used for nothing else. The record is floor.toml: what was measured, less the noise of so few cases.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.simulator import tally
from tests.simulator.cases import SCENARIOS
from tests.simulator.results import Result, Task, run_all

RECORD = Path(__file__).with_name("floor.toml")
ROWS = 600
SEEDS = {"full": (200, 201), "client": (200,)}


def tasks() -> list[Task]:
    """Every scenario of one fault and every healthy one, twice with all fields, once with those of a client."""
    return [
        Task(name, seed, ROWS, tuple(fields for fields, seeds in SEEDS.items() if seed in seeds))
        for name, one in SCENARIOS.items()
        if not one.pair
        for seed in SEEDS["full"]
    ]


def shortfalls(results: Sequence[Result]) -> list[str]:
    """What is worse than on record, one sentence each."""
    record, found = tomllib.loads(RECORD.read_text(encoding="utf-8")), list[str]()
    for fields, floor in record.items():
        for places in (1, 3):
            share = tally.macro(results, fields, places)
            if share < floor[f"macro_top_{places}"]:
                found.append(f"{fields}: macro top-{places} is {share:.3f}, below {floor[f'macro_top_{places}']}")
        alarms = sum(one.alarmed for one in results if not one.causes and one.fields == fields)
        if alarms > floor["healthy_alarms"]:
            found.append(f"{fields}: {alarms} healthy logs give an alarm, more than {floor['healthy_alarms']}")
    return found + [f"{one.scenario} {one.seed} {one.fields}: {one.failure}" for one in results if one.failure]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.floor", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    results = [one for _, found in run_all(tasks(), args.jobs) for one in found]
    print(tally.table(results))
    worse = shortfalls(results)
    print("\n".join(worse) if worse else f"not below {RECORD.name}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
