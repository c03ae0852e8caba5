"""What is wrong with rule pages beyond their shape, page by page: `file:line: what, what to do`.

`rulebook.load` has checked headings and keys already; here every query is parsed and walked (`queries.py`), held
against what the page says that it needs, and bound by DuckDB over empty tables.
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from llmdoctor import stats
from llmdoctor.errors import StoreError
from llmdoctor.lint import queries
from llmdoctor.lint.dialect import blanked
from llmdoctor.lint.queries import Query, Relation
from llmdoctor.lint.sqltree import words
from llmdoctor.pages import Block, Page
from llmdoctor.rulebook import ID, CauseRule, EvidenceRule, Rulebook, Sample, SymptomRule
from llmdoctor.store import Store, bind_limits

SYMPTOM_COLUMNS = (
    "vantage", "subject", "observed", "expected", "affected", "total", "first_at", "last_at", "holds",
)  # fmt: skip
EVIDENCE_COLUMNS = ("subject", "supports")
AFFECTED_COLUMNS = ("subject", "attempt_id", "claim")

# What a query may read without saying so: every record has it, or the store always does.
FREE = words("attempt_id vantage started_at ended_at outcome total_ms stream model")
ALWAYS = words(
    "attempts front front_expected expected in_flight tried pairs vantages slices quantiles walls segments silences"
    " inputs rejects bad_fields secrets path staged task_audit"
)
SAMPLE_TABLES = (
    "attempts",
    "chunks",
    "facts",
    "stages",
    "task_events",
    "engine_samples",
    "inputs",
    "secrets",
    "rejects",
)
_INSTANT = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Desk:
    """What every check needs: an empty, prepared store and what may be read in it."""

    store: Store
    known: Mapping[str, Relation]
    views: frozenset[str]


@contextmanager
def desk() -> Iterator[Desk]:
    """A desk at which any number of rule books can be checked."""
    with Store() as store:
        store.create()
        stats.prepare(store)
        known = queries.catalogue(store)
        store.seal()
        yield Desk(store, known, frozenset(name for name, _ in queries.views()))


def lint(rulebook: Rulebook) -> list[str]:
    """Every fault of every page, sorted by page and line. Empty where all is well."""
    with desk() as own:
        return faults(own, rulebook)


def faults(desk: Desk, rulebook: Rulebook) -> list[str]:
    """As `lint`, at a desk that is there."""
    found = {fault for symptom in rulebook.symptoms for fault in _symptom(desk, symptom)}
    found |= {fault for cause in rulebook.causes for fault in _cause(desk, cause)}
    return [f"{path}:{line}: {text}" for path, line, text in sorted(found)]


Fault = tuple[str, int, str]


def _symptom(desk: Desk, rule: SymptomRule) -> Iterator[Fault]:
    page, line = rule.page, rule.page.head.line
    values = {name: limit.value for name, limit in rule.limits.items()}
    yield from _names(page, rule.id, rule.limits)
    for part, text in (("Why it matters", rule.why), ("When this is wrong", rule.caveat)):
        if not text:
            yield page.path, line, f"'## {part}' is empty: write a sentence"
    query = queries.examine(desk.store, rule.query.text, desk.known)
    yield from _query(desk, page, rule.query, query, values)
    if query.relation.columns and set(query.relation.columns) != set(SYMPTOM_COLUMNS):
        given = ", ".join(query.relation.columns)
        yield page.path, rule.query.line, f"query returns {given}: a symptom returns {', '.join(SYMPTOM_COLUMNS)}"
    _, used = bind_limits(rule.query.text)
    for name in sorted(values.keys() - used):
        yield page.path, line, f"limit {name!r} is not used by the query: write :{name} there or drop it"
    reads = query.reads
    if rule.affected:
        key, rows = ("task_key", "task_audit") if rule.counts == "tasks" else ("attempt_id", "front")
        block = Block("sql", f"select {key} from {rows} where {rule.affected}", line)
        condition = queries.examine(desk.store, block.text, desk.known)
        yield from ((path, line, f"affected: {text}") for path, _, text in _query(desk, page, block, condition, values))
        reads |= condition.reads
    if rule.excess not in (None, "ttft_ms", "total_ms"):
        yield page.path, line, f"excess = {rule.excess!r}: it is ttft_ms or total_ms"
    yield from _needs(desk, page, line, rule, reads)
    yield from _sure(page, line, reads)
    for sample in rule.samples:
        yield from _sample(desk, page, sample)


def _cause(desk: Desk, rule: CauseRule) -> Iterator[Fault]:
    page, line = rule.page, rule.page.head.line
    yield from _names(page, rule.id, {})
    if rule.dimension and rule.dimension not in desk.known["attempts"].columns:
        yield page.path, line, f"ids: {rule.dimension!r} is no column of attempts"
    if not rule.fixes or not all(title and text for title, text in rule.fixes):
        yield (
            page.path,
            _line(page, "Fix"),
            "'## Fix' is empty: write one '###' for each product and what to change there",
        )
    for part, text in (("Verify", rule.verify), ("When this is wrong", rule.caveat)):
        if not text:
            yield page.path, _line(page, part), f"'## {part}' is empty: write a sentence"
    values: dict[str, Any] = {"dimension": rule.dimension, "kind": "any"} if rule.dimension else {}
    against, figures = False, dict[str, Any]()
    for piece in rule.evidence:
        query = queries.examine(desk.store, piece.query.text, desk.known)
        yield from _evidence(desk, rule, piece, query, values)
        supports = query.relation.columns.get("supports")
        against |= supports is None or supports.can_be_false
        figures |= _figures(query)
    if not against:
        text = "no piece of evidence can speak against this cause: let one return false for its look-alike"
        yield page.path, _line(page, "Evidence"), text
    yield from _sentence(page, line, rule.title, figures)
    query = queries.examine(desk.store, rule.affected.text, desk.known)
    yield from _query(desk, page, rule.affected, query, values)
    yield from _returns(page, rule.affected, query, AFFECTED_COLUMNS)
    for sample in rule.samples:
        yield from _sample(desk, page, sample)


def _evidence(
    desk: Desk, rule: CauseRule, piece: EvidenceRule, query: Query, values: Mapping[str, Any]
) -> Iterator[Fault]:
    page = rule.page
    yield from _query(desk, page, piece.query, query, values)
    yield from _returns(page, piece.query, query, EVIDENCE_COLUMNS)
    yield from _sentence(page, piece.line, piece.sentence, _figures(query))
    yield from _needs(desk, page, piece.line, piece, query.reads, free=frozenset({rule.dimension or ""}))
    if piece.decisive:
        yield from _sure(page, piece.line, query.reads)
    if piece.weight <= 0:
        yield page.path, piece.line, f"weight = {piece.weight:g}: a piece of evidence weighs more than 0"


def _names(page: Page, rule_id: str, limits: Mapping[str, Any]) -> Iterator[Fault]:
    for name in (rule_id, *limits):
        if not ID.fullmatch(name):
            yield page.path, page.head.line, f"{name!r} is no id: write lower case words joined by underscores"


def _query(desk: Desk, page: Page, block: Block, query: Query, values: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of the text, then of its names, then what DuckDB says of it."""
    for offset, text in query.faults:
        before = block.text.encode()[:offset].count(b"\n")
        yield page.path, block.line + before, f"query {text}"
    _, used = bind_limits(block.text)
    for name in sorted(used - values.keys()):
        near = f"there is {', '.join(':' + known for known in sorted(values))}" if values else "this page has none"
        line = block.line + blanked(block.text).partition(f":{name}")[0].count("\n")
        yield page.path, line, f"no limit is called {name!r}: {near}"
    if not query.faults and used <= values.keys():
        try:
            desk.store.ask(block.text, values)
        except StoreError as error:
            yield page.path, block.line, f"query does not run: {error}"


