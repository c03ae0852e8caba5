"""A comparison as Markdown for a ticket or a merge request: below 4,000 characters."""

from llmdoctor.compare.values import Comparison
from llmdoctor.report import compare_view as view
from llmdoctor.report import figures
from llmdoctor.report.markdown import MOST, code, escaped


def render(comparison: Comparison) -> str:
    """Verdict, sides, warnings, figures, findings and what else changed; lists are cut and say so."""
    verdict = comparison.verdict
    lines = [
        f"**{view.LEVELS[verdict.level]}**: {escaped(verdict.text)}",
        "",
        f"- before: {escaped(view.side(comparison.before), 200)}",
        f"- after: {escaped(view.side(comparison.after), 200)}",
        *(f"- note: {escaped(one, 200)}" for one in comparison.warnings),
        *_figures(comparison),
        *_findings(comparison),
        *_changed(comparison),
    ]
    if verdict.next:
        lines += ["", f"Next: {escaped(verdict.next)}"]
    lines += ["", f"llmdoctor {escaped(comparison.version)}: {code(comparison.command, 300)}"]
    text = "\n".join(lines).replace(figures.NBSP, " ")
    return figures.cut(text, MOST - 2) + "\n"


def _figures(comparison: Comparison) -> list[str]:
    rows = view.rows(comparison)
    if not rows:
        return []
    head = ["", "| figure | before | after | change | 95 % interval | |", "|:--|--:|--:|--:|--:|:--|"]
    return head + [
        f"| {one.name.strip()} | {one.before} | {one.after} | {one.change} | {one.interval} | {_bold(one)} |"
        for one in rows
    ]


def _bold(row: view.Row) -> str:
    return f"**{row.state}**" if row.state and row.kind in ("better", "worse") else row.state


def _findings(comparison: Comparison) -> list[str]:
    shown = comparison.findings[:10]
    rows = [
        f"- {view.TURNS[one.turn]}: {code(one.id, 60)}{'' if one.subject == 'all' else ' ' + code(one.subject, 60)}"
        f" ({view.seen(one.before, one.unit)} before, {view.seen(one.after, one.unit)} after)"
        for one in shown
    ]
    more = len(comparison.findings) - len(shown)
    return ["", "**Findings**", "", *rows, *([f"- and {more:,} more"] if more else [])] if rows else []


def _changed(comparison: Comparison) -> list[str]:
    shown = [one for one in comparison.changed if one.moved][:10]
    rows = [f"- {one.title}: {escaped(one.before, 120)} before, {escaped(one.after, 120)} after" for one in shown]
    return ["", "**Changed besides**", "", *rows] if rows else []
