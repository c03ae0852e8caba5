"""What moved -> did it work? One level, one sentence and what to do next."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmdoctor.compare import words
from llmdoctor.compare.speeds import Speed, speeds
from llmdoctor.compare.values import Change, Level, Other, State, Turn, Turned, Verdict
from llmdoctor.diagnose.values import SEVERITIES

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
# About the log itself, or its course: none of them is mended by a change of the service.
OF_LOGS = frozenset({"log_gaps", "clock_skew", "missing_usage", "exposed_secrets", "latency_shift"})
OF_SIZES = frozenset({"oversized_requests"})
WIDE = 1.0
"""An interval that reaches to twice as long, or to half, tells nothing."""
LONGER = "Give longer logs (P95 needs 200 attempts a side, P99 2,000), or compare like stretches with --window."


def judge(
    figures: Sequence[Change], findings: Sequence[Turned], changed: Sequence[Other], after_command: str
) -> Verdict:
    """The verdict over everything that moved; `after_command` is how the later side was analyzed."""
    figures = _sized(figures, findings)
    mixed = any(one.state == "mix" for one in figures)
    turns = [
        one
        for one in findings
        if one.id not in OF_LOGS and not (one.id in OF_TIMES and (mixed or _seen_by_figure(one, figures)))
    ]
    good = _any(figures, "better") or any(_counts(one, "cleared", "better") for one in turns)
    bad = _any(figures, "worse") or any(_counts(one, "appeared", "worse") for one in turns)
    level = _level(good, bad, mixed, findings, figures)
    text = " ".join(_text(level, figures, findings, changed))
    longer = LONGER if figures else ""
    return Verdict(level, text, longer if level == "undetermined" else _next(level, findings, after_command))


def _any(figures: Sequence[Change], state: State) -> bool:
    """P99 over P50 decides nothing that its two parts do not."""
    return any(one.state == state and one.unit != "ratio" for one in figures)


def _counts(one: Turned, crossed: Turn, moved: Turn) -> bool:
    return one.turn == crossed or (one.turn == moved and one.id not in MEASURED)


def _seen_by_figure(one: Turned, figures: Sequence[Change]) -> bool:
    """Whether so many attempts are affected that a P95 tells of them, with an interval; and that one did not move."""
    sides = [side for side in (one.before, one.after) if side and side.total and side.affected is not None]
    share = max(((side.affected or 0) / (side.total or 1) for side in sides), default=0.0)
    name = f"{ABOUT[one.id]}.p95"
    return share > 0.05 and any(figure.name == name and figure.state in ("same", "slight") for figure in figures)


def _sized(figures: Sequence[Change], findings: Sequence[Turned]) -> list[Change]:
    """Where answers had been too long and are no longer, shorter answers are the fix, not another mix; and the other
    way round."""
    states: dict[Turn, State] = {"cleared": "better", "better": "better", "appeared": "worse", "worse": "worse"}
    state = next((states[one.turn] for one in findings if one.id in OF_SIZES and one.turn in states), None)
    return [
        replace(one, state=state)
        if state and one.state == "mix" and ((one.change or 0) > 0) == (state == "worse")
        else one
        for one in figures
    ]


def _level(good: bool, bad: bool, mixed: bool, findings: Sequence[Turned], figures: Sequence[Change]) -> Level:
    if good and bad:
        return "traded"
    if bad:
        return "regression"
    if good:
        had = [one for one in findings if one.id not in OF_LOGS and one.before and one.before.state == "present"]
        left = [one for one in had if one.after and one.after.state == "present"]
        return "partly_fixed" if left else "fixed" if had else "better"
    if mixed:
        return "mix"
    told = [one for one in figures if one.unit in ("ms", "share") and one.state in ("same", "slight")]
    sure = any(one.unit == "ms" for one in told) and all(map(_tight, told))
    return "no_change" if sure else "undetermined"


def _tight(change: Change) -> bool:
    """Whether a change that matters would have been seen."""
    if change.low is None or change.high is None:
        return False
    if not change.relative:
        return abs(change.change or 0.0) < words.POINTS
    return change.high < WIDE and change.low > -WIDE / 2


def _text(
    level: Level, figures: Sequence[Change], findings: Sequence[Turned], changed: Sequence[Other]
) -> Iterator[str]:
    if level in ("no_change", "undetermined"):
        yield words.of_unmoved(level, figures)
    elif level == "mix":
        yield words.of_mix(figures, changed)
    else:
        yield words.of_moved(level, _lead(figures, findings), figures)
    yield from words.of_findings(level, findings)


def _lead(figures: Sequence[Change], findings: Sequence[Turned]) -> Speed | None:
    """The quantity to tell of: that of the worst finding which moved, else the one that moved most."""
    moved = [one for one in speeds(figures) if one.moved]
    turns = sorted(
        (one for one in findings if one.id in ABOUT and one.turn not in ("near", "untold", "same")),
        key=lambda one: -max(SEVERITIES.index(seen.severity) for seen in (one.before, one.after) if seen),
    )
    about = ABOUT[turns[0].id] if turns else None
    return next((one for one in moved if one.name == about), max(moved, key=Speed.size, default=None))


def _next(level: Level, findings: Sequence[Turned], after_command: str) -> str:
    if level not in ("regression", "traded", "partly_fixed"):
        return ""
    bad = [one for one in findings if one.turn in ("appeared", "worse")]
    left = [one for one in findings if one.after and one.after.state == "present"]
    first = next(iter((*bad, *left)), None)
    cause = f"{first.id}: {first.cause_after}. " if first and first.cause_after else ""
    return f"{cause}{after_command} --verbose"
