"""``python -m tests.simulator.score``: how often the analyzer names the injected cause, per scenario and profile.

A healthy case counts as an alarm when any cause is listed or a symptom of high or critical severity is present. Shares
come with the 95 % Wilson interval; no pooled number stands alone (knowledge/diagnosis.md 7.1).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.simulator.cases import SCENARIOS, SINGLE
from tests.simulator.log import PROFILES
from tests.simulator.results import Task, as_line, run_all
from tests.simulator.tally import hidden, pairs, table

GROUPS = {
    "all": list(SCENARIOS),
    "faulty": list(SINGLE),
    "healthy": [name for name, one in SCENARIOS.items() if one.calm],
    "pairs": [name for name, one in SCENARIOS.items() if one.pair],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.score", description=__doc__)
    parser.add_argument("--seeds", default="0:5", help="FROM:TO, TO not included")
    parser.add_argument("--fields", default=",".join(PROFILES))
    parser.add_argument("--scenarios", default="all", help=f"names, or one of {', '.join(GROUPS)}")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="every result as a JSON line")
    args = parser.parse_args()
    names = GROUPS.get(args.scenarios) or args.scenarios.split(",")
    low, high = (int(part) for part in args.seeds.split(":"))
    fields = tuple(args.fields.split(","))
    tasks = [Task(name, seed, args.rows, fields) for name in names for seed in range(low, high)]
    results, empty = [], []
    for task, found in run_all(tasks, args.jobs):
        results += found
        if not found:
            empty.append(f"{task.scenario} {task.seed}")
        if sys.stderr.isatty():
            print(f"\r{task.scenario:40}", end="", file=sys.stderr)
    print("\n".join([table(results), *hidden(results), *pairs(results)]))
    if empty:
        print(f"no case (users felt no difference at any strength): {', '.join(empty)}")
    if args.out:
        args.out.write_text("".join(as_line(one) + "\n" for one in results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
