"""One screen for the terminal: at most 80 columns, plain ASCII where the stream knows no more, colour if wanted."""

from collections.abc import Sequence

from llmdoctor.diagnose.values import NOT_ASKED, Cause, Diagnosis, Evidence
from llmdoctor.report import arrivals, compare_view, figures, prose, view, where
from llmdoctor.report.columns import fit
from llmdoctor.report.screen import Screen, is_plain
from llmdoctor.report.view import Finding

_LEVEL_STYLE = {"healthy": "good", "attention": "warn", "unhealthy": "bad", "undetermined": "strong"}
_SEVERITY_STYLE = {"critical": "bad", "high": "bad", "medium": "warn", "low": ""}
_MARKS = {"for": "+", "against": "-", "unknown": "?"}


def render(
    diagnosis: Diagnosis,
    *,
    colour: bool = False,
    encoding: str = "utf-8",
    quiet: bool = False,
    verbose: bool = False,
    paths: Sequence[str] = (),
) -> str:
    """The summary, newline at the end. `quiet`: the verdict only; `verbose`: all evidence and how every rule ended;
    `paths`: the files written, named last. Where `encoding` is no Unicode one, only ASCII is used."""
    screen = Screen(colour, is_plain(encoding))
    _verdict(screen, diagnosis)
    if not quiet:
        screen.flow(view.scope(diagnosis))
        for note in diagnosis.notes if verbose else diagnosis.notes[:3]:
            screen.flow(note, "Note: ", "      ", "warn", 5)
        for told in view.exposed(diagnosis, len(diagnosis.inputs) if verbose else 3):
            screen.flow(told, "Secrets: ", "         ", "warn", 8)
        for told in view.course(diagnosis):
            screen.flow(told, "Course: ", "        ", "strong", 7)
        _arrivals(screen, diagnosis)
        if verbose or not diagnosis.arrivals:
            _metrics(screen, diagnosis, verbose)
        _baseline(screen, diagnosis)
        _where(screen, diagnosis, verbose)
        _findings(screen, diagnosis, verbose)
        _unknown(screen, diagnosis, verbose)
        if verbose:
            _rules(screen, diagnosis)
        if diagnosis.verdict.next:
            screen.add()
            screen.flow(diagnosis.verdict.next, "Next: ", "      ", "strong", 5)
    for path in paths:
        screen.flow(path, "Report: ", "        ", "strong", 7)
    return "\n".join(screen.lines) + "\n"


def _verdict(screen: Screen, diagnosis: Diagnosis) -> None:
    word = diagnosis.verdict.level.upper()
    screen.flow(diagnosis.verdict.text, f"{word}: ", "", _LEVEL_STYLE[diagnosis.verdict.level], len(word))


def _arrivals(screen: Screen, diagnosis: Diagnosis) -> None:
    """Of a probe: the arrival of one answer hop under hop, its phases, and what the hops' responses differ in."""
    shown = diagnosis.arrivals
    if not shown:
        return
    longest = arrivals.longest_ms(shown)
    screen.add()
    screen.add(f"How one answer arrived, from the send to {figures.duration(longest)}", "strong")
    rows = [[one.hop, arrivals.line(one, longest), arrivals.caption(one)] for one in shown]
    for row in screen.grid(rows, "<<<", ((0, 6), (2, 12))):
        screen.add(row)
    screen.add()
    heads = ["", *(f"{name} " for _, name in arrivals.PHASES)]
    phases = [[one.hop, *(arrivals.phase(one, key) for key, _ in arrivals.PHASES)] for one in shown]
    screen.heading("Phases", screen.grid([heads, *phases], "<>>>>>>", ((0, 6),)))
    for name, values in arrivals.differing(shown):
        told = ", ".join(f"{one.hop} {value}" for one, value in zip(shown, values, strict=True))
        screen.flow(f"{name}: {told}", "  ", "    ")


