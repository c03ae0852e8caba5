"""A comparison as one HTML file in the look of the report: no scripts, no requests, the same bytes for the same."""

import math

from markupsafe import Markup

from llmdoctor.compare.values import Change, Comparison, as_dict
from llmdoctor.report import compare_view as view
from llmdoctor.report import embed, figures, templates

ID = "llmdoctor-comparison"
MOST_BYTES = 150_000
MOST_FINDINGS = 40
MOST_CHARS = 600
WIDE, HALF = 180, 84
FURTHEST = math.log(4)
"""The chart ends at four times as long, and at a quarter."""


def render(comparison: Comparison) -> str:
    """The whole page. Long lists end in "and N more"."""
    environment = templates.environment(MOST_CHARS)
    environment.globals |= {"interval": interval, "plural": figures.plural}
    page = environment.get_template("compare.html.j2").render(
        c=comparison,
        view=view,
        rows=view.rows(comparison),
        pictured=[one for one in comparison.figures if one.relative and one.change is not None and one.unit != "ratio"],
        most=MOST_FINDINGS,
        json_id=ID,
        # Every character of it that could end the element is escaped.
        data=Markup(embed.block(as_dict(comparison), MOST_BYTES)),
    )
    return page + "\n"


def interval(change: Change) -> Markup:
    """The change and its interval as a dot on a line, half as long to the left, twice as long to the right."""
    ends = [_place(one) for one in (change.low, change.high)]
    low, high = ends[0] or 0.0, ends[1] or float(WIDE)
    middle = _place(change.change) or HALF
    look = {"better": "for", "worse": "against"}.get(change.state, "unknown")
    told = f"{view.name(change)}: {view.signed(100 * (change.change or 0))} %"
    return Markup(
        '<svg class="{}" viewBox="0 0 {} 14" width="{}" height="14" role="img" aria-label="{}">'
        '<path d="M{} 1V13" stroke="var(--rule)"/>'
        '<path d="M{:.1f} 7H{:.1f}" stroke="currentColor" stroke-width="2"/>'
        '<circle cx="{:.1f}" cy="7" r="3.5" fill="currentColor"/></svg>'
    ).format(look, WIDE, WIDE, told, WIDE // 2, low, high, middle)


def _place(change: float | None) -> float | None:
    """The place of a relative change on the line."""
    if change is None:
        return None
    far = math.log1p(max(change, -0.999)) / FURTHEST
    return WIDE / 2 + HALF * max(-1.0, min(1.0, far))
