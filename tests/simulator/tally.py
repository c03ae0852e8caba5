"""Results -> what is printed: per cause and profile, macro averages, confusion, reliability, false alarms, pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import sqrt

from tests.simulator.cases import SCENARIOS, SINGLE
from tests.simulator.log import PROFILES
from tests.simulator.results import Result

Sure = Callable[[Result, str, float], float]  # the confidence of a cause with a raw score
EDGES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)


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


def groups(results: Sequence[Result]) -> Iterable[tuple[str, str, list[Result]]]:
    """By scenario and profile, in the order of the catalogue."""
    for name in SCENARIOS:
        for fields in PROFILES:
            group = [one for one in results if (one.scenario, one.fields) == (name, fields)]
            if group:
                yield name, fields, group


def top(group: Sequence[Result], places: int) -> float:
    """Share of cases with a right cause in the first places."""
    return sum((rank := one.rank()) is not None and rank <= places for one in group) / len(group)


def macro(results: Sequence[Result], fields: str, places: int = 1) -> float:
    """Mean over the causes that this profile can tell of the share of cases with a right cause in the first places."""
    shares = [top(group, places) for name, which, group in groups(results)
              if name in SINGLE and which == fields and not group[0].hidden]  # fmt: skip
    return sum(shares) / len(shares) if shares else 0.0


def table(results: Sequence[Result]) -> str:
    """Every scenario of one fault and every healthy one, then the means."""
    lines = [f"{'scenario':26}{'fields':10}{'n':>3} {'top-1':>5} {'top-3':>5} {'slice':>6}  instead, at rank 1"]
    lines += [_fault_line(*one) for one in groups(results) if one[0] in SINGLE]
    healthy = [one for one in groups(results) if one[2][0].causes == ()]
    lines += ["", f"{'healthy':30}{'fields':10}{'n':>3} alarms  named"]
    for name, fields, group in healthy:
        named = Counter(what for one in group for what in {*(cause.id for cause in one.listed), *one.alarms})
        lines.append(f"{name:30}{fields:10}{len(group):>3} {sum(one.alarmed for one in group):>6}  {counted(named)}")
    return "\n".join([*lines, "", *overall(results), *_failures(results)])


def _fault_line(name: str, fields: str, group: list[Result]) -> str:
    sliced = [one for one in group if one.subject]
    right = sum(any(found.id in one.causes and found.subject == one.subject for found in one.listed) for one in sliced)
    wrong = Counter(_instead(one) for one in group if one.rank() != 1)
    slices = f"{right}/{len(sliced)}" if sliced else "-"
    mark = " (hidden)" if group[0].hidden else ""
    return (
        f"{name:26}{fields:10}{len(group):>3} {top(group, 1):5.2f} {top(group, 3):5.2f} {slices:>6}  "
        f"{counted(wrong)}{mark}"
    )


def _instead(one: Result) -> str:
    """What stood first; "true too" where it is right in its way."""
    if one.first is None:
        return f"nothing ({one.failure or one.verdict})"
    return f"{one.first} (true too)" if one.true(one.first) else one.first


def counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(names.items(), key=lambda pair: (-pair[1], pair[0])))


def overall(results: Sequence[Result]) -> list[str]:
    """One line per profile."""
    lines = []
    for fields in PROFILES:
        faulty = [one for one in results if one.scenario in SINGLE and one.fields == fields and not one.hidden]
        if not faulty:
            continue
        calm = [one for one in results if not one.causes and one.fields == fields]
        silent = sum(not one.listed for one in faulty)
        firsts = sum(one.rank() == 1 for one in faulty)
        lines.append(
            f"{fields:10} macro top-1 {macro(results, fields):.3f}  top-3 {macro(results, fields, 3):.3f}  "
            f"top-1 {wilson(firsts, len(faulty))}  n {len(faulty)}  nothing named {silent}  "
            f"healthy alarms {sum(one.alarmed for one in calm)}/{len(calm)}"
        )
    return lines


def hidden(results: Sequence[Result]) -> list[str]:
    """Causes that a profile's fields cannot tell: silence is right, another cause is a mistake."""
    group = [one for one in results if one.hidden]
    if not group:
        return []
    named = Counter("right" if one.rank() == 1 else "true too" if one.first and one.true(one.first)
                    else "nothing" if one.first is None else "another cause" for one in group)  # fmt: skip
    return [f"causes that the fields cannot tell: {counted(named)}"]


