"""``make accuracy``: calibrates on one half of the seeds, reports on the other, which nothing was ever tuned on.

Writes rules/calibration.toml (with --write) and prints, per field profile: top-1 and top-3 of every cause, what was
named instead, false alarms on healthy logs, two faults at once, the reliability of the confidence, abstention, and how
steady the first cause is when the log is shuffled, cut, doubled, coarse or full of holes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.simulator import tally
from tests.simulator.calibrate import ENOUGH, WEIGHT, as_toml, confidence, listings, tables
from tests.simulator.cases import SCENARIOS
from tests.simulator.perturb import CHANGES
from tests.simulator.results import Result, Task, as_line, from_line, run_all

FIELDS = ("full", "client")
REPORT = Path(__file__).with_name("ACCURACY.md")
ABOUT = """\
# How often the diagnosis is right

Written by `make accuracy`. Simulated incidents ([README](README.md)), {rows} requests each; the confidence was
calibrated on seeds {tune}; everything below is about seeds {report}, on which nothing was tuned. **full**: logs that
say what happened behind the caller, **client**: what a caller alone can know. top-1, top-3: the injected cause (or one
that is equally right) stands first, or in the first three. "true too" is right in its way, but not what was put wrong.
Simulation flatters: the same people wrote the corpus and the rules, and one incident is like the next of its kind.
"""
TARGET = Path(__file__).parents[2] / "rules" / "calibration.toml"
HEAD = """\
What a raw score is worth: [score, probability] knots, linear between them, flat outside. Written by `make accuracy`;
do not edit. {cases} simulated logs of {scenarios} scenarios (tests/simulator), seeds {seeds}, {rows} requests each:
isotonic regression of "this cause was really at work" on the raw score of every cause that a report listed.
pooled: all causes, and what a page without a line of its own reads. causes: those listed {enough} times or more, drawn
towards the pooled table by {weight:g} cases. full: logs that say what happened behind the caller; client: all others.
Simulated incidents are evenly spread over the causes; real ones are not."""


def tasks_of(seeds: range, rows: int, changes: Sequence[str] = tuple(CHANGES)) -> list[Task]:
    """Every scenario with every seed; the first seed of each also changed, scenarios taking turns in the profiles."""
    return [
        Task(name, seed, rows, FIELDS, FIELDS[place % 2], tuple(changes) if seed == seeds[0] and not one.pair else ())
        for place, (name, one) in enumerate(SCENARIOS.items())
        for seed in seeds
    ]


def collected(tasks: Sequence[Task], jobs: int, cache: Path | None) -> list[Result]:
    """The results of all tasks; what the cache file holds is not run again (it is for one version of the rules)."""
    known: dict[tuple[str, int], list[Result]] = {}
    if cache and cache.exists():
        for line in cache.read_text(encoding="utf-8").splitlines():
            one = from_line(line)
            known.setdefault((one.scenario, one.seed), []).append(one)
    missing = [task for task in tasks if (task.scenario, task.seed) not in known]
    for task, found in run_all(missing, jobs):
        known[task.scenario, task.seed] = found
        if cache:
            with cache.open("a", encoding="utf-8") as lines:
                lines.writelines(as_line(one) + "\n" for one in found)
        if sys.stderr.isatty():
            print(f"\r{task.scenario:44}{task.seed:4}", end="", file=sys.stderr)
    return [one for task in tasks for one in known.get((task.scenario, task.seed), [])]


def report(results: Sequence[Result], sure: tally.Sure) -> str:
    """Everything that is printed about the reporting half."""
    plain = [one for one in results if not one.change]
    parts = {
        "One fault": [tally.table(plain), *tally.hidden(plain)],
        "Two faults at once": tally.pairs(plain),
        "How often a confidence is right (reporting half)": tally.reliability(plain, sure),
        "Abstention (causes that the fields can tell)": tally.abstention(plain, sure),
        "Changed logs (first seed)": tally.steadiness(results),
    }
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n" + "\n".join(lines) for title, lines in parts.items() if lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.accuracy", description=__doc__)
    parser.add_argument("--tune", default="0:6", help="seeds of the tuning half, FROM:TO")
    parser.add_argument("--report", default="100:106", help="seeds of the reporting half")
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--changes", nargs="*", default=list(CHANGES), choices=list(CHANGES), help="changed logs that are tried too"
    )
    parser.add_argument("--cache", type=Path, help="keeps and reuses results (of one version of the rules)")
    parser.add_argument("--write", action="store_true", help="write rules/calibration.toml")
    args = parser.parse_args()
    tune, held = (range(*(int(part) for part in seeds.split(":"))) for seeds in (args.tune, args.report))
    if set(tune) & set(held):
        parser.error("the two halves share seeds")
    tuning = [Task(one.scenario, one.seed, one.rows, one.fields) for one in tasks_of(tune, args.rows)]
    known = collected(tuning, args.jobs, args.cache)
    found = tables(known)
    held_out = collected(tasks_of(held, args.rows, args.changes), args.jobs, args.cache)
    told = report(held_out, lambda one, cause, score: confidence(found[one.fields], cause, score))
    print(told)
    if args.write:
        about = ABOUT.format(tune=args.tune, report=args.report, rows=args.rows)
        REPORT.write_text(f"{about}\n```text\n{told}\n```\n", encoding="utf-8")
        head = HEAD.format(cases=len(known), scenarios=len(SCENARIOS), seeds=args.tune, rows=args.rows,
                           enough=ENOUGH, weight=WEIGHT)  # fmt: skip
        TARGET.write_text(as_toml(found, head), encoding="utf-8")
        print(f"\n{TARGET}: {len(known)} logs, {sum(len(one) for one in listings(known).values())} causes listed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
