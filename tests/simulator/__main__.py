"""``python -m tests.simulator SCENARIO --seed N --fields full -o DIR``: writes DIR/logs/*.jsonl and DIR/label.json."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.simulator.cases import SCENARIOS, Case, NoImpactError, make
from tests.simulator.log import PROFILES, style, write


def label(case: Case, profile: str) -> dict[str, object]:
    """The truth of a case. It stands beside the logs, not among them."""
    world, scenario = case.world, case.scenario
    return {
        "scenario": scenario.name,
        "causes": list(case.causes),
        "accepted": list(scenario.accepted),
        "true_too": list(scenario.true_too),
        "hidden": list(scenario.hidden),
        "subject": case.subject,
        "onset_share": round(world.onset, 3),
        "onset_at": style(world).instant(world.onset * world.span),
        "seed": world.seed,
        "strength": round(case.strength, 2),
        "fields": profile,
        "workload": world.mix.lengths.name,
        "setup": world.fleet[0].setup.name,
        "seen": asdict(case.seen),
        "twin": asdict(case.twin),
    }


def save(case: Case, profile: str, folder: Path) -> None:
    """Writes the logs and the label of a case."""
    write(case, profile, folder / "logs")
    (folder / "label.json").write_text(json.dumps(label(case, profile), indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS), metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fields", choices=PROFILES, default="full")
    parser.add_argument("--rows", type=int, default=1500, help="asks; retries come on top")
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    try:
        save(make(args.scenario, args.seed, args.rows), args.fields, args.out)
    except NoImpactError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
