"""What a ticket is told, in whatever markup: verdict, course of time, findings with cause and fix, what is missing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from llmdoctor.diagnose.values import Cause, Diagnosis, Symptom, Timeline
from llmdoctor.report import compare_view, figures, prose, view
from llmdoctor.report.timeline import latencies, latency_name
from llmdoctor.report.view import Finding

MOST = 4000
SPARKS = "▁▂▃▄▅▆▇█"
WIDE = 48

# How many findings, causes of each, sentences of each, missing fields, characters of a text; tried in this order.
_STEPS = ((8, 3, 4, 6, 400), (6, 2, 3, 4, 300), (4, 2, 2, 3, 200), (3, 1, 2, 2, 140), (1, 1, 1, 1, 90))


@dataclass(frozen=True)
class Dialect:
    """One kind of markup. `text` takes words from data or a page (and at most how many characters), `code` a name;
    `item` the level of a list item, from 1, and `block` lines that keep their columns."""

    text: Callable[[str, int], str]
    code: Callable[[str, int], str]
    bold: Callable[[str], str]
    item: Callable[[int], str]
    number: Callable[[int], str]
    block: Callable[[Sequence[str]], list[str]]


def render(diagnosis: Diagnosis, dialect: Dialect) -> str:
    """The text, below MOST characters: where it would be longer, less of each is told; every cut list says how many
    are left."""
    found = view.findings(diagnosis)
    text = ""
    for step in _STEPS:
        text = _document(dialect, diagnosis, found, *step).replace(figures.NBSP, " ")
        if len(text) < MOST:
            return text
    return figures.cut(text, MOST - 2) + "\n"


def _document(
    say: Dialect,
    diagnosis: Diagnosis,
    found: tuple[Finding, ...],
    most: int,
    causes: int,
    sentences: int,
    fields: int,
    longest: int,
) -> str:
    verdict = diagnosis.verdict
    rows = [f"{say.bold(view.LEVELS[verdict.level])}: {say.text(verdict.text, longest)}", ""]
    rows.append(say.text(view.scope(diagnosis), 300))
    rows += [row for told in view.exposed(diagnosis, 3) for row in ("", say.text(told, 300))]
    rows += [row for told in view.course(diagnosis)[:2] for row in ("", say.text(told, longest))]
    if against := diagnosis.baseline:
        word, path = compare_view.LEVELS[against.level], say.text(against.path, 120)
        rows += ["", f"{say.bold(word)} against {path}: {say.text(against.text, longest)}"]
    if sparks := sparklines(diagnosis.timeline):
        rows += ["", *say.block(sparks)]
    if found:
        rows += ["", f"{say.bold('Findings')} ({len(found):,})", ""]
    for finding in found[:most]:
        rows.append(_headline(say, finding.symptom, finding.number, longest))
        rows += _causes(say, finding, causes, sentences, longest)
    if more := _more(found, most, ""):
        rows += ["", *more]  # without the blank line it would belong to the last item
    if diagnosis.unknown:
        rows += ["", say.bold("Could not be checked, for want of a field"), ""]
        for item in diagnosis.unknown[:fields]:
            unlocks = figures.listed([say.code(name, 60) for name in item.unlocks], 3)
            name = say.code(item.field.replace("|", " or "), 60)
            rows.append(f"{say.item(1)}{name} would tell more about {unlocks}")
        rows += _more(diagnosis.unknown, fields, say.item(1))
    if verdict.next:
        rows += ["", f"Next: {say.text(verdict.next, longest)}"]
    rows += ["", f"llmdoctor {say.text(diagnosis.version, 40)}: {say.code(diagnosis.command, longest)}"]
    return "\n".join(rows) + "\n"


def _headline(say: Dialect, symptom: Symptom, number: int, longest: int) -> str:
    facts = [symptom.severity, "" if symptom.subject == "all" else say.code(symptom.subject, 60)]
    facts.append(f"at {say.text(symptom.vantage, 40)}" if symptom.vantage else "")
    if symptom.observed is not None:
        unit = figures.line(symptom.unit)[:40]
        against = figures.limit(symptom.expected, symptom.unit)
        facts.append(f"{say.text(figures.measure(symptom.observed, unit), 80)} against {against}")
    if symptom.affected is not None:
        facts.append(f"{view.affected(symptom)} affected")
    facts.append(say.text(figures.span(symptom.first_at, symptom.last_at), 80))
    told = "; ".join(fact for fact in facts if fact)
    return f"{say.number(number)}{say.bold(say.text(symptom.title, longest))} ({told})"


def _causes(say: Dialect, finding: Finding, most: int, sentences: int, longest: int) -> list[str]:
    lead, rows = say.item(2), []
    for cause in finding.causes[:most]:
        share = f"; explains {figures.share(cause.excess_share)} of it" if cause.excess_share is not None else ""
        rows.append(f"{lead}{say.bold(say.text(cause.title, longest))} ({view.certainty(cause)}{share})")
        rows += _told(say, cause, sentences, longest)
    rows += _more(finding.causes, most, lead)
    if not finding.causes and finding.also:
        cause, where = finding.also[0]
        rows.append(f"{lead}{say.text(cause.title, longest)} ({view.certainty(cause)}), see finding {where}")
    if finding.symptom.self_explained:
        rows.append(f"{lead}{say.text(prose.plain(finding.symptom.why), longest)}")
    elif not finding.best:
        rows.append(f"{lead}no cause is supported by these logs")
    return rows


def _told(say: Dialect, cause: Cause, sentences: int, longest: int) -> list[str]:
    chosen = view.strongest(cause.evidence, (sentences + 1) // 2)[:sentences]
    rows = [f"{say.item(3)}{view.SIDES[item.verdict]}: {say.text(item.text, longest)}" for item in chosen]
    if cause.fix:
        fix = cause.fix[0]
        rows.append(f"{say.item(3)}fix, {say.text(fix.product, 40)}: {say.text(prose.plain(fix.text), longest)}")
    return rows


def _more(items: tuple[object, ...], shown: int, lead: str) -> list[str]:
    return [f"{lead}and {len(items) - shown:,} more"] if len(items) > shown else []


# --- the course of time in characters


def sparklines(timeline: Timeline) -> list[str]:
    """Attempts, median latency (logarithmic) and failures as rows of at most WIDE characters, each the highest of what
    falls on it; [] where fewer than four stretches of time are known."""
    bins = timeline.bins
    if len(bins) < 4 or timeline.bin_ms <= 0:
        return []
    name, step = latency_name(timeline), figures.duration(timeline.bin_ms)
    counts, failures = [float(one.requests) for one in bins], [float(one.failures) for one in bins]
    rows: list[tuple[str, Values, str]] = [("attempts", counts, f"at most {max(counts):,.0f} in {step}")]
    medians = [latencies(timeline, one)[0] for one in bins]
    if any(medians):
        rows.append((f"P50 {name}", [math.log10(value) if value else None for value in medians], _range(medians)))
    if any(failures):
        rows.append(("failed", failures, f"at most {max(failures):,.0f} in {step}"))
    end = (figures.moment(bins[0].at) or _EPOCH) + timedelta(milliseconds=timeline.bin_ms * len(bins))
    window = figures.span(bins[0].at, end.isoformat())
    return [f"{word:<10}{_sparks(values)}  {told}" for word, values, told in rows] + [f"{'':<10}{window}"]


Values = Sequence[float | None]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _range(values: Values) -> str:
    known = [value for value in values if value]
    return f"{figures.duration(min(known))} to {figures.duration(max(known))}"


def _sparks(values: Values) -> str:
    """One character each, or for each group of neighbours; a dot where nothing is known."""
    join = math.ceil(len(values) / WIDE)
    groups = [[one for one in values[i : i + join] if one is not None] for i in range(0, len(values), join)]
    known = [max(group) for group in groups if group]
    low, high = min(known), max(known)
    low = 0.0 if low >= 0 and all(value == int(value) for value in known) else low

    def spark(value: float) -> str:
        return SPARKS[min(7, int(8 * (value - low) / (high - low)))] if high > low else SPARKS[0]

    return "".join(spark(max(group)) if group else "·" for group in groups)
