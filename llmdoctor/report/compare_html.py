"""A comparison as one HTML file in the look of the report: no scripts, no requests, the same bytes for the same."""

import math

from markupsafe import Markup

from llmdoctor.compare.values import Change, Comparison, as_dict
from llmdoctor.report import compare_markdown, embed, figures, templates
from llmdoctor.report import compare_view as view

MOST_BYTES = 150_000
MOST_FINDINGS = 40
MOST_CHARS = 600
WIDE, HALF = 320, 150
FURTHEST = math.log(4)
"""The chart ends at four times as long, and at a quarter."""


def render(comparison: Comparison) -> str:
    """The whole page. Long lists end in "and N more"."""
    environment = templates.environment(MOST_CHARS)
    environment.globals |= {"interval": interval, "plural": figures.plural, "scale": scale}
    page = environment.get_template("compare.html.j2").render(
        c=comparison,
        view=view,
        rows=view.rows(comparison),
        pictured=[one for one in comparison.figures if one.relative and one.change is not None and one.unit != "ratio"],
        most=MOST_FINDINGS,
        ticket=Markup("{}").format(compare_markdown.render(comparison)),
        json_id=embed.COMPARISON,
        # Every character of it that could end the element is escaped.
        data=Markup(embed.block(as_dict(comparison), MOST_BYTES)),
    )
    return page + "\n"


def interval(change: Change) -> Markup:
    """The change that decides and its interval as a dot on a line, half as long to the left, twice as long to the
    right."""
    mix = change.equal_mix if change.equal_mix and change.equal_mix.decides else None
    value, *ends = (mix.change, mix.low, mix.high) if mix else (change.change, change.low, change.high)
    low, high = (_place(one) for one in ends)
    look = {"better": "for", "worse": "against"}.get(change.state, "unknown")
    told = f"{view.name(change)}{' at equal mix' if mix else ''}: {view.signed(100 * (value or 0))} %"
    return Markup(
        '<svg class="ends {}" viewBox="0 0 {} 14" role="img" aria-label="{}">'
        '<path d="M{} 1V13" stroke="var(--rule)"/>'
        '<path d="M{:.1f} 7H{:.1f}" stroke="currentColor" stroke-width="2"/>'
        '<circle cx="{:.1f}" cy="7" r="3.5" fill="currentColor"/></svg>'
    ).format(look, WIDE, told, WIDE // 2, low or 0.0, high or float(WIDE), _place(value) or WIDE / 2)


def scale() -> Markup:
    """What the places on the line mean."""
    marks = [
        Markup('<text x="{:.1f}" y="11" text-anchor="middle">{}</text>').format(_place(change) or 0.0, word)
        for change, word in ((-0.75, "¼"), (-0.5, "½"), (0.0, "as before"), (1.0, "2x"), (3.0, "4x"))
    ]
    return Markup(
        '<svg class="ends chart" viewBox="0 0 {} 14" role="img" aria-label="From a quarter to four times">{}</svg>'
    ).format(WIDE, Markup("").join(marks))


def _place(change: float | None) -> float | None:
    """The place of a relative change on the line."""
    if change is None:
        return None
    far = math.log1p(max(change, -0.999)) / FURTHEST
    return WIDE / 2 + HALF * max(-1.0, min(1.0, far))
