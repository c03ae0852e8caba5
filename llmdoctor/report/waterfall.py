"""Where the time of one request went: its parts under each other; of a probe, its phases hop under hop."""

from collections.abc import Sequence

from markupsafe import Markup

from llmdoctor.diagnose.values import Arrival, Part
from llmdoctor.report import figures
from llmdoctor.report.axes import label, n, paint, svg

# Phases of a call in order: name, the instant (ms since the send) at which it ends, or its own length before.
_LENGTHS = (("DNS", "dns_ms"), ("connect", "connect_ms"), ("TLS", "tls_ms"))
_ENDS = (("headers", "header_ms"), ("first byte", "first_byte_ms"), ("first token", "ttft_ms"), ("rest", "total_ms"))


def waterfall(name: str, kind: str, parts: Sequence[Part], whole_ms: float) -> Markup:
    """A row per part on a scale of `whole_ms`, so that cases compare. Parts of which only a bound is known are drawn
    hollow. `name` must be unique on the page."""
    if not parts or whole_ms <= 0:
        return Markup("")
    drawn = []
    for number, part in enumerate(parts):
        top = number * 30.0
        left = min(max(part.start_ms / whole_ms, 0.0), 0.994) * 100
        long = min(max(part.duration_ms / whole_ms * 100, 0.6), 100 - left)
        drawn.append(label(figures.cut(figures.line(part.name), 22), "0", top + 13))
        drawn.append(label(_short(part), "100%", top + 13, "value", "end"))
        drawn.append(
            Markup(
                '<rect {0} x="0" y="{1}" width="100%" height="7" rx="2"/>'
                '<rect {2} x="{3}%" y="{1}" width="{4}%" height="7" rx="2"/>'
            ).format(paint("track"), n(top + 18), paint("part" if part.exact else "part bound"), n(left), n(long))
        )
    told = "; ".join(
        f"{figures.line(part.name)} {_length(part)} from {figures.duration(part.start_ms)} on" for part in parts
    )
    return svg(name, len(parts) * 30.0, f"Where the time of the {kind} request went", told, drawn)


def _length(part: Part) -> str:
    return ("" if part.exact else "up to ") + figures.duration(part.duration_ms)


def _short(part: Part) -> str:
    return ("" if part.exact else "≤ ") + figures.duration(part.duration_ms)


def stretches(arrival: Arrival) -> list[Part]:
    """The phases of one call of a probe, one after the other, from the send to the last byte."""
    found, clock = [], 0.0
    for name, key in _LENGTHS:
        took = arrival.phases.get(key)
        if took:
            found.append(Part(name, clock, took, True))
            clock += took
    for name, key in _ENDS:
        end = arrival.phases.get(key)
        if end is not None and end > clock:
            found.append(Part(name, clock, end - clock, True))
            clock = end
    return found


def phases(arrivals: Sequence[Arrival]) -> Markup:
    """One bar a hop on one scale, its phases in turn light and dark, each named where it is wide enough."""
    whole = max((arrival.phases.get("total_ms") or 0.0 for arrival in arrivals), default=0.0)
    if not whole:
        return Markup("")
    drawn, told = [], []
    for number, arrival in enumerate(arrivals):
        top = number * 52.0
        parts = stretches(arrival)
        told.append(f"{arrival.hop}: " + ", ".join(f"{part.name} {_length(part)}" for part in parts))
        drawn.append(label(figures.cut(figures.line(arrival.hop), 40), "0", top + 13))
        drawn.append(label(figures.duration(arrival.phases.get("total_ms")), "100%", top + 13, "value", "end"))
        drawn.append(
            Markup('<rect {} x="0" y="{}" width="100%" height="9" rx="2"/>').format(paint("track"), n(top + 20))
        )
        drawn += _segments(parts, whole, top + 20)
    return svg("phases", len(arrivals) * 52.0 - 6, "Phases of one call over each hop", "; ".join(told), drawn)


def _segments(parts: Sequence[Part], whole: float, top: float) -> list[Markup]:
    drawn = []
    for number, part in enumerate(parts):
        left, long = part.start_ms / whole * 100, part.duration_ms / whole * 100
        shade = "heat4" if number % 2 == 0 else "heat2"
        drawn.append(
            Markup('<rect {} x="{}%" y="{}" width="{}%" height="9"/>').format(
                paint(shade), n(left), n(top), n(max(long, 0.3))
            )
        )
        words = f"{part.name} {_length(part)}"
        if long >= 0.75 * len(words):  # per cent that a letter takes of a page; of a phone's width it is 1.75
            css = "tick" if long >= 1.75 * len(words) else "tick wide"
            drawn.append(label(words, f"{n(left)}%", top + 22, css))
    return drawn
