"""How a latency spreads: histograms with the percentiles and the limits on which attempts were cut."""

from collections.abc import Sequence

from markupsafe import Markup

from llmdoctor.diagnose.pictures import FINE, Distribution, Wall
from llmdoctor.diagnose.values import Metric
from llmdoctor.report import figures
from llmdoctor.report.axes import LogScale, beside, label, log_scale, n, paint, path, stretch, svg, upright
from llmdoctor.report.view import METRICS

_HIGH = 64.0
_ENDED = {"timeout": "timed out", "cancelled": "were cancelled", "failed": "failed", "incomplete": "broke off"}


def metric_of(one: Distribution, metrics: Sequence[Metric]) -> Metric | None:
    """The percentiles of the same population."""
    keys = ("vantage", "model", "stream", "name")
    same = (metric for metric in metrics if all(getattr(metric, key) == getattr(one, key) for key in keys))
    return next(same, None)


def quantiles(metric: Metric | None) -> list[tuple[str, float, float | None, float | None]]:
    """Name, value and 95 % interval of the percentiles that are known."""
    if metric is None:
        return []
    found = (
        ("P50", metric.p50, metric.p50_low, metric.p50_high),
        ("P95", metric.p95, metric.p95_low, metric.p95_high),
        ("P99", metric.p99, metric.p99_low, metric.p99_high),
    )
    return [(name, value, low, high) for name, value, low, high in found if value is not None]


def reading(distributions: Sequence[Distribution], metrics: Sequence[Metric]) -> str:
    """Typical against slow, and how many were cut where."""
    told = []
    for one in distributions:
        marks = {name: value for name, value, *_ in quantiles(metric_of(one, metrics))}
        if "P50" in marks:
            text = f"Half have {_what(one)} {figures.duration(marks['P50'])}"
            name = max(marks)
            if name != "P50":
                rest = {"P95": "one in twenty takes", "P99": "one in a hundred takes"}[name]
                text += (
                    f", {rest} {figures.duration(marks[name])} or more ({figures.times(marks[name] / marks['P50'])})"
                )
            told.append(f"{text}.")
        told += [f"{_wall(wall)}." for wall in one.walls[:2]]
    return " ".join(told)


def _what(one: Distribution) -> str:
    return "their first token within" if one.name == "ttft_ms" else "their whole answer within"


def _wall(wall: Wall) -> str:
    at = figures.duration(wall.at_ms)
    if wall.what == "limit":
        return f"{figures.plural(wall.attempts, 'attempt')} had a limit of {at}"
    return f"{wall.attempts:,} {_ENDED.get(wall.what, 'ended')} at {at}"


def population(one: Distribution) -> str:
    """Which requests: "client, llama-70b, streamed"."""
    kind = {True: "streamed", False: "not streamed", None: ""}[one.stream]
    return ", ".join(figures.line(word) for word in (one.vantage, one.model or "", kind) if word)


def chart(distributions: Sequence[Distribution], metrics: Sequence[Metric]) -> Markup:
    """One histogram a latency under each other, on one logarithmic axis, the percentiles as lines."""
    ends = [_edge(one.first + offset) for one in distributions for offset in (0, len(one.ended))]
    marks = [value for one in distributions for value in _marked(one, metrics)]
    if not ends:
        return Markup("")
    scale, top, parts = log_scale([*ends, *marks]), 0.0, []
    for one in distributions:
        parts.append(_histogram(one, metric_of(one, metrics), scale, top))
        top += _HIGH + 74 + 14 * len(_drawn(one))
    ticks = [(value, scale.share(value) * 100) for value in scale.ticks()]
    parts.insert(0, Markup("").join(upright(place, 18, top - 12, "grid") for _, place in ticks))
    parts += [beside(figures.duration(value), place, top + 2, "tick") for value, place in ticks]
    told = reading(distributions, metrics)
    return svg("spread", top + 8, "How long attempts take: a histogram on a logarithmic axis", told, parts)


