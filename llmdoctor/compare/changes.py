"""Two samples -> what moved: each figure on both sides, its change, and whether that is beyond noise."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from llmdoctor.compare import courses, curves
from llmdoctor.compare.mix import Even, even
from llmdoctor.compare.numbers import Difference, Estimate, beyond_noise, difference
from llmdoctor.compare.values import Change, EqualMix, State
from llmdoctor.diagnose.sample import Curve, Figure, Sample
from llmdoctor.diagnose.values import six

CHANCE = 0.02
"""At most so many of what is called changed are chance."""
ASKED = 0.05
"""The same of what is asked first: that is little, and not to see it costs more."""
FELT = frozenset({"total_ms"})
MIX_FROM = math.log(1.05)
"""What the mix changes by less is not told apart: durations within a kind are known no better."""


@dataclass(frozen=True)
class Measure:
    """A figure that is compared. `least_rows` on each side: ten beyond a P95, twenty beyond a P99. What counts as a
    change at all: a factor (one service is a tenth quicker or slower from one hour to another, of which a log of
    minutes shows nothing: of 100 pairs of such hours 94 differ by less than 1.3), and a difference in its own unit
    (50 ms are felt by nobody)."""

    name: str
    unit: str
    relative: bool
    least_rows: int
    least_factor: float
    least_step: float


MEASURES = (
    *(
        Measure(f"{name}.{word}", "ms", True, rows, courses.LONGER, step)
        for name, step in (("ttft_ms", 50.0), ("total_ms", 50.0), ("tpot_ms", 2.0))
        for word, rows in (("p50", 6), ("p95", 200), ("p99", 2000))
        if (name, word) != ("tpot_ms", "p99")
    ),
    Measure("timeout_share", "share", False, 6, 1.25, 0.005),
    Measure("error_share", "share", False, 6, 1.25, 0.005),
    Measure("retries_per_task", "count", False, 64, 1.25, 0.05),
    Measure("cost_per_task", "USD", True, 64, 1.1, 0.0),
)
SPREADS = (("ttft_ms.p99", "ttft_ms.p50"), ("total_ms.p99", "total_ms.p50"))


@dataclass(frozen=True)
class _Judged:
    """A change before all are judged together: the difference that decides, and what it is without the mix."""

    change: Change
    measure: Measure
    raw: Difference | None = None
    equal: Difference | None = None

    @property
    def quantity(self) -> str:
        """What it is a figure of."""
        return self.measure.name.partition(".")[0]

    @property
    def decides(self) -> Difference | None:
        return self.equal or self.raw


def changes(before: Sample, after: Sample, asked: Collection[str] = ()) -> tuple[Change, ...]:
    """Every figure that at least one side has. Those beyond noise are found together: of twenty figures one would look
    changed by chance. What a finding is about (`asked`, the quantities), or what users wait for, is asked first, and by
    itself."""
    judged = list(_each(before, after))
    first = asked or FELT
    limits = {False: _limit(judged, CHANCE), True: _limit([one for one in judged if one.quantity in first], ASKED)}
    settled = [_settled(one, max(limits[False], limits[one.quantity in first])) for one in judged]
    found = [replace(one, state=_beside(one, settled, before, after)) for one in settled]
    return tuple(_with_spreads(found, before, after))


def _limit(judged: Sequence[_Judged], chance: float) -> float:
    return beyond_noise([one.p_value for judge in judged for one in (judge.decides, judge.raw) if one], chance)


def _each(before: Sample, after: Sample) -> Iterator[_Judged]:
    left, right = ({one.name: one for one in sample.figures} for sample in (before, after))
    for measure in MEASURES:
        one, other = left.get(measure.name), right.get(measure.name)
        if one or other:
            known = one and other and one.value is not None and other.value is not None
            values = (one.value or 0.0, other.value or 0.0) if one and other else (0.0, 0.0)
            mix = even(before, after, measure.name, values) if known else None
            yield _judge(measure, one, other, mix, (before, after))


def _curve(side: Sample, figure: str) -> Curve | None:
    return next((one for one in side.curves if one.name == figure.partition(".")[0]), None)


def _judge(
    measure: Measure, one: Figure | None, other: Figure | None, mix: Even | None, samples: tuple[Sample, Sample]
) -> _Judged:
    both = [_curve(sample, measure.name) for sample in samples]
    plain = Change(
        measure.name,
        measure.unit,
        one.value if one else None,
        other.value if other else None,
        one.n if one else 0,
        other.n if other else 0,
        measure.relative,
        *(None, None, None, "untold"),
    )
    if one is None or other is None or one.value is None or other.value is None:
        reason = f"not known {'after' if other is None or other.value is None else 'before'}"
        return _Judged(replace(plain, reason=reason), measure)
    sides = _estimate(one, measure.relative), _estimate(other, measure.relative)
    spells = _in_spells(measure, sides, samples)
    if min(one.n, other.n) < measure.least_rows and not (spells and spells.p_value <= ASKED):
        reason = f"{_word(measure)} needs {measure.least_rows:,} attempts a side"
        return _Judged(replace(plain, state="few", reason=reason), measure)
    whole = None if min(one.n, other.n) < measure.least_rows else _difference(measure, sides, both, (0.0, 0.0))
    raw = min((found for found in (whole, spells) if found), key=lambda found: found.p_value)
    change, low, high = _ends(raw, measure.relative)
    plain = replace(plain, change=change, low=low, high=high)
    equal = _equal(measure, sides, raw, mix, both)
    if equal is None:
        return _Judged(plain, measure, raw)
    found, told = equal
    return _Judged(replace(plain, equal_mix=told), measure, raw, found if told.decides else None)


def _difference(
    measure: Measure,
    sides: tuple[Estimate, Estimate],
    both: Sequence[Curve | None],
    by: tuple[float, float],
    stretch: float = 1.0,
) -> Difference:
    """By the curves where both sides keep them, moved `by` so much of a logarithm, else by the ends of both values."""
    word = measure.name.partition(".")[2]
    spreads = [curves.spread(curve, word, move) if curve else None for curve, move in zip(both, by, strict=True)]
    one, other = spreads
    found = curves.moved(one, other, sides[1].value - sides[0].value, stretch) if one and other else None
    return found or difference(*sides, stretch)


def _in_spells(measure: Measure, sides: tuple[Estimate, Estimate], samples: tuple[Sample, Sample]) -> Difference | None:
    """The difference as far as both sides are bad in spells, or all along. A duration is long from the middle of both
    values on."""
    name = measure.name.partition(".")[0]
    before, after = (next((one for one in sample.courses if one.name == name), None) for sample in samples)
    if before is None or after is None:
        return None
    at = math.exp((sides[0].value + sides[1].value) / 2) if before.grids else None
    return courses.moved(before, after, sides[1].value - sides[0].value, at)


def _estimate(figure: Figure, relative: bool) -> Estimate:
    plain = Estimate(figure.value or 0.0, figure.low, figure.high)
    return plain.logarithm() if relative else plain


def _word(measure: Measure) -> str:
    return measure.name.rpartition(".")[2].upper() if "." in measure.name else "this"


def _ends(found: Difference, relative: bool) -> tuple[float | None, float | None, float | None]:
    """A difference and its interval as they are told: of logarithms as a relative change."""
    ends = (found.value, found.low, found.high)
    change, low, high = (None if one is None else six(math.expm1(one) if relative else one) for one in ends)
    return change, low, high


def _equal(
    measure: Measure, sides: tuple[Estimate, Estimate], raw: Difference, mix: Even | None, both: Sequence[Curve | None]
) -> tuple[Difference, EqualMix] | None:
    """The change at equal mix, its interval as wide as that of all requests, and wider for what weighting costs."""
    if mix is None:
        return None
    first, second = (_moved(*one, measure.relative) for one in zip(sides, (mix.before, mix.after), strict=True))
    by = first.value - sides[0].value, second.value - sides[1].value
    found = _difference(measure, (first, second), both, by, mix.stretch)
    change, low, high = _ends(found, measure.relative)
    decides = abs(found.value - raw.value) >= (MIX_FROM if measure.relative else measure.least_step)
    values = six(mix.before) or 0.0, six(mix.after) or 0.0
    return found, EqualMix(*values, change or 0.0, low, high, six(mix.covered) or 0.0, decides)


def _moved(side: Estimate, value: float, relative: bool) -> Estimate:
    """An estimate (of a logarithm where `relative`) moved to another value, as wide as before."""
    by = (math.log(max(value, 1e-6)) if relative else value) - side.value
    low, high = (None if end is None else end + by for end in (side.low, side.high))
    return Estimate(side.value + by, low, high)


def _settled(judged: _Judged, limit: float) -> Change:
    change, found = judged.change, judged.decides
    if found is None or judged.raw is None:
        return change
    state = _state(judged, found, limit)
    raw = _state(judged, judged.raw, limit)
    if judged.equal and state in ("same", "slight") and raw in ("better", "worse"):
        # The mix made the change where at least half of it is gone with the mix; else nothing is beyond noise.
        state = "mix" if abs(found.value) <= abs(judged.raw.value) / 2 else "same"
    return replace(change, state=state)


def _state(judged: _Judged, found: Difference, limit: float) -> State:
    """All figures are the better the smaller they are."""
    if found.p_value > limit:
        return "same"
    before = (
        judged.change.equal_mix.before if judged.equal and judged.change.equal_mix else judged.change.before
    ) or 0.0
    factor = math.exp(abs(found.value)) if judged.measure.relative else _factor(before, before + found.value)
    step = abs(before * math.expm1(found.value)) if judged.measure.relative else abs(found.value)
    if factor < judged.measure.least_factor or step < judged.measure.least_step:
        return "slight"
    return "worse" if found.value > 0 else "better"


def _factor(one: float, other: float) -> float:
    low, high = sorted((max(one, 0.0), max(other, 0.0)))
    return math.inf if low <= 0 else high / low


TURNED: dict[State, State] = {"better": "worse", "worse": "better"}


def _beside(one: Change, found: Sequence[Change], before: Sample, after: Sample) -> State:
    """The state of a change as it is to be read beside the others.

    What fails leaves the durations, and what takes longest fails first: where fewer fail, durations are longer for no
    service that is slower. They are worse only if they would be with all that failed longest of all.
    A stream that is held back has a late first token and a quick rest; let go, it is the other way round. The pace is
    no better or worse for that where the whole is not."""
    states = {change.name: change.state for change in found}
    opposite = TURNED.get(one.state)
    if opposite is None or one.unit != "ms":
        return one.state
    failed = next((change for change in found if change.name == "error_share"), None)
    if failed and failed.state == opposite:
        lost = failed.before or 0.0, failed.after or 0.0
        return one.state if _longer(one, before, after, lost) else "same"
    firsts, totals = ({states.get(f"{name}.{word}") for word in ("p50", "p95")} for name in ("ttft_ms", "total_ms"))
    held_back = one.name.startswith("tpot_ms") and opposite in firsts and one.state not in totals
    return "shifted" if held_back else one.state


def _longer(change: Change, before: Sample, after: Sample, lost: tuple[float, float]) -> bool:
    """Whether the change is as it seems with the lost ones counted."""
    word = change.name.partition(".")[2]
    sides = []
    for sample, share in zip((before, after), lost, strict=True):
        own = _curve(sample, change.name)
        found = curves.spread(own, word) if own else None
        sides.append(replace(found, lost=share) if found else None)
    one, other = sides
    if one is None or other is None:
        return False
    return curves.direction(one, other) == (1 if change.state == "worse" else -1)


def _with_spreads(found: Sequence[Change], before: Sample, after: Sample) -> Iterator[Change]:
    """P99 over P50 after each P99: what a reader looks for first; it decides nothing that its two parts do not."""
    left, right = ({one.name: one for one in sample.figures} for sample in (before, after))
    for change in found:
        yield change
        for high, low in SPREADS:
            if change.name == high and change.state not in ("few", "untold"):
                sides = [(side.get(high), side.get(low)) for side in (left, right)]
                yield _spread(change, sides)


def _spread(change: Change, sides: Sequence[tuple[Figure | None, Figure | None]]) -> Change:
    name = change.name.replace(".p99", ".p99_over_p50")
    values = [one.value / other.value if one and other and one.value and other.value else None for one, other in sides]
    plain = replace(
        change,
        name=name,
        unit="ratio",
        before=six(values[0]),
        after=six(values[1]),
        change=None,
        low=None,
        high=None,
        equal_mix=None,
    )
    if values[0] is None or values[1] is None:
        return replace(plain, state="untold")
    parts = []
    for high, low in sides:
        if high and low:
            part = difference(_estimate(low, True), _estimate(high, True))
            parts.append(Estimate(part.value, part.low, part.high))
    found = difference(parts[0], parts[1])
    ends = _ends(found, True)
    clear = found.p_value < 0.05 and abs(found.value) >= math.log(1.25)
    state: State = ("worse" if found.value > 0 else "better") if clear else "same"
    return replace(plain, change=ends[0], low=ends[1], high=ends[2], state=state)
