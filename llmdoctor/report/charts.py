"""Inline SVG: a timeline, and the waterfall of one request.

Positions along the width are per cent, or a nested `<svg>` stretched over it, so that a chart fits a phone and a
printed page while its text keeps its size. Colours are CSS classes of `page.css`, which also knows the dark ones.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from markupsafe import Markup

from llmdoctor.diagnose.values import Bin, Part, Timeline
from llmdoctor.report import figures
from llmdoctor.report.view import Finding

MAX_BINS = 160
MAX_BARS = 8
_WIDE = 1000.0  # units across a stretched drawing
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


def _n(value: float) -> str:
    """A coordinate: at most two decimals, no trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def squeezed(timeline: Timeline) -> Timeline:
    """At most MAX_BINS bins: neighbours are joined, counts added and the highest latencies kept."""
    joined = math.ceil(len(timeline.bins) / MAX_BINS)
    if joined <= 1:
        return timeline
    groups = [timeline.bins[start : start + joined] for start in range(0, len(timeline.bins), joined)]
    return replace(timeline, bin_ms=timeline.bin_ms * joined, bins=tuple(_join(group) for group in groups))


def _join(group: Sequence[Bin]) -> Bin:
    def highest(values: Iterable[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    return replace(
        group[0],
        requests=sum(one.requests for one in group),
        failures=sum(one.failures for one in group),
        retries=sum(one.retries for one in group),
        p50_ttft_ms=highest(one.p50_ttft_ms for one in group),
        p99_ttft_ms=highest(one.p99_ttft_ms for one in group),
        p50_total_ms=highest(one.p50_total_ms for one in group),
        p99_total_ms=highest(one.p99_total_ms for one in group),
        max_in_flight=max((one.max_in_flight for one in group if one.max_in_flight is not None), default=None),
    )


def latency_name(timeline: Timeline) -> str:
    """Which latency the chart draws: TTFT where any bin has one, else the total."""
    return "TTFT" if any(one.p50_ttft_ms is not None for one in timeline.bins) else "total"


def latencies(timeline: Timeline, one: Bin) -> tuple[float | None, float | None]:
    """P50 and P99 of that latency in one bin, milliseconds."""
    if latency_name(timeline) == "TTFT":
        return one.p50_ttft_ms, one.p99_ttft_ms
    return one.p50_total_ms, one.p99_total_ms


def timeline_chart(timeline: Timeline, findings: Sequence[Finding]) -> Markup:
    """Requests and failures, P50 and P99, and findings as bars, over one time axis. Empty where nothing has a time."""
    timeline = squeezed(timeline)
    start = figures.moment(timeline.bins[0].at) if timeline.bins else None
    if start is None or timeline.bin_ms <= 0:
        return Markup("")
    whole = timedelta(milliseconds=timeline.bin_ms * len(timeline.bins))
    parts = [_title(timeline), _counts(timeline, 16, 56)]
    pairs = [latencies(timeline, one) for one in timeline.bins]
    parts.append(_lines(pairs, latency_name(timeline), 112, 112))
    bottom, bars = _bars(findings, start, whole, 248)
    parts.append(bars)
    parts.insert(1, _axis(start, whole, 16, bottom))
    parts.append(_hover(timeline, bottom))
    return _svg("timeline", bottom + 22, parts)


def _svg(name: str, height: float, parts: Iterable[Markup]) -> Markup:
    body = Markup("\n").join(part for part in parts if part)
    labels = Markup('aria-labelledby="{0}-title {0}-desc"').format(name)
    return Markup('<svg class="chart" role="img" {} width="100%" height="{}">\n{}\n</svg>').format(
        labels, _n(height), body
    )


def _title(timeline: Timeline) -> Markup:
    bins = timeline.bins
    highest = max((p99 for one in bins if (p99 := latencies(timeline, one)[1]) is not None), default=None)
    text = (
        f"{sum(one.requests for one in bins):,} requests in {len(bins)} steps of {figures.duration(timeline.bin_ms)},"
        f" {sum(one.failures for one in bins):,} failures; highest P99 {latency_name(timeline)}"
        f" {figures.duration(highest)}. The numbers stand in the table below."
    )
    return Markup(
        '<title id="timeline-title">Requests, failures, latency and findings over time</title>'
        '<desc id="timeline-desc">{}</desc>'
    ).format(text)


def _label(text: str, x: str, y: float, css: str = "label", anchor: str = "start") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(css, x, _n(y), anchor, text)


def _stretch(top: float, height: float, body: Markup) -> Markup:
    """A drawing in units of 0 to 1000 across, stretched over the width, lines as thick as elsewhere."""
    return Markup(
        '<svg y="{}" width="100%" height="{}" viewBox="0 0 1000 {}" preserveAspectRatio="none">{}</svg>'
    ).format(_n(top), _n(height), _n(height), body)


def _counts(timeline: Timeline, top: float, height: float) -> Markup:
    bins = timeline.bins
    highest = max((one.requests for one in bins), default=0) or 1
    step = _WIDE / len(bins)

    def towers(values: Sequence[int], css: str) -> Markup:
        path = [
            f"M{_n(number * step)} {_n(height)}v{_n(-height * value / highest)}h{_n(step * 0.9)}"
            f"v{_n(height * value / highest)}z"
            for number, value in enumerate(values)
            if value
        ]
        return Markup('<path class="{}" d="{}"/>').format(css, "".join(path)) if path else Markup("")

    drawn = towers([one.requests for one in bins], "requests") + towers([one.failures for one in bins], "failures")
    text = f"Requests per {figures.duration(timeline.bin_ms)}, at most {highest:,}"
    failed = sum(one.failures for one in bins)
    label = _label(text, "0", top - 5)
    if failed:
        label += _label(f"failed: {failed:,}", "100%", top - 5, "label bad", "end")
    return label + _stretch(top, height, drawn)


def _scale(values: Sequence[float], height: float) -> tuple[Callable[[float], float], list[float], bool]:
    """Value -> y, the values of grid lines, and whether the scale is logarithmic (where the range asks for it)."""
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low > 20
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high * 1.0001))
        grid = [10.0**power for power in range(first, last + 1)]
        return (lambda value: height - height * (math.log10(value) - first) / (last - first)), grid, True
    rough = (high or 1) / 2
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    top = step * math.ceil((high or 1) / step)
    grid = [step * number for number in range(round(top / step) + 1)]
    return (lambda value: height - height * max(value, 0) / top), grid, False


