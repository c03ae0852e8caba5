"""The picture of a probe: when the chunks of one answer arrived, hop under hop on one axis. For terminal and HTML."""

from collections.abc import Sequence

from markupsafe import Markup

from llmdoctor.diagnose.values import Arrival
from llmdoctor.report import figures
from llmdoctor.report.axes import label, n, paint, svg

PHASES: tuple[tuple[str, str], ...] = (
    ("dns_ms", "DNS"),
    ("connect_ms", "connect"),
    ("tls_ms", "TLS"),
    ("header_ms", "headers"),
    ("ttft_ms", "first token"),
    ("total_ms", "end"),
)
_WIDE = 38


def longest_ms(arrivals: Sequence[Arrival]) -> float:
    """Where the axis ends."""
    return max((arrival.phases.get("total_ms") or 0.0 for arrival in arrivals), default=0.0)


def line(arrival: Arrival, longest: float) -> str:
    """One row of the terminal's picture: `·` nothing came, `│` some chunks, `█` more than a quarter of all at once."""
    cells = [0] * _WIDE
    for at, count in arrival.lumps:
        cells[min(_WIDE - 1, int(at / longest * _WIDE)) if longest else 0] += count
    ended = arrival.phases.get("total_ms") or 0.0
    last = min(_WIDE, int(ended / longest * _WIDE) + 1) if longest else 0
    heavy = max(3.0, arrival.chunks / 4)
    return "".join("█" if cell > heavy else "│" if cell else "·" if n < last else " " for n, cell in enumerate(cells))


def caption(arrival: Arrival) -> str:
    """What the picture shows, in words."""
    if not arrival.chunks:
        status = f"HTTP {arrival.http_status}" if arrival.http_status else "no answer"
        return f"{arrival.outcome}, {status}, no text"
    first = figures.duration(arrival.phases.get("ttft_ms"))
    return f"first {first}, {arrival.chunks} chunks"


def phase(arrival: Arrival, name: str) -> str:
    """When a phase ended, or how long it took; a dash where the way has no such phase."""
    value = arrival.phases.get(name)
    return "-" if value is None else figures.duration(value)


def differing(arrivals: Sequence[Arrival]) -> list[tuple[str, list[str]]]:
    """Facts of the responses that are not the same at all hops: name, value at each hop."""
    names = dict.fromkeys(name for arrival in arrivals for name in arrival.facts)
    rows = [(name, [arrival.facts.get(name, "-") for arrival in arrivals]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1 and name != "content_length"]


def chart(arrivals: Sequence[Arrival]) -> Markup:
    """The same as SVG: one band a hop, a mark for each time something came, its height by how much."""
    longest = longest_ms(arrivals)
    if not longest:
        return Markup("")
    bands = [_band(arrival, longest, place * 52.0) for place, arrival in enumerate(arrivals)]
    told = "; ".join(f"{figures.line(one.hop)}: {caption(one)}" for one in arrivals)
    return svg("arrived", 52.0 * len(arrivals), "When the chunks of one answer arrived, by hop", told, bands)


def _band(arrival: Arrival, longest: float, top: float) -> Markup:
    most = max((count for _, count in arrival.lumps), default=1)
    end = (arrival.phases.get("total_ms") or 0.0) / longest * 100
    words = label(figures.cut(figures.line(arrival.hop), 24), "0", top + 13, "label strong")
    words += label(caption(arrival), "100%", top + 13, "value", "end")
    silence = Markup('<rect {} x="0" y="{}" width="{}%" height="22"/>').format(paint("track"), n(top + 20), n(end))
    marks = [
        Markup('<rect {} x="{}%" y="{}" width="2" height="{}"/>').format(
            paint("part"), n(at / longest * 100), n(top + 42 - height), n(height)
        )
        for at, count in arrival.lumps
        for height in (8 + 14 * count / max(most, 1),)
    ]
    return words + silence + Markup("").join(marks)
