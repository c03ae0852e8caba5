"""What a latency goes with: the length of the prompt or of the answer, and the load."""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from llmdoctor.diagnose.pictures import Relation, Step
from llmdoctor.report import figures
from llmdoctor.report.axes import label, levels, log_scale, n, path, stretch, svg
from llmdoctor.report.timeline import legend
from llmdoctor.report.view import METRICS

_TALL = 140.0
_GUTTER = 70.0  # of 1000 across, for the words of the scale
BY = {"input_tokens": "input tokens", "output_tokens": "output tokens", "others": "others running at its start"}


def reading(one: Relation) -> str:
    """How far the median moves from the first step to the last, and what load makes of it."""
    steady = [step for step in one.steps if step.n >= 5] or list(one.steps)
    first, last = steady[0], steady[-1]
    name, times = METRICS[one.name], last.p50_ms / first.p50_ms if first.p50_ms else None
    told = (
        f"With {span(first)} {BY[one.by]} the median {name} is {figures.duration(first.p50_ms)},"
        f" with {span(last)} it is {figures.duration(last.p50_ms)} ({figures.times(times)})."
    )
    both = [
        step.busy_p50_ms / step.calm_p50_ms for step in one.steps if step.calm_p50_ms and step.busy_p50_ms is not None
    ]
    if both:
        middle = sorted(both)[(len(both) - 1) // 2]
        told += f" At equal length it is {figures.times(middle)} as long when the service is busy as when it is calm."
    return told


def span(step: Step) -> str:
    """ "64 to 127"."""
    return f"{step.low:,}" if step.low == step.high else f"{step.low:,} to {step.high:,}"


def chart(one: Relation) -> Markup:
    """For each step the median, the stretch up to P90 and the highest; lines for calm and busy times."""
    values = [value for step in one.steps for value in _values(step)]
    scale = log_scale(values)
    lines, words = levels(scale, 22, _TALL)
    wide = (1000 - _GUTTER) / len(one.steps)

    def y(value: float) -> float:
        return _TALL * (1 - scale.share(value))

    spread, most, middle = [], [], []
    for number, step in enumerate(one.steps):
        left, centre, right = (_GUTTER + wide * (number + place) for place in (0.22, 0.5, 0.78))
        spread.append(f"M{n(left)} {n(y(step.p50_ms))}V{n(y(step.p90_ms))}H{n(right)}V{n(y(step.p50_ms))}z")
        most.append(f"M{n(centre)} {n(y(step.p90_ms))}V{n(y(step.max_ms))}M{n(left)} {n(y(step.max_ms))}H{n(right)}")
        middle.append(f"M{n(left)} {n(y(step.p50_ms))}H{n(right)}")
    body = lines + path("spread", "".join(spread)) + path("most", "".join(most)) + path("p50", "".join(middle))
    calm, busy = ([getattr(step, f"{kind}_p50_ms") for step in one.steps] for kind in ("calm", "busy"))
    keys = [("█", "keybars wide"), ("P50 to P90, ┯ highest", "label wide"), ("━ P50", "key50")]
    for kind, medians, key in (("calm", calm, "┅ P50 calm"), ("busy", busy, "━ P50 busy")):
        if sum(value is not None for value in medians) > 1:
            body += path(kind, _joined(medians, wide, y))
            keys.append((key, "key50" if kind == "calm" else "key99"))
    return _finished(one, body, words, keys)


def _finished(one: Relation, body: Markup, words: Markup, keys: Sequence[tuple[str, str]]) -> Markup:
    """The drawing with what stands around it: name, legend, steps."""
    every, wide = math.ceil(len(one.steps) / 7), (1000 - _GUTTER) / len(one.steps)
    foot, ranges = 22 + _TALL, any(step.low < step.high for step in one.steps)
    marks = [
        label(
            _short(step.low),
            f"{n((_GUTTER + (number + 0.5) * wide) / 10)}%",
            foot + 15,
            "tick" if number % every == 0 else "tick wide",
            "middle",
        )
        for number, step in enumerate(one.steps)
    ]
    marks.append(label(BY[one.by] + (", from" if ranges else ""), "0", foot + 32))
    head = label(f"{METRICS[one.name]}, logarithmic", "0", 14) + legend(keys, 14)
    title = f"{METRICS[one.name]} by {BY[one.by]}"
    parts = [head, stretch(22, _TALL, body), words, *marks]
    return svg(f"by-{one.by}", foot + 38, title, reading(one), parts)


def _values(step: Step) -> list[float]:
    found = (step.p50_ms, step.p90_ms, step.max_ms, step.calm_p50_ms, step.busy_p50_ms)
    return [value for value in found if value]


def _joined(values: Sequence[float | None], wide: float, y: Callable[[float], float]) -> str:
    """A line from middle to middle of the steps that have a value."""
    places = [
        f"{n(_GUTTER + wide * (number + 0.5))} {n(y(value))}"
        for number, value in enumerate(values)
        if value is not None
    ]
    return "M" + "L".join(places)


def _short(number: int) -> str:
    return figures.number(number) if number < 1000 else f"{number / 1000:.3g}k"
