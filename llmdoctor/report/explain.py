"""One finding of a report in full: what its page says, and what this report measured of it."""

from collections.abc import Mapping
from typing import Any

from llmdoctor.errors import UsageError
from llmdoctor.report import figures, prose, view
from llmdoctor.report.screen import Screen, is_plain
from llmdoctor.rulebook import CauseRule, Rulebook, SymptomRule

Plain = Mapping[str, Any]  # a part of a report as it was read back

_MARKS = {"for": "+", "against": "-", "unknown": "?"}
_STYLES = {"for": "good", "against": "bad", "unknown": "dim"}
_MOST = 8


def rule_of(report: Plain, finding: str) -> str:
    """The id of a rule: that of the finding with this number in the report's order, else the word itself. UsageError
    where the report has no such number."""
    if not finding.isdecimal():
        return finding
    present = [one for one in _list(report, "symptoms") if one.get("state") == "present"]
    if not 0 < int(finding) <= len(present):
        told = figures.plural(len(present), "finding")
        raise UsageError(f"{finding}: this report has {told}: give a number up to that, or the id of a rule")
    return str(present[int(finding) - 1]["id"])


def render(report: Plain, book: Rulebook, rule_id: str, *, colour: bool = False, encoding: str = "utf-8") -> str:
    """The text, newline at the end; `rule_id` is one of the book's."""
    screen = Screen(colour, is_plain(encoding))
    symptom = next((rule for rule in book.symptoms if rule.id == rule_id), None)
    if symptom is not None:
        _symptom(screen, report, book, symptom)
    else:
        _cause(screen, report, next(rule for rule in book.causes if rule.id == rule_id))
    return "\n".join(screen.lines) + "\n"


def _list(report: Plain, name: str) -> list[Any]:
    found = report.get(name)
    return found if isinstance(found, list) else []


def _told(screen: Screen, heading: str, text: str) -> None:
    """A section of a page."""
    if not text.strip():
        return
    screen.add()
    screen.add(heading, "strong")
    for kind, words in prose.rows(text):
        if kind == "|":
            screen.add(f"      {screen.say(words)}")
        else:
            screen.flow(words, "  - " if kind == "-" else "  ", "    " if kind == "-" else "  ")


def _symptom(screen: Screen, report: Plain, book: Rulebook, rule: SymptomRule) -> None:
    screen.flow(f"{rule.title} ({rule.id}, symptom)", "", "", "strong")
    screen.add()
    rows = [one for one in _list(report, "symptoms") if one.get("id") == rule.id]
    for one in rows[:_MOST]:
        screen.flow(f"{_seen(one)}", "  ", "    ")
    screen.more(len(rows) - _MOST, "")
    if not rows:
        screen.flow("This report does not judge it: it was made with other rules, or with --only.", "  ", "  ")
    for limit in rule.limits.values():
        screen.flow(f"Limit {limit.name} = {limit.value:g}: {limit.help}", "  ", "    ")
    _told(screen, "Why it matters", rule.why)
    _causes_of(screen, report, book, rule)
    _told(screen, "When this is wrong", rule.caveat)


def _seen(one: Plain) -> str:
    """How one subject of a symptom ended, with its figures."""
    unit = str(one.get("unit") or "")
    words = [str(one.get("subject") or "all"), f"at {one['vantage']}" if one.get("vantage") else ""]
    if one.get("observed") is not None:
        words.append(f"{figures.measure(one['observed'], unit)} against {figures.limit(one.get('expected'), unit)}")
    if one.get("affected") is not None and one.get("total") is not None:
        words.append(f"{one['affected']:,} of {one['total']:,} affected")
    words += [figures.span(one.get("first_at"), one.get("last_at")), str(one.get("reason") or "")]
    severity = f" ({one.get('severity')})" if one.get("state") == "present" else ""
    return f"{one.get('state')}{severity}: {', '.join(word for word in words if word)}"


def _causes_of(screen: Screen, report: Plain, book: Rulebook, rule: SymptomRule) -> None:
    """What explains it here, and how the other causes that could were judged."""
    screen.add()
    screen.add("Causes", "strong")
    named = [one for one in _list(report, "causes") if rule.id in one.get("explains", ())]
    for one in named[:_MOST]:
        screen.flow(
            f"{one['title']} ({_certain(one)}): llmdoctor explain {one['id']} REPORT", "  + ", "    ", "good", 3
        )
    listed = {one.get("id") for one in named}
    for cause in book.causes:
        if rule.id in cause.explains and cause.id not in listed:
            ending = _ending(report, cause.id).split(" | ")[0]
            screen.flow(f"{cause.id}: {figures.cut(ending, 150)}", "    ", "      ")


def _ending(report: Plain, rule_id: str) -> str:
    """How a rule ended that the report does not list."""
    considered = report.get("considered")
    if isinstance(considered, Mapping) and rule_id in considered:
        return str(considered[rule_id])
    tally = report.get("rules") or {}
    return next((word for word, ids in tally.items() if rule_id in (ids or ())), "not judged")


def _certain(one: Plain) -> str:
    told = view.percent(float(one.get("confidence") or 0)) + (", provisional" if one.get("provisional") else "")
    share = one.get("excess_share")
    return told + (f"; explains {figures.share(share)} of it" if share is not None else "")


def _cause(screen: Screen, report: Plain, rule: CauseRule) -> None:
    screen.flow(f"{rule.title} ({rule.id}, cause, {rule.layer})", "", "", "strong")
    found = [one for one in _list(report, "causes") if one.get("id") == rule.id]
    if not found:
        screen.add()
        screen.flow(f"Not named in this report: {_ending(report, rule.id)}", "  ", "  ")
    for one in found[:_MOST]:
        _found(screen, one)
    screen.more(len(found) - _MOST, "")
    _told(screen, "What it is", rule.page.head.prose)
    if not found:
        screen.add()
        screen.add("What would speak for or against it", "strong")
        for piece in rule.evidence:
            screen.flow(piece.sentence, "  - ", "    ")
    for product, text in rule.fixes:
        _told(screen, f"Fix, {product}", text)
    _told(screen, "Verify", rule.verify)
    _told(screen, "When this is wrong", rule.caveat)


def _found(screen: Screen, one: Plain) -> None:
    """The cause under one finding: certainty, evidence with all values, where to look."""
    screen.add()
    under = str(one.get("symptom")) + ("" if one.get("subject") in (None, "all") else f", {one['subject']}")
    screen.flow(
        f"Under {under}: {_certain(one)}; {figures.plural(int(one.get('affected') or 0), 'attempt')}", "  ", "  "
    )
    for item in one.get("evidence", ()):
        verdict = str(item.get("verdict"))
        screen.flow(str(item.get("text")), f"  {_MARKS.get(verdict, '?')} ", "    ", _STYLES.get(verdict, ""), 3)
        if values := _values(item.get("values")):
            screen.flow(values, "      ", "      ", "dim")
    places = [
        f"{x.get('file')}{'' if x.get('line') is None else ':' + str(x['line'])}"
        + (f" ({x['request_id']})" if x.get("request_id") else "")
        for x in one.get("examples", ())
    ]
    if places:
        screen.flow(f"For example {figures.listed(places, 5)}", "  ", "    ")


def _values(values: object) -> str:
    if not isinstance(values, Mapping):
        return ""
    shown = [f"{name} = {figures.number(v) if isinstance(v, float) else v}" for name, v in values.items()]
    return ", ".join(shown)
