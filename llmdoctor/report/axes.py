"""What all charts are made of: text, stretched drawings, logarithmic and time axes, colours.

Positions along the width are per cent, or a nested `<svg>` stretched over it, so that a chart fits a phone and a
printed page while its text keeps its size. Colours are CSS classes of `page.css`, which also knows the dark ones; the
same light ones stand as attributes, for readers that drop styles.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from llmdoctor.report import figures

WIDE = 1000.0  # units across a stretched drawing
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)

# Fill and stroke of each class where no style sheet is read.
_PAINT = {
    "requests": ("#b9c4d3", ""),
    "failures": ("#ad2318", ""),
    "retries": ("none", "#1d1f24"),
    "flight": ("#d5dce6", "#5a5e67"),
    "grid": ("none", "#e0dcd4"),
    "p50": ("none", "#24589b"),
    "p99": ("none", "#8a5200"),
    "calm": ("none", "#24589b"),
    "busy": ("none", "#8a5200"),
    "usual": ("none", "#5a5e67"),
    "spread": ("#b9c4d3", ""),
    "most": ("none", "#5a5e67"),
    "cut": ("#8a5200", ""),
    "wall": ("none", "#ad2318"),
    "casing": ("none", "#fdfcfa"),
    "interval": ("none", "#5a5e67"),
    "mark": ("none", "#1d1f24"),
    "track": ("#ece8e1", ""),
    "part": ("#24589b", ""),
    "part bound": ("none", "#24589b"),
    "heat1": ("#dfe3e9", ""),
    "heat2": ("#b6bfcc", ""),
    "heat3": ("#8391a6", ""),
    "heat4": ("#46546b", ""),
}


def n(value: float) -> str:
    """A coordinate: at most two decimals, one from ten on, no trailing zeros."""
    return f"{value:.{1 if abs(value) >= 10 else 2}f}".rstrip("0").rstrip(".") or "0"


def paint(css: str) -> Markup:
    """Class, fill and stroke of a shape."""
    fill, stroke = _PAINT[css]
    drawn = Markup('class="{}" fill="{}"').format(css, fill)
    return drawn + Markup(' stroke="{}"').format(stroke) if stroke else drawn


def path(css: str, drawing: str) -> Markup:
    """A path of that class, nothing where it is empty."""
    return Markup('<path {} d="{}"/>').format(paint(css), drawing) if drawing else Markup("")


def svg(name: str, height: float, title: str, told: str, parts: Iterable[Markup]) -> Markup:
    """A chart with a title and a description for those who cannot see it. `name` must be unique on the page."""
    body = Markup("\n").join(part for part in parts if part)
    return Markup(
        '<svg class="chart" role="img" aria-labelledby="{0}-title {0}-desc" width="100%" height="{1}" font-size="12">\n'
        '<title id="{0}-title">{2}</title><desc id="{0}-desc">{3}</desc>\n{4}\n</svg>'
    ).format(name, n(height), title, told, body)


def label(text: str, x: str, y: float, css: str = "label", anchor: str = "start") -> Markup:
    """A line of text; `x` is a coordinate or a percentage."""
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(css, x, n(y), anchor, text)


def beside(text: str, percent: float, y: float, css: str = "label") -> Markup:
    """A line of text at a place of the width, kept inside at both ends."""
    anchor = "start" if percent < 12 else "end" if percent > 88 else "middle"
    return label(text, f"{n(percent)}%", y, css, anchor)


def stretch(top: float, height: float, body: Markup, wide: float = WIDE, high: float | None = None) -> Markup:
    """A drawing in units of 0 to `wide` across and 0 to `high` down, stretched over width and height; lines stay as
    thick as elsewhere."""
    return Markup(
        '<svg y="{}" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(n(top), n(height), n(wide), n(height if high is None else high), body)


def upright(percent: float, top: float, bottom: float, css: str) -> Markup:
    """A vertical line at a place of the width."""
    return Markup('<line {0} x1="{1}%" x2="{1}%" y1="{2}" y2="{3}"/>').format(paint(css), n(percent), n(top), n(bottom))


@dataclass(frozen=True)
class LogScale:
    """A logarithmic scale of durations from `low` to `high` ms."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value lies: 0 at `low`, 1 at `high`, never beyond."""
        across = math.log10(self.high / self.low)
        return min(max(math.log10(max(value, 1e-9) / self.low) / across, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round values on the scale: the decades, with 2 and 5 between where there are few."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        decades = [10.0**power for power in range(first, last + 1)]
        inside = [one for one in decades if self.low <= one <= self.high]
        if len(inside) < 3:
            inside = [f * one for one in decades for f in (1, 2, 5) if self.low <= f * one <= self.high]
        return inside


def log_scale(values: Sequence[float]) -> LogScale:
    """A scale that holds all values with some room at both ends."""
    known = [value for value in values if value > 0] or [1.0]
    low, high = min(known) / 1.15, max(known) * 1.15
    return LogScale(low, high) if high / low > 4 else LogScale(low / 2, high * 2)


def levels(scale: LogScale, top: float, height: float) -> tuple[Markup, Markup]:
    """Grid lines for a stretched drawing of that height, and their words for the space around it."""
    places = [(value, height * (1 - scale.share(value))) for value in scale.ticks()]
    lines = "".join(f"M0 {n(place)}H1000" for _, place in places)
    words = [label(figures.duration(value), "0", top + place - 3, "tick") for value, place in places if place > 8]
    return path("grid", lines), Markup("").join(words)


def time_axis(start: datetime, whole: timedelta, top: float, bottom: float) -> Markup:
    """Up to seven round instants, a line from top to bottom for each and its time of day below."""
    seconds = whole.total_seconds()
    step = next((size for size in _STEPS if seconds / size <= 6), math.ceil(seconds / 6 / 86400) * 86400)
    form = "%m-%d" if step >= 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    tick = midnight + timedelta(seconds=math.ceil((start - midnight).total_seconds() / step) * step)
    drawn, ticks = [], 0
    while tick <= start + whole:
        place = (tick - start) / whole * 100
        anchor = "start" if place < 4 else "end" if place > 94 else "middle"
        css = "tick" if ticks % 2 == 0 else "tick wide"
        drawn.append(upright(place, top, bottom + 4, "grid"))
        drawn.append(label(f"{tick:{form}}", f"{n(place)}%", bottom + 17, css, anchor))
        tick, ticks = tick + timedelta(seconds=step), ticks + 1
    return Markup("").join(drawn)
