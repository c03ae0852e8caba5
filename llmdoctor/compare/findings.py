"""What became of the findings: appeared, cleared, better, worse, or near its limit on both sides."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmdoctor.compare import courses
from llmdoctor.compare.numbers import shares_differ
from llmdoctor.compare.sides import Side
from llmdoctor.compare.values import Change, Seen, Turn, Turned
from llmdoctor.diagnose.sample import Sample
from llmdoctor.diagnose.values import SEVERITIES

SURE = 2.2
"""Standard errors between two affected shares from which they differ: some thirty symptoms are looked at together."""
CHANCE = math.erfc(SURE / math.sqrt(2))
FACTOR = 1.25
LEFT = 3.0
"""Of what is still more than a third of what it was, much is left."""
FAR = 2.0
"""What the worst of many shows, and what all of them show, is apart by chance as well."""
CLUSTERED = 2.0
"""Attempts that nothing measures come in clusters: conversations, retries. Tasks do not, and how slow and failed ones
do is seen over blocks of time."""

MEASURED_AS = {
    "client_timeouts": "timeout_share",
    "errors": "error_share",
    "rate_limited": "error_share",
    "retry_storm": "retries_per_task",
}
"""Findings over all attempts whose share is a figure as well: what the figure says, tested by itself with blocks of
time, holds for the finding."""

# The quantity that a finding is about.
ABOUT = {
    "high_ttft": "ttft_ms",
    "long_queue": "ttft_ms",
    "burst_delivery": "ttft_ms",
    "slow_decode": "tpot_ms",
    "tail_latency": "total_ms",
    "slow_overall": "total_ms",
}
# Findings that other requests alone bring about.
OF_TIMES = frozenset({"high_ttft", "tail_latency", "slow_overall", "slow_decode", "long_queue"})
# What a figure measures better than the number of affected attempts: more or less of it is the figure's to say.
MEASURED = OF_TIMES | {"errors", "client_timeouts", "rate_limited", "retry_storm"}
# One part against the rest of the same log: they come and go with the rest.
RELATIVE = frozenset({"uneven_instances", "tail_latency", "slow_overall"})
# About the log itself, or its course: none of them is mended by a change of the service or of its callers.
OF_LOGS = frozenset({"log_gaps", "clock_skew", "exposed_secrets", "latency_shift"})

Plain = Mapping[str, Any]


def turned(before: Side, after: Side, figures: Sequence[Change] = (), vantage: str | None = None) -> tuple[Turned, ...]:
    """Every symptom that is present on a side, with what became of it: the worse ones and those that matter first.
    `figures`: what was compared beside the findings, at `vantage`."""
    keys = dict.fromkeys(
        (one["id"], one["subject"]) for side in (before, after) for one in side.symptoms if one["state"] == "present"
    )
    measured = {one.name: one for one in figures}
    found = [
        _as_measured(_turned(before, after, name, subject, vantage), measured.get(MEASURED_AS.get(name, "")))
        for name, subject in keys
    ]
    order: tuple[Turn, ...] = ("appeared", "worse", "cleared", "better", "same", "near", "untold")
    return tuple(sorted(found, key=lambda one: (order.index(one.turn), -_severity(one), one.id, one.subject)))


def asked(before: Side, after: Side) -> frozenset[str]:
    """The quantities that the findings are about which make a side unhealthy, else those of any: whether they
    are mended is the question."""
    about = {**ABOUT, **MEASURED_AS}
    found = [one for side in (before, after) for one in side.symptoms if one["state"] == "present"]
    measured = [one for one in found if one["id"] in about]
    worst = [one for one in measured if one["severity"] in ("high", "critical")]
    return frozenset(about[one["id"]] for one in worst or measured)


def _severity(one: Turned) -> int:
    return max(SEVERITIES.index(seen.severity) for seen in (one.before, one.after) if seen)


def _turned(before: Side, after: Side, name: str, subject: str, vantage: str | None) -> Turned:
    left, right = _row(before, name, subject), _row(after, name, subject)
    row = next(one for one in (left, right) if one and one["state"] == "present")
    sides = _seen(left), _seen(right)
    samples = before.sample(vantage), after.sample(vantage)
    clustered = max(one.clustered if one else 1.0 for one in samples)
    sure = _by_course(samples, name, sides) if row["subject"] == "all" else None
    least = 1.0 if row.get("counts") == "tasks" or name in MEASURED else CLUSTERED
    # What one place sees, another need not.
    apart = bool(left and right and left["vantage"] and right["vantage"] and left["vantage"] != right["vantage"])
    return Turned(
        id=name,
        title=row["title"],
        subject=subject,
        unit=row["unit"],
        turn="untold" if apart else _turn(*sides, _alike(left, right), max(clustered, least), sure),
        before=sides[0],
        after=sides[1],
        cause_before=_best(before, name, subject),
        cause_after=_best(after, name, subject),
        elsewhere=bool(vantage and row["vantage"] and row["vantage"] != vantage),
        sure=bool(sure),
    )


def _by_course(
    samples: tuple[Sample | None, Sample | None], name: str, sides: tuple[Seen | None, Seen | None]
) -> int | None:
    """1: as many as are affected on either side take longer than before; -1: shorter; 0: neither; None: not known."""
    before, after = samples
    shares = [(seen.affected or 0) / seen.total for seen in sides if seen and seen.total]
    if before is None or after is None or name not in ABOUT or len(shares) < 2:
        return None
    if not before.courses or not after.courses:
        return None
    found = courses.longer(before, after, ABOUT[name], sum(shares) / 2)
    if found is None or found.p_value > CHANCE or (shares[1] > shares[0]) != (found.value > 0):
        # What stands out for its tokens is short or long: its own number tells more than the durations.
        return None if name in RELATIVE else 0
    return 1 if found.value > 0 else -1


def _as_measured(found: Turned, figure: Change | None) -> Turned:
    """The finding, no longer as near its limit where the figure of the same attempts moved beyond noise, and no further
    where that is not so at equal mix. A figure that is 0 on both sides has not seen what was found: proxies try again
    where no caller sees it."""
    if figure is None:
        return found
    if not figure.before and not figure.after:
        return replace(found, elsewhere=True)
    evened = figure.equal_mix is not None and figure.equal_mix.decides and figure.state == "same"
    if evened and found.turn in ("appeared", "cleared"):
        return replace(found, turn="near")
    turns: dict[str, Turn] = {"worse": "appeared", "better": "cleared"}
    settled = found.turn == "near" and found.subject == "all" and figure.state in turns
    return replace(found, turn=turns[figure.state]) if settled and not found.elsewhere else found


def _row(side: Side, name: str, subject: str) -> Plain | None:
    """The row of this subject, else that of all: a symptom that nobody shows is judged for all at once. That of another
    subject tells nothing of this one, except for all of them."""
    own = [one for one in side.symptoms if one["id"] == name]
    named = next((one for wanted in (subject, "all") for one in own if one["subject"] == wanted), None)
    return named or (own[0] if own and subject == "all" else None)


def _seen(row: Plain | None) -> Seen | None:
    if row is None:
        return None
    severity = next((level for level in SEVERITIES if level == row["severity"]), SEVERITIES[0])
    return Seen(row["state"], severity, row["observed"], row["affected"], row["total"], row.get("expected"))


def _best(side: Side, name: str, subject: str) -> str | None:
    own = [one for one in side.causes if (one["symptom"], one["subject"]) == (name, subject)]
    more = [one for one in side.causes if name in one["explains"] and one["subject"] in (subject, "all")]
    return next((str(one["title"]) for one in (*own, *more)), None)


def _alike(left: Plain | None, right: Plain | None) -> bool:
    """Whether both sides tell of the same subject, so that their counts compare."""
    return bool(left and right and left["subject"] == right["subject"])


def _turn(before: Seen | None, after: Seen | None, alike: bool, clustered: float, sure: int | None) -> Turn:
    if not (before and after and {before.state, after.state} <= {"present", "absent"}):
        return "untold"
    moved = _moved(before, after, alike, clustered) if sure is None else sure
    if before.state == after.state:
        return "same" if moved == 0 else "worse" if moved > 0 else "better"
    if before.state == "absent":
        return "appeared" if moved > 0 else "near"
    return "cleared" if moved < 0 else "near"


def _moved(before: Seen, after: Seen, alike: bool, clustered: float) -> int:
    """1: more than before, beyond noise; -1: less; 0: neither. By the affected attempts, and where the sides do not
    tell of the same subject, what was observed must have moved with them."""
    observed = _by_observed(before, after, FACTOR if alike else FAR)
    if alike and _counted(before) and _counted(after):
        counts = _by_counts(before, after, clustered)
        # More that are affected less tell neither.
        return 0 if counts * observed < 0 else counts
    named = before if before.state == "present" else after
    if not _counted(named):
        return observed
    # One side does not name the subject: at most all that it has were of it, of about as many attempts.
    other = after if named is before else before
    share = (other.affected or 0) / other.total if other.total else 0.0
    none = replace(named, affected=round(share * (named.total or 0)))
    counts = _by_counts(named, none, clustered) if named is before else _by_counts(none, named, clustered)
    return counts if counts == observed else 0


def barely(one: Turned) -> bool:
    """Whether what is gone only just keeps its limit, and more than a third of it is left: a little more and it is
    found again."""
    if one.id in RELATIVE or not (one.before and one.after):
        return False
    if one.turn not in ("cleared", "near") or one.after.state == "present":
        return False
    # A limit that follows the rest of its log is held to the stricter one.
    before, after = one.before.observed, one.after.observed
    limit = min((side.expected for side in (one.before, one.after) if side.expected), default=None)
    if not (before and after and limit):
        return False
    return FACTOR * after > limit and LEFT * after > before


def _counted(seen: Seen) -> bool:
    return bool(seen.total) and seen.affected is not None


def _by_counts(before: Seen, after: Seen, clustered: float) -> int:
    counts = [(seen.affected or 0, seen.total or 1) for seen in (before, after)]
    low, high = sorted(affected / total for affected, total in counts)
    apart = shares_differ(counts[0], counts[1], clustered)
    sure = abs(apart) >= SURE
    return (1 if apart > 0 else -1) if high >= FACTOR * low and sure else 0


def _by_observed(before: Seen, after: Seen, factor: float) -> int:
    """Without an interval; where a side observed nothing, that it crossed its limit must do."""
    if before.observed is None or after.observed is None:
        return 1 if after.state == "present" else -1
    low, high = sorted((abs(before.observed), abs(after.observed)))
    return 0 if high < factor * low or high == low else 1 if abs(after.observed) == high else -1