def _lines(pairs: Sequence[tuple[float | None, float | None]], name: str, top: float, height: float) -> Markup:
    known = [value for pair in pairs for value in pair if value is not None]
    if not known:
        return _label(f"{name}: not known", "0", top + 12)
    place, grid, logarithmic = _scale(known, height)
    step = _WIDE / len(pairs)
    body = Markup("").join(Markup('<path class="grid" d="M0 {0}H1000"/>').format(_n(place(value))) for value in grid)
    marks = Markup("").join(
        _label(figures.duration(value), "0", top + place(value) - 4, "tick") for value in grid if value
    )
    for index, css in ((0, "p50"), (1, "p99")):
        path, open_line = [], False
        for number, pair in enumerate(pairs):
            value = pair[index]
            if value is not None:
                path.append(f"{'V' if open_line else f'M{_n(number * step)} '}{_n(place(value))}h{_n(step)}")
            open_line = value is not None
        body += Markup('<path class="{}" d="{}"/>').format(css, "".join(path))
    highest = max((pair[1] for pair in pairs if pair[1] is not None), default=None)
    scale = " (logarithmic scale)" if logarithmic else ""
    words = f"{name}{scale}" + ("" if highest is None else f", highest P99 {figures.duration(highest)}")
    legend = Markup(
        '<text class="label" x="0" y="{}">{}<tspan class="key99" dx="6">━ P99</tspan>'
        '<tspan class="key50" dx="8">━ P50</tspan></text>'
    ).format(_n(top - 20), words)
    return legend + _stretch(top, height, body) + marks


