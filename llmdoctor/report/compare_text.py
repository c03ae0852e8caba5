"""A comparison on one screen: at most 80 columns, plain ASCII where the stream knows no more."""

from collections.abc import Sequence

from llmdoctor.compare.values import Comparison
from llmdoctor.report import compare_view as view
from llmdoctor.report.screen import Screen, is_plain

_STYLES = {"healthy": "good", "attention": "warn", "unhealthy": "bad", "undetermined": "strong"}
_STATES = {"better": "good", "worse": "bad", "mix": "warn"}
_TURNS = {"appeared": "bad", "worse": "bad", "cleared": "good", "better": "good"}


def render(
    comparison: Comparison,
    *,
    colour: bool = False,
    encoding: str = "utf-8",
    quiet: bool = False,
    verbose: bool = False,
    paths: Sequence[str] = (),
) -> str:
    """The summary, newline at the end. `quiet`: the verdict only; `verbose`: all that did not change too; `paths`: the
    files written, named last."""
    screen = Screen(colour, is_plain(encoding))
    verdict = comparison.verdict
    word = view.LEVELS[verdict.level].upper()
    screen.flow(verdict.text, f"{word}: ", "", _STYLES[view.LOOKS[verdict.level]], len(word))
    if not quiet:
        screen.flow(view.side(comparison.before), "Before: ", "        ", "", 7)
        screen.flow(view.side(comparison.after), "After:  ", "        ", "", 6)
        for warning in comparison.warnings:
            screen.flow(warning, "Note: ", "      ", "warn", 5)
        _figures(screen, comparison)
        _findings(screen, comparison, verbose)
        _changed(screen, comparison, verbose)
        if verdict.next:
            screen.add()
            screen.flow(verdict.next, "Next: ", "      ", "strong", 5)
    for path in paths:
        screen.flow(path, "Report: ", "        ", "strong", 7)
    return "\n".join(screen.lines) + "\n"


def _figures(screen: Screen, comparison: Comparison) -> None:
    rows = view.rows(comparison)
    if not rows:
        return
    table = [["", "before", "after", "change", "95 % interval", ""]]
    table += [[one.name, one.before, one.after, one.change, one.interval, one.state] for one in rows]
    lines = screen.grid(table, "<>>>><", ((0, 12), (4, 12)))
    screen.add()
    screen.heading("Figures", lines, [_STATES.get(one.kind, "") if one.state else "" for one in rows])


def _findings(screen: Screen, comparison: Comparison, verbose: bool) -> None:
    shown = comparison.findings if verbose else comparison.findings[:6]
    if not shown:
        return
    table = [["", "symptom", "who", "before", "after"]]
    table += [
        [
            view.TURNS[one.turn].ljust(8),
            one.id,
            one.subject,
            view.seen(one.before, one.unit),
            view.seen(one.after, one.unit),
        ]
        for one in shown
    ]
    lines = screen.grid(table, "<<<>>", ((2, 9), (1, 14), (3, 12), (4, 12)))
    screen.add()
    screen.heading("Findings", lines, [_TURNS.get(one.turn, "") for one in shown])
    screen.more(len(comparison.findings) - len(shown), "")


def _changed(screen: Screen, comparison: Comparison, verbose: bool) -> None:
    shown = [one for one in comparison.changed if one.moved or verbose]
    if not comparison.changed:
        return
    screen.add()
    if not shown:
        screen.flow(f"Nothing of {len(comparison.changed)} things looked at.", "Changed besides: ", "  ", "strong", 16)
        return
    table = [["", "before", "after"], *([one.title, one.before, one.after] for one in shown[: None if verbose else 6])]
    screen.heading("Changed besides", screen.grid(table, "<>>", ((1, 14), (2, 14), (0, 16))))
    screen.more(0 if verbose else len(shown) - 6, "")
