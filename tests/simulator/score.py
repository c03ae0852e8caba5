"""``python -m tests.simulator.score``: how often the analyzer names the injected cause, per scenario and profile.

Every case is generated in a temporary folder and read by ``python -m llmdoctor analyze`` in a process of its own. A
healthy case counts as an alarm when any cause is listed or a symptom of high or critical severity is present. Shares
come with the 95 % Wilson interval; no pooled number stands alone (knowledge/diagnosis.md 7.1).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from tests.simulator.log import PROFILES, write
from tests.simulator.scenarios import SCENARIOS, NoImpactError, make

LIMIT_S = 300


@dataclass(frozen=True)
class Result:
    """What the analyzer said about one case. ``causes``: (id, subject, confidence) by rank, each id once."""

    scenario: str
    seed: int
    fields: str
    cause: str | None
    accepted: tuple[str, ...]
    subject: str | None
    causes: tuple[tuple[str, str, float], ...]
    alarms: tuple[str, ...]
    verdict: str
    failure: str | None = None

    def rank(self) -> int | None:
        """From 1, of the first right cause."""
        right = {self.cause, *self.accepted}
        return next((place for place, (one, _, _) in enumerate(self.causes, 1) if one in right), None)

    @property
    def alarmed(self) -> bool:
        return bool(self.causes or self.alarms)


def read_report(report: dict[str, Any]) -> tuple[tuple[tuple[str, str, float], ...], tuple[str, ...], str]:
    """Causes by rank (each id once), present symptoms of high or critical severity, and the verdict's level."""
    causes: dict[str, tuple[str, str, float]] = {}
    for one in sorted(report.get("causes") or [], key=lambda cause: cause.get("rank") or 10**6):
        causes.setdefault(one["id"], (one["id"], str(one.get("subject")), float(one.get("confidence") or 0.0)))
    symptoms = report.get("symptoms") or []
    loud = [one for one in symptoms if one["state"] == "present" and one["severity"] in {"high", "critical"}]
    return (
        tuple(causes.values()),
        tuple(sorted({one["id"] for one in loud})),
        (report.get("verdict") or {}).get("level", ""),
    )


def run_case(name: str, seed: int, rows: int, fields: tuple[str, ...], analyzer: tuple[str, ...]) -> list[Result]:
    """Generates one case and scores it in every profile; nothing for a seed that gives no case."""
    try:
        case = make(name, seed, rows)
    except NoImpactError:
        return []
    results = []
    for profile in fields:
        with tempfile.TemporaryDirectory(prefix="llmdoctor-score-") as folder:
            write(case, profile, Path(folder, "logs"))
            report, failure = analyze(Path(folder, "logs"), Path(folder, "report.json"), analyzer)
        causes, alarms, verdict = read_report(report)
        cause, subject = case.cause, case.subject
        results.append(
            Result(name, seed, profile, cause, case.scenario.accepted, subject, causes, alarms, verdict, failure)
        )
    return results


def analyze(logs: Path, out: Path, analyzer: tuple[str, ...]) -> tuple[dict[str, Any], str | None]:
    """The analyzer's JSON, or an empty report and why there is none."""
    command = [*analyzer, "analyze", str(logs), "--json", str(out), "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    except subprocess.TimeoutExpired:
        return {}, f"took more than {LIMIT_S} s"
    except (OSError, ValueError):
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return {}, f"exit {done.returncode}: {last[:160]}"
    return found, None


def wilson(hits: int, n: int) -> str:
    """Share with its 95 % Wilson interval."""
    if not n:
        return "-"
    p, z = hits / n, 1.96
    mid, half = (
        (p + z * z / (2 * n)) / (1 + z * z / n),
        z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n),
    )
    return f"{p:.2f} ({max(0.0, mid - half):.2f}-{min(1.0, mid + half):.2f})"


def table(results: list[Result]) -> str:
    """The printed report."""
    head = f"{'top-1':>5} {'top-3':>5} {'slice':>5} {'conf':>5}  named instead (at rank 1)"
    lines = [f"{'scenario':28}{'fields':11}{'n':>3}  {head}"]
    for name, fields, group in _groups([one for one in results if one.cause]):
        lines.append(_fault_line(name, fields, group))
    lines += ["", f"{'healthy':28}{'fields':11}{'n':>3}  alarms  named"]
    for name, fields, group in _groups([one for one in results if not one.cause]):
        named = Counter(what for one in group for what in {*(cause for cause, _, _ in one.causes), *one.alarms})
        lines.append(f"{name:28}{fields:11}{len(group):>3}  {sum(one.alarmed for one in group):>6}  {_counted(named)}")
    return "\n".join([*lines, "", *_overall(results), *_failures(results)])


