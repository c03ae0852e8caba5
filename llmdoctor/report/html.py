"""The report: one HTML file without scripts or requests, the same bytes for the same Diagnosis, at most 200 KB."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from jinja2 import Environment
from markupsafe import Markup

from llmdoctor.diagnose.values import CaseGroup, Diagnosis, as_dict
from llmdoctor.report import (
    arrivals,
    compare_view,
    embed,
    figures,
    markdown,
    prose,
    relation,
    replicas,
    spread,
    templates,
    view,
)
from llmdoctor.report import timeline as over_time
from llmdoctor.report import where as where_went
from llmdoctor.report.embed import read_back
from llmdoctor.report.waterfall import phases, waterfall

__all__ = ["MOST_BYTES", "read_back", "render"]

MOST_BYTES = 200_000
_SLOT = "\x01"  # where the data block goes; `figures.clean` leaves no such character in any text from data
MOST_OF_LEAD = 600
_PAGE_BYTES = 125_000  # without the data block, where both are large


@dataclass(frozen=True)
class Caps:
    """How much of each list is shown. Every list that is cut says so."""

    findings: int = 20  # told in full
    rows: int = 40  # of the findings table
    causes: int = 5
    evidence: int = 10
    fixes: int = 6
    groups: int = 3
    parts: int = 12
    metrics: int = 24
    timeouts: int = 12
    unknown: int = 20
    ids: int = 60  # of the rule tally and in lists of names
    inputs: int = 30
    rejects: int = 3
    notes: int = 10
    text: int = 600
    prose: int = 4000
    numbers: bool = True  # the tables under the charts
    charts: bool = True  # those of latency and replicas
    hover: bool = True  # what a mouse is told over the timeline


# Tried in this order until the page is small enough.
CAPS = (
    Caps(),
    Caps(hover=False, ids=24),
    Caps(findings=12, rows=30, causes=4, evidence=8, metrics=16, inputs=20, ids=40, text=300, prose=2000,
         hover=False),
    Caps(findings=8, rows=20, causes=3, evidence=6, fixes=4, groups=2, metrics=12, timeouts=8, unknown=12, ids=30,
         inputs=12, text=200, prose=1000, numbers=False, hover=False),
    Caps(findings=5, rows=12, causes=2, evidence=4, fixes=2, groups=1, parts=8, metrics=8, timeouts=5, unknown=6,
         ids=15, inputs=6, rejects=1, notes=3, text=100, prose=300, numbers=False, hover=False),
    Caps(findings=2, rows=5, causes=1, evidence=2, fixes=1, groups=0, parts=4, metrics=3, timeouts=2, unknown=3,
         ids=5, inputs=2, rejects=1, notes=1, text=50, prose=100, numbers=False, charts=False,
         hover=False),
)  # fmt: skip


def render(diagnosis: Diagnosis) -> str:
    """The whole page. Long lists end in "and N more"; the least important parts go first where it would be larger
    than MOST_BYTES of UTF-8."""
    plain = as_dict(diagnosis)
    found = view.findings(diagnosis)
    ticket = Markup("{}").format(markdown.render(diagnosis))
    room = max(_PAGE_BYTES, MOST_BYTES - embed.size(plain) - 100)
    for caps in CAPS:
        head, tail = _page(diagnosis, found, ticket, caps)
        used = len((head + tail).encode())
        if used <= room:
            break
    return head + embed.block(plain, MOST_BYTES - used) + tail


def _page(diagnosis: Diagnosis, found: Sequence[view.Finding], ticket: Markup, caps: Caps) -> tuple[str, str]:
    """The page before and after the data block."""
    environment = _environment(caps)
    page = environment.get_template("page.html.j2").render(
        d=diagnosis,
        caps=caps,
        findings=found,
        stray=view.stray_cases(diagnosis),
        timeline=over_time.squeezed(diagnosis.timeline),
        chart=over_time.timeline_chart(diagnosis.timeline, found, diagnosis.pictures.heat, caps.hover),
        charts_under=_home(found, diagnosis.pictures.shown_with, caps),
        replicas_under=_replicas_home(found, caps),
        ticket=ticket,
        shortened=caps not in CAPS[:2],
        view=view,
        arrivals=arrivals,
        where=where_went,
        json_id=embed.ID,
        slot=Markup(_SLOT),
    )
    head, tail = page.split(_SLOT)
    return head, tail + "\n"


def _home(found: Sequence[view.Finding], shown_with: tuple[str, str] | None, caps: Caps) -> int | None:
    """The number of the finding under which the latency charts stand, None where they have a section of their own."""
    told = found[: caps.findings]
    return next((one.number for one in told if (one.symptom.id, one.symptom.vantage) == shown_with), None)


def _replicas_home(found: Sequence[view.Finding], caps: Caps) -> int | None:
    """The same for the chart of the replicas: the first finding about one of them, or with one of them as its cause."""
    told = found[: caps.findings]
    return next(
        (
            one.number
            for one in told
            if one.symptom.subject.startswith("instance=")
            or one.symptom.id == "uneven_instances"
            or any(cause.id == "bad_instance" for cause in one.causes)
        ),
        None,
    )


def _environment(caps: Caps) -> Environment:
    environment = templates.environment(caps.text)
    environment.filters |= {
        "count": figures.count,
        "duration": figures.duration,
        "instant": figures.instant,
        "lead": _lead,
        "metric_name": view.metric_name,
        "listed": partial(_listed, at_most=caps.ids),
        "number": figures.number,
        "plural": figures.plural,
        "prose": partial(prose.html, longest=caps.prose),
        "share": figures.share,
        "size": figures.size,
        "whole": lambda text: Markup("{}").format(figures.clean(text)),
    }
    environment.globals |= {
        "clock": figures.clock,
        "latencies": over_time.latencies,
        "latency_name": over_time.latency_name,
        "levels": compare_view.LEVELS,
        "limit": figures.limit,
        "looks": compare_view.LOOKS,
        "measure": figures.measure,
        "over_time": over_time,
        "phases": phases,
        "place": _place,
        "relation": relation,
        "replicas": replicas,
        "span": figures.span,
        "spread": spread,
        "waterfall": waterfall,
        "whole_ms": _whole_ms,
    }
    return environment


def _lead(text: str, end: str = "") -> Markup:
    """A sentence of the first screen: the same length however short the rest of the page had to become."""
    shown = figures.cut(figures.clean(text), MOST_OF_LEAD)
    return Markup("{}{}").format(shown, "" if shown.endswith("…") else end)


def _listed(names: Sequence[str], at_most: int) -> Markup:
    """Names as code, "and N more" at the end."""
    shown = Markup(", ").join(
        Markup("<code>{}</code>").format(figures.cut(figures.line(name), 80)) for name in names[:at_most]
    )
    return shown + (f" and {len(names) - at_most:,} more" if len(names) > at_most else "")


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def _whole_ms(group: CaseGroup) -> float:
    """The scale on which all cases of a group are drawn: the longest of them."""
    ends = [part.start_ms + part.duration_ms for case in group.cases for part in case.parts]
    return max([*ends, *(case.total_ms or 0 for case in group.cases)], default=0.0)