def _metrics(screen: Screen, diagnosis: Diagnosis, verbose: bool) -> None:
    chosen = diagnosis.metrics if verbose else diagnosis.metrics[:5]
    if not chosen:
        return
    rows = [["", "", "n ", "P50", "P95", "P99"]]
    for metric in chosen:
        percentiles = view.percentiles(metric)
        number = figures.count(metric.n) + ("*" if metric.censored else " ")
        rows.append([view.metric_name(metric), view.population(metric), number, *percentiles])
    screen.add()
    screen.heading("Key figures", screen.grid(rows, "<<>>>>", ((1, 8), (0, 8))))
    screen.more(len(diagnosis.metrics) - len(chosen), "")
    if any(metric.censored for metric in chosen):
        screen.add('  * some were cut off and count as "at least" what they took', "dim")


def _where(screen: Screen, diagnosis: Diagnosis, verbose: bool) -> None:
    """Where the time of slow requests went: a sentence, or the stretches of each kind of request."""
    if told := where.sentence(diagnosis):
        screen.add()
        screen.flow(told, "", "  ")
    for one in diagnosis.where if verbose else ():
        kinds = where.kinds(one)
        heads = ["", *(f"{kind} ({one.populations[kind].n:,})" for kind in kinds), "of excess"]
        rows = [[where.name(s), *(where.cell(s, kind) for kind in kinds), where.share(s)] for s in one.stretches]
        whole = ["whole", *(figures.duration(one.populations[kind].mean_ms) for kind in kinds), ""]
        screen.add()
        screen.add(fit(f"Where the time went: {where.title(one)}", 80, screen.ellipsis), "strong")
        for line in screen.grid([heads, *rows, whole], "<" + ">" * (len(kinds) + 1), ((0, 12),)):
            screen.add(line)


def _baseline(screen: Screen, diagnosis: Diagnosis) -> None:
    """What `--baseline` asked for: the verdict of the comparison and the figures that moved."""
    found = diagnosis.baseline
    if found is None:
        return
    screen.add()
    word = compare_view.LEVELS[found.level]
    screen.flow(found.text, f"{word} against {screen.say(found.path)}: ", "  ", "strong", len(word))
    for warning in found.warnings:
        screen.flow(warning, "  Note: ", "  ", "warn", 7)
    if found.figures:
        rows = screen.grid([["", "before", "now", "change", ""], *found.figures], "<>>><", ((0, 12),))
        screen.heading("", rows)


def _findings(screen: Screen, diagnosis: Diagnosis, verbose: bool) -> None:
    found = view.findings(diagnosis)
    if not found:
        return
    shown = found if verbose else found[:8]
    rows = [["", "symptom", "who", "observed", "limit", "affected"]]
    for finding in shown:
        symptom = finding.symptom
        values = [figures.limit(value, symptom.unit) for value in (symptom.observed, symptom.expected)]
        word = f"{view.SHAPES[symptom.severity]} {symptom.severity}"
        rows.append([word, symptom.id, symptom.subject, *values, view.affected(symptom, "/")])
    screen.add()
    lines = screen.grid(rows, "<<<>>>", ((2, 9), (1, 14), (3, 12), (4, 8), (5, 8)))
    screen.heading("Findings", lines, [_SEVERITY_STYLE[finding.symptom.severity] for finding in shown])
    screen.more(len(found) - len(shown), "")
    told = found if verbose else [finding for finding in found if finding.causes][:3] or found[:2]
    explained: set[str] = set()
    for finding in told:
        _finding(screen, finding, verbose, finding.symptom.id not in explained)
        explained.add(finding.symptom.id)