def _bars(findings: Sequence[Finding], start: datetime, whole: timedelta, top: float) -> tuple[float, Markup]:
    """The findings that have a time, one above the other; returns where they end."""
    drawn: list[Markup] = []
    timed = [finding for finding in findings if figures.moment(finding.symptom.first_at)]
    for finding in timed[:MAX_BARS]:
        symptom = finding.symptom
        first = figures.moment(symptom.first_at) or start
        last = figures.moment(symptom.last_at) or first
        left = min(max((first - start) / whole, 0.0), 1.0) * 100
        right = min(max((last - start) / whole, 0.0), 1.0) * 100
        left = min(left, 99.3)
        drawn.append(
            Markup('<rect class="bar {}" x="{}%" y="{}" width="{}%" height="7" rx="2"/>').format(
                symptom.severity, _n(left), _n(top + 5), _n(max(right - left, 0.7))
            )
        )
        # At the left edge, not at the bar: there it fits whatever the width.
        who = "" if symptom.subject == "all" else f" ({figures.cut(figures.line(symptom.subject), 30)})"
        name = Markup('{}<tspan class="wide">{}</tspan>').format(
            f"{finding.number} {figures.cut(figures.line(symptom.title), 46)}", who
        )
        drawn.append(_label(name, "0", top))
        top += 27
    if len(timed) > MAX_BARS:
        drawn.append(_label(f"and {len(timed) - MAX_BARS:,} more findings", "0", top))
        top += 16
    return top - 4, Markup("\n").join(drawn)


def _axis(start: datetime, whole: timedelta, top: float, bottom: float) -> Markup:
    seconds = whole.total_seconds()
    step = next((size for size in _STEPS if seconds / size <= 6), math.ceil(seconds / 6 / 86400) * 86400)
    form = "%m-%d" if step >= 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    tick = midnight + timedelta(seconds=math.ceil((start - midnight).total_seconds() / step) * step)
    drawn, ticks = [], 0
    while tick <= start + whole:
        place = (tick - start) / whole * 100
        anchor = "start" if place < 4 else "end" if place > 94 else "middle"
        line = Markup('<line class="when" x1="{0}%" x2="{0}%" y1="{1}" y2="{2}"/>').format(
            _n(place), _n(top), _n(bottom + 4)
        )
        css = "tick" if ticks % 2 == 0 else "tick wide"
        drawn.append(line + _label(f"{tick:{form}}", f"{_n(place)}%", bottom + 17, css, anchor))
        tick, ticks = tick + timedelta(seconds=step), ticks + 1
    return Markup("").join(drawn)


def _hover(timeline: Timeline, bottom: float) -> Markup:
    """Invisible strips whose title says the numbers of one bin, for a mouse."""
    step, drawn = 100 / len(timeline.bins), []
    for number, one in enumerate(timeline.bins):
        p50, p99 = (figures.duration(value) for value in latencies(timeline, one))
        text = f"{figures.instant(one.at)}: {one.requests:,} requests, {one.failures:,} failed, P50 {p50}, P99 {p99}"
        drawn.append(
            Markup('<rect x="{}%" width="{}%" height="{}"><title>{}</title></rect>').format(
                _n(number * step), _n(step), _n(bottom), text
            )
        )
    return Markup('<g class="hover" aria-hidden="true">{}</g>').format(Markup("").join(drawn))


def waterfall(name: str, kind: str, parts: Sequence[Part], whole_ms: float) -> Markup:
    """Where the time of one request went: a row per part on a scale of `whole_ms`, so that cases compare. Parts of
    which only a bound is known are drawn hollow. `name` must be unique on the page."""
    if not parts or whole_ms <= 0:
        return Markup("")
    told = "; ".join(_told(part) for part in parts)
    drawn = [
        Markup(
            '<title id="{0}-title">Where the time of the {1} request went</title><desc id="{0}-desc">{2}</desc>'
        ).format(name, kind, told)
    ]
    for number, part in enumerate(parts):
        top = number * 30.0
        left = min(max(part.start_ms / whole_ms, 0.0), 1.0) * 100
        long = min(max(part.duration_ms / whole_ms * 100, 0.6), 100 - min(left, 99.4))
        drawn.append(_label(figures.cut(figures.line(part.name), 26), "0", top + 13))
        drawn.append(_label(_length(part), "100%", top + 13, "value", "end"))
        drawn.append(
            Markup(
                '<rect class="track" x="0" y="{0}" width="100%" height="7" rx="2"/>'
                '<rect class="{1}" x="{2}%" y="{0}" width="{3}%" height="7" rx="2"/>'
            ).format(_n(top + 18), "part" if part.exact else "part bound", _n(min(left, 99.4)), _n(long))
        )
    return _svg(name, len(parts) * 30.0, drawn)


def _length(part: Part) -> str:
    return ("" if part.exact else "up to ") + figures.duration(part.duration_ms)


def _told(part: Part) -> str:
    return f"{figures.line(part.name)} {_length(part)} from {figures.duration(part.start_ms)} on"