def _edge(cell: int) -> float:
    return float(10 ** (cell / FINE))


def table(one: Distribution) -> list[tuple[float, float, int, int]]:
    """From, to (ms), how many ended and were cut: the cells of the histogram by fours, those that hold any."""
    cut = one.cut or (0,) * len(one.ended)
    rows: dict[int, tuple[int, int]] = {}
    for cell, (done, given_up) in enumerate(zip(one.ended, cut, strict=True), one.first):
        before = rows.get(cell // 4, (0, 0))
        rows[cell // 4] = (before[0] + done, before[1] + given_up)
    return [(_edge(4 * row), _edge(4 * row + 4), *counts) for row, counts in rows.items() if any(counts)]


def _marked(one: Distribution, metrics: Sequence[Metric]) -> list[float]:
    found = [value for _, *values in quantiles(metric_of(one, metrics)) for value in values if value is not None]
    return found + [wall.at_ms for wall in _drawn(one)]


def _drawn(one: Distribution) -> list[Wall]:
    """The walls near enough: a limit far beyond all attempts would press them together."""
    return [wall for wall in one.walls if wall.at_ms <= 3 * _edge(one.first + len(one.ended))]


def _histogram(one: Distribution, metric: Metric | None, scale: LogScale, top: float) -> Markup:
    cut = one.cut or (0,) * len(one.ended)
    most = max(done + given_up for done, given_up in zip(one.ended, cut, strict=True)) or 1
    ended, beyond = [], []
    for offset, (done, given_up) in enumerate(zip(one.ended, cut, strict=True)):
        left, right = (scale.share(_edge(one.first + offset + end)) * 1000 for end in (0, 1))
        whole, part = (_HIGH * count / most for count in (done + given_up, done))
        if done:
            ended.append(f"M{n(left)} {n(_HIGH)}V{n(_HIGH - part)}H{n(right)}V{n(_HIGH)}z")
        if given_up:
            beyond.append(f"M{n(left)} {n(_HIGH - part)}V{n(_HIGH - whole)}H{n(right)}V{n(_HIGH - part)}z")
    base = top + 56
    words = label(f"{METRICS[one.name]}: {sum(one.ended) + sum(cut):,} attempts", "0", top + 12)
    if any(cut):
        words += label(f"■ cut off {sum(cut):,}", "100%", top + 12, "key99", "end")
    bars = stretch(base, _HIGH, path("spread", "".join(ended)) + path("cut", "".join(beyond)))
    return words + bars + _percentile_lines(metric, scale, top + 26, base + _HIGH) + _wall_lines(one, scale, top, base)


def _percentile_lines(metric: Metric | None, scale: LogScale, top: float, foot: float) -> Markup:
    """Each percentile on a row of its own above the bars, its interval as a thick piece of that row."""
    drawn = []
    for row, (name, value, low, high) in enumerate(quantiles(metric)):
        place, y = scale.share(value) * 100, top + 12 * row
        drawn.append(upright(place, y + 3, foot, "mark"))
        if low is not None and high is not None:
            ends = [scale.share(end) * 100 for end in (low, high)]
            drawn.append(
                Markup('<line {} stroke-width="5" x1="{}%" x2="{}%" y1="{}" y2="{}"/>').format(
                    paint("interval"), n(ends[0]), n(max(ends[1], ends[0] + 0.4)), n(y + 5), n(y + 5)
                )
            )
        drawn.append(beside(f"{name} {figures.duration(value)}", place, y, "tick strong"))
    return Markup("").join(drawn)


def _wall_lines(one: Distribution, scale: LogScale, top: float, base: float) -> Markup:
    """Where attempts were cut, named on rows below the bars."""
    drawn = []
    for row, wall in enumerate(_drawn(one)):
        place, y = scale.share(wall.at_ms) * 100, base + _HIGH + 14 + 14 * row
        drawn.append(upright(place, top + 20, y - 10, "wall"))
        drawn.append(beside(_wall(wall), place, y, "tick bad"))
    return Markup("").join(drawn)