def pairs(results: Sequence[Result]) -> list[str]:
    """Two faults at once: both in the first three, one of them first."""
    lines = []
    for name, fields, group in groups(results):
        if len(group[0].causes) == 2:
            both, first = sum(case.all_in(3) for case in group), sum(case.rank() == 1 for case in group)
            said = Counter(" > ".join(found.id for found in case.listed[:3]) for case in group if not case.all_in(3))
            lines.append(f"{name:44}{fields:10}{len(group):>3}  both {both}  one first {first}  {counted(said)}")
    for fields in PROFILES:
        cases = [one for one in results if len(one.causes) == 2 and one.fields == fields]
        if cases:
            share = wilson(sum(one.all_in(3) for one in cases), len(cases))
            lines.append(f"{fields:10} both in the first three {share}")
    return lines


def reliability(results: Sequence[Result], sure: Sure) -> list[str]:
    """How often a confidence is right: listings in bins, with the expected calibration error and the Brier score."""
    lines = [f"{'confidence':12}{'fields':10}{'n':>5} {'mean':>5} {'right':>5}   {'first':>5} {'right':>5}"]
    for fields in PROFILES:
        seen = [(sure(one, found.id, found.score), one.true(found.id), place == 0)
                for one in results if one.fields == fields for place, found in enumerate(one.listed)]  # fmt: skip
        if not seen:
            continue
        error = 0.0
        for low, high in pairwise(EDGES):
            inside = [one for one in seen if low <= one[0] < high]
            firsts = [one for one in inside if one[2]]
            if inside:
                mean, right = sum(one[0] for one in inside) / len(inside), sum(one[1] for one in inside) / len(inside)
                error += abs(mean - right) * len(inside) / len(seen)
                first = f"{sum(one[1] for one in firsts) / len(firsts):5.2f}" if firsts else "    -"
                lines.append(f"{low:.1f}-{min(high, 1):.1f}     {fields:10}{len(inside):>5} {mean:5.2f} {right:5.2f}   "
                             f"{len(firsts):>5} {first}")  # fmt: skip
        brier = sum((one[0] - one[1]) ** 2 for one in seen) / len(seen)
        lines.append(f"{'':12}{fields:10} calibration error {error:.3f}  Brier {brier:.3f}")
    return lines


def abstention(results: Sequence[Result], sure: Sure) -> list[str]:
    """Coverage against accuracy of the first cause, where less than a confidence counts as no answer."""
    lines = [f"{'answered from':14}{'fields':10}{'answered':>9} {'right':>6} {'healthy alarms':>15}"]
    for fields in PROFILES:
        faulty = [one for one in results if one.scenario in SINGLE and one.fields == fields and not one.hidden]
        calm = [one for one in results if not one.causes and one.fields == fields]
        for level in (0.0, 0.5, 0.8) if faulty else ():
            said = [one for one in faulty if one.listed and sure(one, one.listed[0].id, one.listed[0].score) >= level]
            right = sum(one.rank() == 1 for one in said) / max(1, len(said))
            loud = sum(any(sure(one, found.id, found.score) >= level for found in one.listed) for one in calm)
            lines.append(f"{level:<14}{fields:10}{len(said) / len(faulty):9.2f} {right:6.2f} {loud:>9}/{len(calm)}")
    return lines


def steadiness(results: Sequence[Result]) -> list[str]:
    """Of each change of the log the share of cases that keep their first cause, and the top-1 that is left."""
    plain = {(one.scenario, one.seed, one.fields): one for one in results if not one.change}
    lines = []
    for change in dict.fromkeys(one.change for one in results if one.change):
        changed = [one for one in results if one.change == change]
        same = sum(one.first == plain[one.scenario, one.seed, one.fields].first for one in changed)
        faulty = [one for one in changed if one.causes and not one.hidden]
        right = sum(one.rank() == 1 for one in faulty)
        before = sum(plain[one.scenario, one.seed, one.fields].rank() == 1 for one in faulty)
        lines.append(f"{change:32} same first cause {wilson(same, len(changed))}  top-1 {right}/{len(faulty)}"
                     f" (unchanged log {before})")  # fmt: skip
        moved = Counter(f"{plain[one.scenario, one.seed, one.fields].first} -> {one.first}" for one in changed
                        if one.first != plain[one.scenario, one.seed, one.fields].first)  # fmt: skip
        if moved:
            lines.append(f"{'':4}{counted(moved)}")
    return lines


def _failures(results: Sequence[Result]) -> list[str]:
    failed = [one for one in results if one.failure]
    return [f"FAILED {one.scenario} {one.seed} {one.fields}: {one.failure}" for one in failed[:20]]
