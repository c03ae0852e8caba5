"""What every output of a comparison shows alike: names, figures and the words for what became of them."""

from dataclasses import dataclass

from llmdoctor.compare.values import Change, Comparison, EqualMix, Seen, Source, Turned
from llmdoctor.diagnose.values import Baseline
from llmdoctor.report import figures
from llmdoctor.report.view import SHAPES

LEVELS = {
    "fixed": "Fixed",
    "partly_fixed": "Partly fixed",
    "better": "Better",
    "no_change": "No change",
    "mix": "Other requests",
    "traded": "Traded",
    "regression": "Regression",
    "undetermined": "Undetermined",
}
# The look of a level: that of a report's level.
LOOKS = {
    "fixed": "healthy",
    "better": "healthy",
    "partly_fixed": "attention",
    "traded": "attention",
    "regression": "unhealthy",
    "no_change": "undetermined",
    "mix": "undetermined",
    "undetermined": "undetermined",
}
NAMES = {
    "ttft_ms": "TTFT",
    "total_ms": "total",
    "tpot_ms": "TPOT",
    "timeout_share": "timeouts",
    "error_share": "errors",
    "retries_per_task": "retries per task",
    "cost_per_task": "cost per delivered task",
}
QUANTILES = {"p50": "P50", "p95": "P95", "p99": "P99", "p99_over_p50": "P99/P50"}
STATES = {
    "better": "better",
    "worse": "worse",
    "slight": "small",
    "same": "within noise",
    "mix": "the mix",
    "shifted": "shifted",
    "few": "too few",
    "untold": "not known",
}
TURNS = {
    "appeared": "new",
    "worse": "worse",
    "cleared": "gone",
    "better": "better",
    "same": "as before",
    "near": "maybe chance",
    "untold": "cannot tell",
}


@dataclass(frozen=True)
class Row:
    """One line of the table of figures, as text. `state` is the word, `kind` the state itself."""

    name: str
    before: str
    after: str
    change: str
    interval: str
    state: str
    kind: str


def name(change: Change) -> str:
    """ "ttft_ms.p95" -> "TTFT P95"."""
    quantity, _, word = change.name.partition(".")
    return " ".join(part for part in (NAMES.get(quantity, quantity), QUANTILES.get(word, word)) if part)


def rows(comparison: Comparison) -> list[Row]:
    """A line for each figure, and one more where equal mix decides."""
    found = []
    for one in comparison.figures:
        if one.state == "few" and not one.before and not one.after:
            continue
        before, after = _value(one.before, one), _value(one.after, one)
        interval = _interval(one.low, one.high, one)
        mixed = one.equal_mix if one.equal_mix and _differs(one, one.equal_mix) else None
        state = "" if mixed else STATES[one.state]
        found.append(Row(name(one), before, after, _step(one.change, one), interval, state, one.state))
        if mixed:
            found.append(_equal(one, mixed))
    return found


def _differs(one: Change, mix: EqualMix) -> bool:
    """Whether equal mix is worth a line: ten points from the change of all requests, or another answer."""
    return mix.decides and (one.state == "mix" or abs(mix.change - (one.change or 0.0)) >= 0.1)


def _equal(one: Change, mix: EqualMix) -> Row:
    before, after = _value(mix.before, one), _value(mix.after, one)
    step, interval = _step(mix.change, one), _interval(mix.low, mix.high, one)
    return Row("  at equal mix", before, after, step, interval, STATES[one.state], one.state)


def _value(value: float | None, one: Change) -> str:
    if value is None:
        return "?"
    return f"${figures.number(value)}" if one.unit == "USD" else figures.measure(value, one.unit)


def _step(value: float | None, one: Change) -> str:
    """A change: in percent, of shares in points, of counts as it is."""
    if value is None:
        return ""
    if one.unit == "ratio" or one.relative:
        return f"{signed(100 * value)}{figures.NBSP}%"
    return f"{signed(100 * value)}{figures.NBSP}pt" if one.unit == "share" else signed(value)


def signed(value: float) -> str:
    """+12, -0.3, 0: two digits, or whole from ten on."""
    digits = f"{value:+.0f}" if abs(value) >= 10 else f"{value:+.2g}"
    return "0" if float(digits) == 0 else digits


def _interval(low: float | None, high: float | None, one: Change) -> str:
    if low is None and high is None:
        return ""
    ends = [
        signed(100 * end if one.relative or one.unit == "share" else end) if end is not None else "?"
        for end in (low, high)
    ]
    return " to ".join(ends)


def short(comparison: Comparison) -> Baseline:
    """What a report says of its baseline: the verdict and the figures that moved."""
    moved = [one for one in rows(comparison) if one.kind in ("better", "worse", "mix")]
    return Baseline(
        path=comparison.before.path,
        level=comparison.verdict.level,
        text=comparison.verdict.text,
        warnings=comparison.warnings,
        figures=tuple((one.name, one.before, one.after, one.change, one.state) for one in moved),
    )


def side(source: Source) -> str:
    """What was compared: path, how many requests, seen where, when."""
    parts = [figures.line(source.path)]
    if source.n is not None:
        parts.append(figures.plural(source.n, "request"))
    if source.vantage:
        parts.append(f"at {figures.line(source.vantage)}")
    if window := figures.span(source.window_from, source.window_to):
        parts.append(window)
    return ", ".join(parts)


def seen(one: Seen | None, unit: str) -> str:
    """A finding on one side: what was observed, and how many were affected."""
    if one is None or one.state not in ("present", "absent"):
        return "not known" if one is None or one.state != "suppressed" else "suppressed"
    parts = [figures.limit(one.observed, unit)] if one.observed is not None else []
    if one.affected is not None and one.total:
        parts.append(f"{one.affected:,}/{one.total:,}")
    return ", ".join(parts) or one.state


def severity(one: Turned) -> str:
    """The worse of both sides, with its shape."""
    level = max(
        (side.severity for side in (one.before, one.after) if side and side.state == "present"),
        key=list(SHAPES)[::-1].index,
    )
    return f"{SHAPES[level]} {level}"
