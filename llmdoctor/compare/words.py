"""The sentences of a verdict."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmdoctor.compare.findings import FACTOR, MEASURED, OF_LOGS, RELATIVE, barely
from llmdoctor.compare.numbers import shares_differ
from llmdoctor.compare.speeds import QUANTITIES, Speed, plain, ratio
from llmdoctor.compare.values import Change, Level, Other, Seen, Turned

OTHERS = {
    "timeout_share": ("fewer timeouts", "more timeouts"),
    "error_share": ("fewer errors", "more errors"),
    "retries_per_task": ("fewer retries per task", "more retries per task"),
    "cost_per_task": ("lower cost per delivered task", "higher cost per delivered task"),
}
# How P50 and the tail moved, in the words of those who tune such services.
SENTENCES = {
    ("same", "better"): "the tail is shorter, the typical one as before",
    ("better", "better"): "faster for everybody, not only in the tail",
    ("better", "same"): "the typical one is faster, the tail as before",
    ("worse", "better"): "the tail is shorter and the rest pays for it, as when some are put first",
    ("same", "worse"): "the tail is longer, the typical one as before",
    ("worse", "worse"): "slower for everybody: more load or less room",
    ("worse", "same"): "the typical one is slower, the tail as before",
    ("better", "worse"): "the typical one is faster and the tail longer",
    ("better", "few"): "the typical one is faster; too few for the tail",
    ("worse", "few"): "the typical one is slower; too few for the tail",
    ("few", "better"): "the tail is shorter",
    ("few", "worse"): "the tail is longer",
}
SUBJECTS = {"ttft_ms": "first tokens", "total_ms": "whole answers", "tpot_ms": "each token"}
WIDE = 1.0
"""An interval that reaches to twice as long, or to half, tells nothing."""
POINTS = 0.05
"""A share that moved by so much within noise moved in episodes, too few to tell."""
LEANS = 1.28 / 1.96
UNSURE = 1.645
CLEAR = 2.33 / 1.96
FEW = 0.01
"""Shares below this on both sides break no limit: whether they moved does not matter."""
PARTS = frozenset({"ttft_ms.p50", "ttft_ms.p95", "tpot_ms.p50", "tpot_ms.p95"})
KINDS = ("model", "stream_share", "input_tokens", "output_tokens")


def of_moved(level: Level, lead: Speed | None, figures: Sequence[Change], findings: Sequence[Turned]) -> str:
    """What got better or worse, the speed first."""
    parts = []
    if lead:
        sentence = SENTENCES[lead.states]
        if level == "fixed" and lead.states == ("same", "better"):
            sentence = "the tail is fixed, the typical one as before"
        shown = [one for one in (lead.tail, lead.typical) if one and plain(one) != "few"]
        parts.append(f"{SUBJECTS[lead.name]}: {sentence} ({', '.join(f'{title(one)} {pair(one)}' for one in shown)})")
    for state, place in (("better", 0), ("worse", 1)):
        told = [one for one in figures if one.name in OTHERS and one.state == state]
        parts += [f"{OTHERS[one.name][place]} ({pair(one)})" for one in told]
    text = "; ".join(parts or _of_counts(findings)) or "the findings changed"
    return f"{text[0].upper()}{text[1:]}."


def _of_counts(findings: Sequence[Turned]) -> Iterator[str]:
    """How many requests the findings that moved are about, where no figure says more."""
    turns = {"cleared": "fewer", "better": "fewer", "appeared": "more", "worse": "more"}
    for word in ("fewer", "more"):
        moved = [one for one in findings if turns.get(one.turn) == word and one.id not in OF_LOGS]
        if moved:
            shown = [f"{one.id} ({_of(one.before)} before, {_of(one.after)} after)" for one in moved]
            yield f"{word} requests are affected: {listed(shown)}"


def of_unmoved(level: Level, figures: Sequence[Change], findings: Sequence[Turned]) -> str:
    """Nothing is beyond noise: how large a change could be that was not seen."""
    held = any(one.id not in OF_LOGS and seen_on(one.before) and seen_on(one.after) for one in findings)
    if not figures:
        return "No finding changed, and there are no figures to compare."
    told = unmoved(figures)
    loose = [one for one in told if not tight(one)]
    times = [one for one in told if one.unit == "ms"]
    tails = [one for one in times if one.name.endswith((".p99", ".p95"))]
    known = [one for one in (*tails, *times) if width(one) < math.inf]
    shown = max(loose, key=width, default=None) if level == "undetermined" else next(iter(known), None)
    first = (
        "Too few, or too uneven, to say whether anything changed"
        if level == "undetermined"
        else f"No change beyond noise{', so not fixed' if held else ''}"
    )
    if shown is None:
        return f"{first}."
    if shown.unit == "share":
        return f"{first}: {title(shown)} {pair(shown)}, unevenly over the log."
    low, high = (f"{100 * end:+.0f} %" if end is not None else "" for end in (shown.low, shown.high))
    span = f"{low} to {high}" if low and high else f"{low} or more" if low else f"{high} or less" if high else ""
    equal = " at equal mix" if shown.equal_mix and shown.equal_mix.decides else ""
    return f"{first}: {title(shown)} changed by {span or 'anything at all'}{equal} ({pair(shown)}; 95 % interval)."


def unmoved(figures: Sequence[Change]) -> list[Change]:
    """The figures that say whether nothing changed. What a token takes is in the whole answer, where that is known, and
    a P99 tells what a P95 does, with a fifth of the rows."""
    told = _same(figures)
    names = {one.name for one in told}
    needless = {name.replace(".p95", ".p99") for name in names if name.endswith(".p95")}
    if any(name.startswith("total_ms") for name in names):
        needless |= {name for name in names if name.startswith("tpot_ms")}
    return [one for one in told if one.name not in needless]


def _same(figures: Sequence[Change]) -> list[Change]:
    return [_decided(one) for one in figures if one.state in ("same", "slight") and one.unit in ("ms", "share")]


def _decided(change: Change) -> Change:
    """The change as it is judged: at equal mix where that decides."""
    equal = change.equal_mix
    if equal is None or not equal.decides:
        return change
    return replace(change, before=equal.before, after=equal.after, change=equal.change, low=equal.low, high=equal.high)


def settled(figures: Sequence[Change]) -> bool:
    """Whether nothing that matters can have changed. Where that holds for the first token and for each further one,
    whole answers differ in nothing but their lengths."""
    parts = [one for one in _same(figures) if one.name in PARTS or one.unit == "share"]
    return _settled(unmoved(figures)) or ({one.name for one in parts} >= PARTS and _settled(parts))


def _settled(told: Sequence[Change]) -> bool:
    """Whether a typical duration is tight, and each other figure is tight or, where tails are known, is where it was as
    far as can be seen."""
    typical = [one for one in told if one.name.endswith(".p50")]
    tails = any(one.name.endswith(".p95") for one in told)
    sure = all(tight(one) or (tails and still(one)) for one in told)
    return bool(told) and sure and (any(map(tight, typical)) or not typical)


def still(change: Change) -> bool:
    """Whether it is so near to where it was that the rest of its way would not count as a change."""
    return ratio(change) < FACTOR


def tight(change: Change) -> bool:
    """Whether a change that matters would have been seen: of a duration by half or to twice as long, and nothing
    that matters was all but seen; a share moved little, or by little of itself."""
    if change.state == "slight":
        return True
    if change.low is None or change.high is None:
        return False
    if not change.relative:
        few = max(change.before or 0.0, change.after or 0.0) < FEW
        return few or ratio(change) < FACTOR or (abs(change.change or 0.0) < POINTS and not _leans(change))
    moved, low, high = (math.log1p(max(one, -0.999)) for one in (change.change or 0.0, change.low, change.high))
    clear = abs(moved) > CLEAR * (moved - low if moved > 0 else high - moved) and not still(change)
    return change.high < WIDE and change.low > -WIDE / 2 and not clear


def _leans(change: Change) -> bool:
    """Whether nothing would be so far off only once in five times: too far to say that nothing changed."""
    value, low, high = change.change or 0.0, change.low or 0.0, change.high or 0.0
    reach = value - low if value > 0 else high - value
    return abs(value) > LEANS * reach


def width(change: Change) -> float:
    """How far the interval reaches, on a scale of ratios; infinite where it is open. That of a share by its change."""
    if change.low is None or change.high is None or change.low <= -1:
        return math.inf
    return math.log1p(change.high) - math.log1p(change.low) if change.relative else abs(change.change or 0.0)


def of_mix(figures: Sequence[Change], changed: Sequence[Other]) -> str:
    """Other requests, not another service."""
    shown = max((one for one in figures if one.state == "mix"), key=lambda one: (one.unit == "ms", ratio(one)))
    what = [f"{one.title} {one.before} before, {one.after} after" for one in changed if one.name in KINDS and one.moved]
    equal = shown.equal_mix
    at_equal = (
        f"{said(equal.before, shown.unit)} to {said(equal.after, shown.unit)} at equal mix"
        if equal
        else "not at equal mix"
    )
    told = f"; {'; '.join(what)}" if what else ""
    return (
        f"Only the mix of requests changed, not how fast they are answered ({title(shown)} {pair(shown)}, but "
        f"{at_equal}{told}). If fewer or shorter requests were the fix, it worked."
    )


def of_findings(level: Level, findings: Sequence[Turned]) -> Iterator[str]:
    """Which are gone, new, and still there."""
    just = [one for one in findings if barely(one) and level == "partly_fixed"]
    gone = [one.id for one in findings if one.turn == "cleared" and one not in just]
    new = [one.id for one in findings if one.turn == "appeared"]
    left = [one for one in findings if one.turn != "appeared" and seen_on(one.before) and seen_on(one.after)]
    if gone:
        yield f"Gone: {listed(gone)}."
    if just:
        yield f"Only just within its limit: {listed([_of_limit(one) for one in just])}."
    if new:
        yield f"New: {listed(new)}."
    if left and level in ("partly_fixed", "traded", "better", "fixed", "no_change"):
        yield f"Still there: {listed([_counted(one) for one in left])}."
    lost = [one.id for one in findings if one.turn == "untold" and seen_on(one.before) and one not in left]
    if lost and level in ("partly_fixed", "traded", "better", "fixed"):
        yield f"Cannot be told after: {listed(lost)}."
    rare = [f"{one.id} ({_of(one.before)} before, {_of(one.after)} after)" for one in findings if is_unsure(one)]
    if rare and level == "undetermined":
        yield f"Too few to say whether it moved by chance: {listed(rare)}."


def seen_on(side: Seen | None) -> bool:
    """Whether a side shows the finding."""
    return side is not None and side.state == "present"


def _of_limit(one: Turned) -> str:
    seen = one.after
    return f"{one.id} ({said(seen.observed, one.unit)} of {said(seen.expected, one.unit)})" if seen else one.id


def is_unsure(one: Turned) -> bool:
    """Whether a finding that no figure measures moved within noise, but so far that nobody can say it did not: it is
    seen on one side only, seldom; or it would be so far off less than once in ten times."""
    sides = [side for side in (one.before, one.after) if side and side.affected is not None and side.total]
    if one.turn not in ("near", "same") or one.id in MEASURED | OF_LOGS | RELATIVE or len(sides) < 2:
        return False
    counts = [(side.affected or 0, side.total or 1) for side in sides]
    low, high = sorted(affected / total for affected, total in counts)
    return low == 0 < high < POINTS or (
        high >= FACTOR * low and abs(shares_differ(counts[0], counts[1], 1.0)) >= UNSURE
    )


def _of(seen: Seen | None) -> str:
    return f"{seen.affected or 0:,} of {seen.total or 0:,}" if seen else "not known"


def title(change: Change) -> str:
    """ "ttft_ms.p95" -> "P95 TTFT", "error_share" -> "errors"."""
    name, _, word = change.name.partition(".")
    if name in OTHERS:
        return OTHERS[name][0].partition(" ")[2]
    return f"{word.upper()} {QUANTITIES[name]}"


def pair(change: Change) -> str:
    """Both values."""
    return f"{said(change.before, change.unit)} to {said(change.after, change.unit)}"


def said(value: float | None, unit: str) -> str:
    """A figure in a sentence."""
    if value is None:
        return "not known"
    if unit == "ms":
        return f"{value / 1000:.3g} s" if value >= 999.5 else f"{value:.3g} ms"
    if unit == "share":
        return f"{100 * value:.3g} %"
    return f"{value:.3g}{' USD' if unit == 'USD' else ''}"


def listed(names: Sequence[str]) -> str:
    """At most four, each once."""
    own = list(dict.fromkeys(names))
    return ", ".join(own[:4]) + (f" and {len(own) - 4} more" if len(own) > 4 else "")


def _counted(one: Turned) -> str:
    seen = one.after
    if seen is None or seen.affected is None or not seen.total:
        return one.id
    return f"{one.id} ({seen.affected:,} of {seen.total:,})"