def _returns(page: Page, block: Block, query: Query, wanted: Sequence[str]) -> Iterator[Fault]:
    missing = [name for name in wanted if name not in query.relation.columns]
    if missing and query.relation.columns:
        yield page.path, block.line, f"query returns no {', '.join(missing)}: give it {', '.join(wanted)}"


def _figures(query: Query) -> dict[str, Any]:
    """A value for each column, as the engine would hand it to a sentence."""
    samples = {"text": "x", "int": 3, "bool": True, "instant": _INSTANT.isoformat()}
    columns = query.relation.columns.items()
    return {name: samples.get(column.kind, 1.5) for name, column in columns if name not in EVIDENCE_COLUMNS}


def _sentence(page: Page, line: int, sentence: str, figures: Mapping[str, Any]) -> Iterator[Fault]:
    try:
        fields = [(name, spec) for _, name, spec, _ in string.Formatter().parse(sentence) if name is not None]
    except ValueError as error:
        yield page.path, line, f"sentence cannot be read: {error}; write a lone brace twice"
        return
    for name, spec in fields:
        if name not in figures:
            yield (
                page.path,
                line,
                f"{{{name}}} is no column of the query: it returns {', '.join(figures) or 'no figure'}",
            )
            continue
        try:
            format(figures[name], spec or "")
        except ValueError:
            yield page.path, line, f"{{{name}:{spec}}} does not fit its value: use one like :.0f, :.1f, :.0%"


