"""The text for a ticket: Markdown of less than 4,000 characters in which nothing from the data is markup."""

import re

from llmdoctor.diagnose.values import Cause, Diagnosis, Symptom
from llmdoctor.report import figures, prose, view
from llmdoctor.report.view import Finding

MOST = 4000

# A word of letters, digits and harmless punctuation stays as it is; any other becomes code, in which nothing is markup.
_PLAIN = re.compile(r"(?:[^\W_]|[,;'\"%.:/=()+!?-])+|&")
_LINK = re.compile(r"://|www\.", re.IGNORECASE)
_SPAN = re.compile(r"`([^`\n]+)`")

# How many findings, causes of each, sentences of each, missing fields, characters of a text; tried in this order.
_STEPS = ((8, 3, 4, 6, 400), (6, 2, 3, 4, 300), (4, 2, 2, 3, 200), (3, 1, 2, 2, 140), (1, 1, 1, 1, 90))


def escaped(text: str, longest: int = 400) -> str:
    """Text from data or a page on one line: words that could be links, mentions, markup or HTML become code spans.
    Code spans of the text itself are kept."""
    pieces = []
    for number, piece in enumerate(_SPAN.split(figures.cut(figures.line(text).replace(figures.NBSP, " "), longest))):
        pieces.append(code(piece) if number % 2 else " ".join(_word(word) for word in piece.split(" ")))
    return "".join(pieces)


def code(text: str, longest: int = 120) -> str:
    """A name from data as a code span; a back tick in it becomes an apostrophe."""
    shown = figures.cut(figures.line(text), longest).replace("`", "'").replace("|", "¦").strip()
    return f"`{shown or ' '}`"


def _word(word: str) -> str:
    return word if not word or (_PLAIN.fullmatch(word) and not _LINK.search(word)) else code(word)


def render(diagnosis: Diagnosis) -> str:
    """Verdict, findings, their best causes with evidence and fix, and what could not be checked. Where that is too
    long, less of each is told; every cut list says how many are left."""
    found = view.findings(diagnosis)
    text = ""
    for step in _STEPS:
        text = _document(diagnosis, found, *step).replace(figures.NBSP, " ")
        if len(text) < MOST:
            return text
    return figures.cut(text, MOST - 2) + "\n"


def _document(
    diagnosis: Diagnosis, found: tuple[Finding, ...], most: int, causes: int, sentences: int, fields: int, longest: int
) -> str:
    verdict = diagnosis.verdict
    rows = [
        f"**{view.LEVELS[verdict.level]}**: {escaped(verdict.text, longest)}",
        "",
        escaped(view.scope(diagnosis), 300),
    ]
    rows += [row for told in view.exposed(diagnosis, 3) for row in ("", escaped(told, 300))]
    if found:
        rows += ["", f"**Findings** ({len(found):,})", ""]
    for finding in found[:most]:
        rows.append(_headline(finding.symptom, finding.number, longest))
        rows += _causes(finding, causes, sentences, longest)
    rows += _more(found, most, "")
    if diagnosis.unknown:
        rows += ["", "**Could not be checked, for want of a field**", ""]
        for item in diagnosis.unknown[:fields]:
            unlocks = figures.listed([code(name, 60) for name in item.unlocks], 3)
            rows.append(f"- {code(item.field.replace('|', ' or '), 60)} would tell more about {unlocks}")
        rows += _more(diagnosis.unknown, fields, "- ")
    if verdict.next:
        rows += ["", f"Next: {escaped(verdict.next, longest)}"]
    rows += ["", f"llmdoctor {escaped(diagnosis.version)}: {code(diagnosis.command, longest)}"]
    return "\n".join(rows) + "\n"


def _headline(symptom: Symptom, number: int, longest: int) -> str:
    facts = [symptom.severity, "" if symptom.subject == "all" else code(symptom.subject, 60)]
    facts.append(f"at {escaped(symptom.vantage, 40)}" if symptom.vantage else "")
    if symptom.observed is not None:
        unit = figures.line(symptom.unit)[:40]
        against = figures.limit(symptom.expected, symptom.unit)
        facts.append(f"{escaped(figures.measure(symptom.observed, unit))} against {against}")
    if symptom.affected is not None:
        facts.append(f"{view.affected(symptom)} affected")
    facts.append(escaped(figures.span(symptom.first_at, symptom.last_at), 80))
    return f"{number}. **{escaped(symptom.title, longest)}** ({'; '.join(fact for fact in facts if fact)})"


def _causes(finding: Finding, most: int, sentences: int, longest: int) -> list[str]:
    rows = []
    for cause in finding.causes[:most]:
        share = f"; explains {figures.share(cause.excess_share)} of it" if cause.excess_share is not None else ""
        rows.append(f"   - **{escaped(cause.title, longest)}** ({view.certainty(cause)}{share})")
        rows += _told(cause, sentences, longest)
    rows += _more(finding.causes, most, "   - ")
    if not finding.causes and finding.also:
        cause, where = finding.also[0]
        rows.append(f"   - {escaped(cause.title, longest)} ({view.certainty(cause)}), see finding {where}")
    if finding.symptom.self_explained:
        rows.append(f"   - {escaped(prose.plain(finding.symptom.why), longest)}")
    elif not finding.best:
        rows.append("   - no cause is supported by these logs")
    return rows


def _told(cause: Cause, sentences: int, longest: int) -> list[str]:
    chosen = view.strongest(cause.evidence, (sentences + 1) // 2)[:sentences]
    rows = [f"     - {view.SIDES[item.verdict]}: {escaped(item.text, longest)}" for item in chosen]
    if cause.fix:
        fix = cause.fix[0]
        rows.append(f"     - fix, {escaped(fix.product, 40)}: {escaped(prose.plain(fix.text), longest)}")
    return rows


def _more(items: tuple[object, ...], shown: int, lead: str) -> list[str]:
    return [f"{lead}and {len(items) - shown:,} more"] if len(items) > shown else []
