"""The course of time: attempts, attempts in flight, latency as a heat map under P50 and P99, findings as bars, over one
time axis."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from markupsafe import Markup

from llmdoctor.diagnose.pictures import COARSE, Heat
from llmdoctor.diagnose.values import Bin, Timeline
from llmdoctor.report import figures
from llmdoctor.report.axes import LogScale, label, levels, log_scale, n, path, stretch, svg, time_axis
from llmdoctor.report.view import Finding

MAX_BINS = 160
MAX_BARS = 8


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


def reach(timeline: Timeline) -> tuple[datetime, timedelta] | None:
    """Where the time axis begins and how long it is; None where nothing has a time."""
    start = figures.moment(timeline.bins[0].at) if timeline.bins else None
    if start is None or timeline.bin_ms <= 0:
        return None
    return start, timedelta(milliseconds=timeline.bin_ms * len(timeline.bins))


def reading(timeline: Timeline) -> str:
    """What the chart shows, in a sentence or two."""
    bins = [one for one in timeline.bins if one.requests]
    if not bins:
        return ""
    most = max(bins, key=lambda one: one.requests)
    told = f"At most {figures.plural(most.requests, 'attempt')} in {figures.duration(timeline.bin_ms)} (at {_at(most)})"
    if flying := [one for one in bins if one.max_in_flight is not None]:
        full = max(flying, key=lambda one: one.max_in_flight or 0)
        told += f" and {figures.count(full.max_in_flight)} in flight at once (at {_at(full)})"
    name = latency_name(timeline)
    if timed := [one for one in bins if latencies(timeline, one)[0] is not None]:
        low, high = (pick(timed, key=lambda one: latencies(timeline, one)[0] or 0.0) for pick in (min, max))
        told += (
            f". The median {name} lies between {figures.duration(latencies(timeline, low)[0])} (at {_at(low)})"
            f" and {figures.duration(latencies(timeline, high)[0])} (at {_at(high)})"
        )
    failed, retried = sum(one.failures for one in bins), sum(one.retries for one in bins)
    counts = [f"{count:,} {word}" for count, word in ((failed, "failed"), (retried, "were retries")) if count]
    return f"{told}." + (
        f" Of {sum(one.requests for one in bins):,} attempts {' and '.join(counts)}." if counts else ""
    )


def _at(one: Bin) -> str:
    return figures.clock(one.at, one.at)


def timeline_chart(
    whole_line: Timeline, findings: Sequence[Finding], heat: Heat | None = None, hover: bool = True
) -> Markup:
    """Empty where nothing has a time; `hover`: with the numbers of each bin for a mouse."""
    timeline = squeezed(whole_line)
    axis = reach(timeline)
    if axis is None:
        return Markup("")
    start, whole = axis
    parts, top = [_counts(timeline, 16, 48)], 92.0
    if any(one.max_in_flight for one in timeline.bins):
        parts.append(_flight(timeline, top, 36))
        top += 64
    heat = heat if timeline is whole_line else None
    parts.append(_latency(timeline, heat, top, 120))
    bottom, bars = _bars(findings, start, whole, top + 150)
    parts = [time_axis(start, whole, 16, bottom), *parts, bars]
    parts += [_hover(timeline, bottom)] * hover
    told = reading(timeline) + " The numbers stand in the table below."
    return svg("timeline", bottom + 22, "Attempts, latency and findings over time", told, parts)


def _counts(timeline: Timeline, top: float, height: float) -> Markup:
    bins = timeline.bins
    highest = max((one.requests for one in bins), default=0) or 1
    step = 1000.0 / len(bins)

    def towers(values: Sequence[int], css: str) -> Markup:
        return path(
            css,
            "".join(
                f"M{n(number * step)} {n(height)}V{n(height * (1 - value / highest))}h{n(step * 0.9)}V{n(height)}z"
                for number, value in enumerate(values)
                if value
            ),
        )

    drawn = towers([one.requests for one in bins], "requests") + towers([one.failures for one in bins], "failures")
    failed, retried = sum(one.failures for one in bins), sum(one.retries for one in bins)
    if retried:
        drawn += path("retries", stairs([one.retries for one in bins], lambda value: height * (1 - value / highest)))
    keys = [(f"■ failed {failed:,}", "bad")] * bool(failed) + [(f"┅ retries {retried:,}", "label")] * bool(retried)
    words = label(f"Attempts per {figures.duration(timeline.bin_ms)}, at most {highest:,}", "0", top - 6)
    return words + legend(keys, top - 6) + stretch(top, height, drawn)


def legend(keys: Sequence[tuple[str, str]], y: float) -> Markup:
    """Names in the colours of their lines, at the right end."""
    if not keys:
        return Markup("")
    names = Markup(" &#160; ").join(Markup('<tspan class="{}">{}</tspan>').format(css, text) for text, css in keys)
    return Markup('<text class="label" x="100%" y="{}" text-anchor="end">{}</text>').format(n(y), names)


def stairs(values: Sequence[float | None], place: Callable[[float], float], step: float | None = None) -> str:
    """A line of level pieces, one for each value, broken where there is none."""
    step = step or 1000.0 / len(values)
    drawn, open_line = [], False
    for number, value in enumerate(values):
        if value is not None:
            drawn.append(f"{'V' if open_line else f'M{n(number * step)} '}{n(place(value))}h{n(step)}")
        open_line = value is not None
    return "".join(drawn)


def _flight(timeline: Timeline, top: float, height: float) -> Markup:
    """How many attempts ran at once."""
    counts = [one.max_in_flight or 0 for one in timeline.bins]
    highest = max(counts) or 1
    step = 1000.0 / len(counts)
    ground = "".join(f"V{n(height * (1 - count / highest))}h{n(step)}" for count in counts)
    drawn = path("flight", f"M0 {n(height)}{ground}V{n(height)}z")
    return label(f"In flight at once, at most {highest:,}", "0", top - 6) + stretch(top, height, drawn)


def _latency(timeline: Timeline, heat: Heat | None, top: float, height: float) -> Markup:
    pairs = [latencies(timeline, one) for one in timeline.bins]
    known = [value for pair in pairs for value in pair if value is not None]
    name = latency_name(timeline)
    if not known and heat is None:
        return label(f"{name}: not known", "0", top + 12)
    scale = log_scale([*known, *_ends(heat)])
    lines, words = levels(scale, top, height)
    body = _cells(heat, len(pairs), scale, height) + lines
    for index, css in ((0, "p50"), (1, "p99")):
        line = stairs([pair[index] for pair in pairs], lambda value: height * (1 - scale.share(value)))
        # On the darkest cells a line is only seen in a casing of paper.
        body += (path("casing", line) if heat else Markup("")) + path(css, line)
    keys = [("░▒▓ attempts", "label wide")] * (heat is not None)
    keys += [("━ P50", "key50")] + [("━ P99", "key99")] * any(pair[1] is not None for pair in pairs)
    told = label(f"{name}, logarithmic", "0", top - 6) + legend(keys, top - 6)
    return told + stretch(top, height, body) + words


def _ends(heat: Heat | None) -> list[float]:
    """The lowest and the highest duration that the heat map holds."""
    if heat is None:
        return []
    return [10 ** (heat.first / COARSE), 10 ** ((heat.first + len(heat.columns[0])) / COARSE)]


def _cells(heat: Heat | None, bins: int, scale: LogScale, height: float) -> Markup:
    """Attempts by time and latency: the more the darker, a single one in the lightest of four shades."""
    if heat is None:
        return Markup("")
    most = max(max(column) for column in heat.columns)
    shades: list[list[str]] = [[], [], [], []]
    for number, column in enumerate(heat.columns):
        for cell, count in enumerate(reversed(column)):
            if count:
                shade = min(3, int(4 * math.log(count) / math.log(most))) if most > 1 else 3
                shades[shade].append(f"M{number} {cell}h1v1h-1z")
    low, high = (height * (1 - scale.share(end)) for end in _ends(heat))
    drawn = Markup("").join(path(f"heat{shade}", "".join(cells)) for shade, cells in enumerate(shades, 1))
    return stretch(high, low - high, drawn, bins / heat.join, len(heat.columns[0]))


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
            Markup('<rect class="bar {}" fill="#5a5e67" x="{}%" y="{}" width="{}%" height="7" rx="2"/>').format(
                symptom.severity, n(left), n(top + 5), n(max(right - left, 0.7))
            )
        )
        # At the left edge, not at the bar: there it fits whatever the width.
        who = "" if symptom.subject == "all" else f" ({figures.cut(figures.line(symptom.subject), 30)})"
        name = Markup('{}<tspan class="wide">{}</tspan>').format(
            f"{finding.number} {figures.cut(figures.line(symptom.title), 46)}", who
        )
        drawn.append(label(name, "0", top))
        top += 27
    if len(timed) > MAX_BARS:
        drawn.append(label(f"and {len(timed) - MAX_BARS:,} more findings", "0", top))
        top += 16
    return top - 4, Markup("\n").join(drawn)


def _hover(timeline: Timeline, bottom: float) -> Markup:
    """Invisible strips whose title says the numbers of one bin, for a mouse."""
    drawn = []
    for number, one in enumerate(timeline.bins):
        p50, p99 = (figures.duration(value) for value in latencies(timeline, one))
        text = f"{_at(one)}: {one.requests:,} attempts, {one.failures:,} failed, P50 {p50}, P99 {p99}"
        drawn.append(Markup('<rect x="{}" width="1" height="1"><title>{}</title></rect>').format(number, text))
    strips = stretch(0, bottom, Markup("").join(drawn), len(drawn), 1)
    return Markup('<g class="hover" fill="none" pointer-events="all" aria-hidden="true">{}</g>').format(strips)
