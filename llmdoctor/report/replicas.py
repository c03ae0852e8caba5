"""The replicas under each other: median and highest latency on the time axis of the timeline, one scale for all."""

from collections.abc import Sequence

from markupsafe import Markup

from llmdoctor.diagnose.pictures import Instance, Instances
from llmdoctor.diagnose.values import Timeline
from llmdoctor.report import figures
from llmdoctor.report.axes import LogScale, label, log_scale, n, path, stretch, svg, time_axis
from llmdoctor.report.timeline import reach, stairs
from llmdoctor.report.view import METRICS

_ROW = 62.0
_HIGH = 36.0


def reading(found: Instances) -> str:
    """Which replica is the slowest and which the fastest, and by how much; where the failures fell."""
    timed = sorted((one.p50_ms, one.instance) for one in found.instances if one.p50_ms is not None)
    told = ""
    if len(timed) > 1:
        (low, fast), (high, slow) = timed[0], timed[-1]
        told = f"The median {METRICS[found.name]} is {figures.duration(low)} at {_name(fast)}"
        told += f" and {figures.duration(high)} at {_name(slow)}"
        told += f", {figures.times(high / low)} as long." if low else "."
    failing = max(found.instances, key=lambda one: (one.failures / max(one.n, 1), one.instance))
    if failing.failures >= 3:
        share = figures.share(failing.failures / failing.n)
        told += f" Most often failed {_name(failing.instance)}: {failing.failures:,} of {failing.n:,} ({share})."
    return told.strip()


def _name(instance: str) -> str:
    return figures.cut(figures.line(instance), 40)


def chart(found: Instances, timeline: Timeline) -> Markup:
    """Empty where nothing was timed."""
    axis = reach(timeline)
    known = [value for one in found.instances for _, *pair in one.columns for value in pair if value is not None]
    if axis is None or not known:
        return Markup("")
    scale = log_scale(known)
    medians = sorted(one.p50_ms for one in found.instances if one.p50_ms is not None)
    usual = medians[(len(medians) - 1) // 2] if medians else None
    share = found.join / len(timeline.bins)
    rows = [_row(one, place * _ROW, scale, usual, share) for place, one in enumerate(found.instances)]
    bottom = len(rows) * _ROW - 4
    parts = [time_axis(*axis, 18, bottom), *rows]
    return svg("replicas", bottom + 22, "Latency of each replica over time", reading(found), parts)


def _row(one: Instance, top: float, scale: LogScale, usual: float | None, share: float) -> Markup:
    """Share: of the time axis that one column takes."""

    def place(value: float) -> float:
        return _HIGH * (1 - scale.share(value))

    step = share * 1000
    peaks = "".join(
        f"M{n(number * step)} {n(place(highest))}h{n(step)}V{n(place(p50))}h-{n(step)}z"
        for number, (_, p50, highest) in enumerate(one.columns)
        if p50 is not None and highest is not None
    )
    drawn = path("spread", peaks) + path("p50", stairs([p50 for _, p50, _ in one.columns], place, step))
    if usual is not None:
        drawn = path("mark", f"M0 {n(place(usual))}H1000") + drawn
    failed = f", {one.failures:,} failed" if one.failures else ""
    told = f"P50 {figures.duration(one.p50_ms)}, {one.n:,} attempts{failed}"
    words = label(_name(one.instance), "0", top + 13) + label(told, "100%", top + 13, "value", "end")
    return words + stretch(top + 18, _HIGH, drawn)


def table(found: Instances) -> Sequence[tuple[str, ...]]:
    """Name, attempts, failed, median, highest of each replica."""
    rows = []
    for one in found.instances:
        highest = max((high for *_, high in one.columns if high is not None), default=None)
        numbers = (figures.count(one.n), figures.count(one.failures), figures.duration(one.p50_ms))
        rows.append((_name(one.instance), *numbers, figures.duration(highest)))
    return rows