def _finding(screen: Screen, finding: Finding, verbose: bool, first: bool) -> None:
    """`first`: the first finding of its symptom, which says why it matters where nothing is looked for behind it."""
    symptom = finding.symptom
    where = [symptom.subject if symptom.subject != "all" else "", f"at {symptom.vantage}" if symptom.vantage else ""]
    where.append(figures.clock(symptom.first_at, symptom.last_at))
    screen.add()
    if figures.limit(symptom.observed, symptom.unit) != figures.measure(symptom.observed, symptom.unit):
        where.append(f"{figures.measure(symptom.observed, symptom.unit)} against {figures.number(symptom.expected)}")
    facts = ", ".join(fit(screen.say(word), 40, screen.ellipsis) for word in where if word)
    number = f"{finding.number}. "
    screen.flow(symptom.title + (f" ({facts})" if facts else ""), number, "   ", "strong")
    causes = finding.causes if verbose else finding.causes[:2]
    for cause in causes:
        _cause(screen, cause, verbose)
    screen.more(len(finding.causes) - len(causes), " causes", "   ")
    for cause, where_told in finding.also[: None if verbose else 2]:
        screen.flow(f"{cause.title} ({view.certainty(cause)}), see finding {where_told}", "   ", "     ")
    if symptom.self_explained and first:
        screen.flow(prose.plain(symptom.why), "   ", "   ")
    elif symptom.self_explained:
        return
    elif not finding.best and symptom.reason:
        screen.flow(f"It ends so: {symptom.reason}", "   ", "   ")
    elif not finding.best:
        screen.flow("No cause is supported by these logs; see what could not be checked.", "   ", "   ")
    elif finding.unexplained is not None and finding.unexplained >= 0.1:
        screen.flow(f"Unexplained: {figures.share(finding.unexplained)}", "   ", "   ")


def _cause(screen: Screen, cause: Cause, verbose: bool) -> None:
    explains = f"; explains {figures.share(cause.excess_share)} of it" if cause.excess_share is not None else ""
    screen.flow(f"{cause.title} ({view.certainty(cause)}{explains})", "   ", "     ", "strong")
    evidence: Sequence[Evidence] = cause.evidence if verbose else view.strongest(cause.evidence, 2)
    for item in evidence:
        style = {"for": "good", "against": "bad"}.get(item.verdict, "dim")
        screen.flow(item.text, f"   {_MARKS[item.verdict]} ", "     ", style, 4)
    if cause.equal_to:
        screen.flow(f"As likely: {figures.listed(cause.equal_to, 3)}", "     ", "     ")
    if cause.separate_by:
        screen.flow(f"To tell them apart: {cause.separate_by}", "     ", "     ")
    for fix in cause.fix if verbose else cause.fix[:1]:
        screen.flow(
            figures.cut(prose.plain(fix.text), 4000 if verbose else 170),
            f"   Fix, {screen.say(fix.product)}: ",
            "     ",
        )
    if verbose and cause.verify:
        screen.flow(prose.plain(cause.verify), "   Verify: ", "     ")


def _unknown(screen: Screen, diagnosis: Diagnosis, verbose: bool) -> None:
    shown = diagnosis.unknown if verbose else diagnosis.unknown[:3]
    if not shown:
        return
    screen.add()
    screen.add("Could not be checked, for want of a field", "strong")
    for item in shown:
        unlocks = figures.listed(item.unlocks, 4)
        screen.flow(f"{item.field.replace('|', ' or ')} would tell more about {unlocks}", "  ", "    ")
        if verbose and item.how:
            screen.flow(item.how, "    ", "    ")
    screen.more(len(diagnosis.unknown) - len(shown), "")


def _rules(screen: Screen, diagnosis: Diagnosis) -> None:
    screen.add()
    screen.add("Rules", "strong")
    for word, _, ids in view.tally(diagnosis):
        screen.flow(f"{word} {len(ids)}: " + (", ".join(ids) or "none"), "  ", "    ")
    if diagnosis.considered:
        screen.add()
        screen.add("Other causes that were considered", "strong")
        asked = {name: said for name, said in diagnosis.considered.items() if not said.startswith(NOT_ASKED)}
        named = {cause.id for cause in diagnosis.causes}
        for name, ending in sorted(asked.items()):
            if name in named:
                continue
            screen.flow(f"{name}: {ending}", "  ", "    ")
        idle = len(diagnosis.considered) - len(asked)
        screen.flow(f"{idle} others were not asked: no limit is broken that they would explain", "  ", "    ")