def _groups(results: list[Result]) -> Iterable[tuple[str, str, list[Result]]]:
    for name in SCENARIOS:
        for fields in PROFILES:
            group = [one for one in results if (one.scenario, one.fields) == (name, fields)]
            if group:
                yield name, fields, group


def _fault_line(name: str, fields: str, group: list[Result]) -> str:
    ranks = [one.rank() for one in group]
    first, third = sum(rank == 1 for rank in ranks), sum(rank is not None and rank <= 3 for rank in ranks)
    sliced = [one for one in group if one.subject]
    right = sum(
        any(cause == one.cause and subject == one.subject for cause, subject, _ in one.causes) for one in sliced
    )
    sure = [one.causes[0][2] for one in group if one.rank() == 1]
    wrong = Counter(one.causes[0][0] if one.causes else f"nothing ({one.failure or one.verdict})"
                    for one, rank in zip(group, ranks, strict=True) if rank != 1)  # fmt: skip
    slices = f"{right}/{len(sliced)}" if sliced else "-"
    confidence = f"{sum(sure) / len(sure):.2f}" if sure else "-"
    n = len(group)
    return (
        f"{name:28}{fields:11}{n:>3}  {first / n:5.2f} {third / n:5.2f} {slices:>5} {confidence:>5}  {_counted(wrong)}"
    )


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(names.items(), key=lambda pair: (-pair[1], pair[0])))


def _overall(results: list[Result]) -> list[str]:
    lines = []
    for fields in PROFILES:
        faulty = [one for one in results if one.cause and one.fields == fields]
        calm = [one for one in results if not one.cause and one.fields == fields]
        if not faulty and not calm:
            continue
        ranks = [one.rank() for one in faulty]
        first, third = sum(rank == 1 for rank in ranks), sum(rank is not None and rank <= 3 for rank in ranks)
        by_cause = [[one.rank() == 1 for one in group] for _, _, group in _groups(faulty)]
        macro = sum(sum(one) / len(one) for one in by_cause) / len(by_cause) if by_cause else 0.0
        alarms = sum(one.alarmed for one in calm)
        lines.append(
            f"{fields:11} top-1 {wilson(first, len(faulty))}  top-3 {wilson(third, len(faulty))}  "
            f"macro top-1 {macro:.2f}  n {len(faulty)}  healthy alarms {alarms}/{len(calm)}"
        )
    return lines


def _failures(results: list[Result]) -> list[str]:
    failed = [one for one in results if one.failure]
    return [f"FAILED {one.scenario} {one.seed} {one.fields}: {one.failure}" for one in failed[:20]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.score", description=__doc__)
    parser.add_argument("--seeds", default="0:5", help="FROM:TO, TO not included")
    parser.add_argument("--fields", default=",".join(PROFILES))
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="names, or 'faulty' or 'healthy'")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--analyzer", default=f"{sys.executable} -m llmdoctor", help="command to run (split at blanks)")
    parser.add_argument("--out", type=Path, help="every result as JSON lines, for calibration")
    return parser.parse_args()


def main() -> int:
    args = _arguments()
    groups = {"faulty": [name for name, one in SCENARIOS.items() if one.fault],
              "healthy": [name for name, one in SCENARIOS.items() if one.calm]}  # fmt: skip
    names = groups.get(args.scenarios) or args.scenarios.split(",")
    low, high = (int(part) for part in args.seeds.split(":"))
    fields, analyzer = tuple(args.fields.split(",")), tuple(args.analyzer.split())
    results, empty = list[Result](), list[str]()
    with ProcessPoolExecutor(args.jobs) as pool:
        cases = [(name, seed) for name in names for seed in range(low, high)]
        futures = [pool.submit(run_case, name, seed, args.rows, fields, analyzer) for name, seed in cases]
        for number, ((name, seed), future) in enumerate(zip(cases, futures, strict=True), 1):
            results += future.result()
            if not future.result():
                empty.append(f"{name} {seed}")
            if sys.stderr.isatty():
                print(f"\r{number}/{len(cases)}", end="", file=sys.stderr)
    print(table(results))
    if empty:
        print(f"no case (users felt no difference at any strength): {', '.join(empty)}")
    if args.out:
        args.out.write_text("".join(json.dumps(asdict(one)) + "\n" for one in results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
