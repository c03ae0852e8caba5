"""What moved -> did it work? One level, one sentence and what to do next."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmdoctor.compare import words
from llmdoctor.compare.findings import ABOUT, MEASURED, MEASURED_AS, OF_LOGS, OF_TIMES, RELATIVE, barely
from llmdoctor.compare.speeds import Speed, ratio, speeds
from llmdoctor.compare.values import Change, Level, Other, State, Turn, Turned, Verdict
from llmdoctor.diagnose.blocks import LEAST_ROWS_OF_BLOCKS
from llmdoctor.diagnose.values import SEVERITIES

OF_SIZES = frozenset({"oversized_requests"})
LONGER = "Give longer logs (P95 needs 200 attempts a side, P99 2,000), or compare like stretches with --window."
SEEN = 1.1
"""A tail that moved by less is where it was."""
SAME_PLACE = "Compare logs of one place: those of the same client, gateway, proxy or engine on both sides."


def judge(
    figures: Sequence[Change], findings: Sequence[Turned], changed: Sequence[Other], after_command: str
) -> Verdict:
    """The verdict over everything that moved; `after_command` is how the later side was analyzed."""
    figures = _sized(figures, findings)
    mixed = {one.name for one in figures if one.state == "mix"}
    turns = [
        one
        for one in findings
        if one.id not in OF_LOGS
        and MEASURED_AS.get(one.id) not in mixed
        and not (one.id in OF_TIMES and (mixed or not (one.sure or _agrees(one, figures))))
        and not (one.id in RELATIVE and mixed and one.subject.startswith("model="))
    ]
    good, bad = _any(figures, "better"), _any(figures, "worse")
    # Where the rest got better, or worse, what only stands out from it neither appeared nor went.
    told = turns if good == bad else [one for one in turns if one.id not in RELATIVE]
    good = good or any(_counts(one, "cleared", "better") for one in told)
    bad = bad or any(_counts(one, "appeared", "worse") for one in told)
    level = _level(good, bad, bool(mixed), findings, figures)
    text = " ".join(_text(level, figures, findings, changed))
    return Verdict(level, text, _longer(figures) if level == "undetermined" else _next(level, findings, after_command))


def elsewhere(before: str, after: str) -> Verdict:
    """The verdict where the sides were logged at different places: what one sees, the other need not."""
    return Verdict(
        "undetermined",
        f"These logs cannot be compared: one was written at {before}, the other at {after}, and neither sees what the "
        "other does.",
        SAME_PLACE,
    )


def _longer(figures: Sequence[Change]) -> str:
    """What to do where too little is known: how many attempts would tell, as far as they go on like these."""
    wide = [(one, needed) for one in words.unmoved(figures) if one.unit == "ms" and (needed := _needed(one))]
    if not wide:
        return LONGER if figures else ""
    change, needed = max(wide, key=lambda pair: pair[1])
    return (
        f"About {needed:,} attempts a side would tell a change of the {words.title(change)} by half, if they go on "
        f"like these (now {change.n_before:,} and {change.n_after:,}); or compare like stretches with --window."
    )


def _needed(change: Change) -> int | None:
    """So many attempts a side as the interval needs to end within half and twice as long: its width goes with the root
    of them. None where it is tight, or open."""
    if words.tight(change) or change.low is None or change.high is None or change.low <= -1:
        return None
    reach = max(math.log1p(change.high), -math.log1p(change.low)) / math.log1p(words.WIDE)
    whole = reach**2 * min(change.n_before, change.n_after)
    digits: int = 10 ** max(0, math.floor(math.log10(whole)) - 1)
    return math.ceil(whole / digits) * digits


def _any(figures: Sequence[Change], state: State) -> bool:
    """P99 over P50 decides nothing that its two parts do not."""
    return any(one.state == state and one.unit != "ratio" for one in figures)


def _counts(one: Turned, crossed: Turn, moved: Turn) -> bool:
    own = one.sure or one.elsewhere or one.id not in (MEASURED | RELATIVE) - OF_TIMES
    return one.turn == crossed or (one.turn == moved and own)


def _agrees(one: Turned, figures: Sequence[Change]) -> bool:
    """Whether a tail of what the finding is about went the same way as far as can be seen, or none is known."""
    tails = [f"{ABOUT[one.id]}.{word}" for word in ("p95", "p99")]
    known = [figure for figure in figures if figure.name in tails and figure.before and figure.after]
    less = one.turn in ("cleared", "better")
    moved = [((figure.after or 0) < (figure.before or 0)) == less and ratio(figure) >= SEEN for figure in known]
    return any(moved) or not known


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
        had = [one for one in findings if one.id not in OF_LOGS and words.seen_on(one.before)]
        left = [one for one in had if barely(one) or words.seen_on(one.after)]
        gone = [one for one in had if one.after and one.after.state == "absent"]
        return "partly_fixed" if left else "fixed" if gone else "better"
    if mixed:
        return "mix"
    told = words.unmoved(figures)
    # Where every attempt fails there are no durations.
    timed = any(one.unit == "ms" for one in told) or not any(
        one.unit == "ms" and one.state != "untold" for one in figures
    )
    sure = timed and words.settled(figures) and not any(map(words.is_unsure, findings))
    return "no_change" if told and (sure or _held(findings, told)) else "undetermined"


def _held(findings: Sequence[Turned], told: Sequence[Change]) -> bool:
    """Whether the worst of what was found before is found as well after, in logs of some length: then it is not fixed,
    however uncertain by how much the rest moved."""
    if max(min(one.n_before, one.n_after) for one in told) < LEAST_ROWS_OF_BLOCKS:
        return False
    own = [one for one in findings if one.id not in OF_LOGS]
    had = [(one, SEVERITIES.index(one.before.severity)) for one in own if one.before and words.seen_on(one.before)]
    worst = max((level for _, level in had), default=0)
    return bool(had) and all(words.seen_on(one.after) for one, level in had if level == worst)


def _text(
    level: Level, figures: Sequence[Change], findings: Sequence[Turned], changed: Sequence[Other]
) -> Iterator[str]:
    if level in ("no_change", "undetermined"):
        yield words.of_unmoved(level, figures, findings)
    elif level == "mix":
        yield words.of_mix(figures, changed)
    else:
        yield words.of_moved(level, _lead(figures, findings), figures, findings)
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
    left = [one for one in findings if words.seen_on(one.after)]
    first = next(iter((*bad, *left)), None)
    cause = f"{first.id}: {first.cause_after}. " if first and first.cause_after else ""
    return f"{cause}{after_command} --verbose"