def _needs(
    desk: Desk,
    page: Page,
    line: int,
    rule: SymptomRule | EvidenceRule,
    reads: frozenset[frozenset[str]],
    *,
    free: frozenset[str] = frozenset(),
) -> Iterator[Fault]:
    """Whether `needs` and `also` say what the query reads of attempts and of tables that may be empty."""
    names = {name for read in reads for name in read}
    names |= {name.split(".")[0] for name in names} | ({"total_ms"} if "ended_at" in names else set())
    named = set()
    for key, entries in (("needs", rule.needs), ("also", rule.also)):
        for entry in entries:
            given = [word.removeprefix("attempts.").removeprefix("front.") for word in entry.split("|")]
            named |= set(given) | {word.split(".")[0] for word in given if "." in word}
            if unknown := [word for word in given if not _exists(desk, word)]:
                yield page.path, line, f"{key} names {', '.join(unknown)}: no column of attempts, view.column or table"
            elif not names & set(given):
                yield page.path, line, f"{key} names {entry}, which the query does not read: drop it"
    for read in sorted(reads, key=sorted):
        known = FREE | ALWAYS | desk.views | free
        strict = {name for name in read if "." not in name} - known
        if strict and not (read - known) & (named - desk.views):
            best = min(read - known, key=lambda name: ("." in name, name))
            shown = best if len(strict) == 1 else ", ".join(sorted(strict))
            yield page.path, line, f"query reads {shown}: add it to needs, or to also if it can do without"


def _sure(page: Page, line: int, reads: frozenset[frozenset[str]]) -> Iterator[Fault]:
    """What decides must not rest on two sides that were brought together by time alone."""
    names = {name for read in reads for name in read}
    if any(name.startswith("calls.server_") for name in names) and "calls.joined_by" not in names:
        yield page.path, line, "query decides by what the other side says: ask that joined_by <> 'time' in calls"


def _exists(desk: Desk, word: str) -> bool:
    table, _, column = word.rpartition(".")
    if table:
        return table in desk.known and column in desk.known[table].columns
    return word in desk.known["attempts"].columns or word in desk.known


def _sample(desk: Desk, page: Page, sample: Sample) -> Iterator[Fault]:
    for table, block in sample.tables:
        if table not in SAMPLE_TABLES:
            yield page.path, block.line, f"example of {table!r}: rows go into {', '.join(SAMPLE_TABLES)}"
            continue
        query = queries.examine(desk.store, block.text, {}, functions=("range",), portable=False)
        faults = list(_query(desk, page, block, query, {}))
        yield from ((path, line, f"example's {text}") for path, line, text in faults)
        unknown = set(query.relation.columns) - set(desk.known[table].columns)
        if not faults and unknown:
            yield page.path, block.line, f"example gives {', '.join(sorted(unknown))}: no column of {table}"


def _line(page: Page, title: str) -> int:
    section = page.section(title)
    return section.line if section else page.head.line
