"""The examples of rule pages, run: does each page find what it says that it finds, and nothing in its look-alike?

Every example becomes a store of its own and goes through the real engine, against all symptoms and all causes. Every
limit of a symptom is then moved a thousandfold both ways: one of the page's examples must come out the other way, or
the limit guards nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from llmdoctor.diagnose import Options, diagnose
from llmdoctor.diagnose.evidence import CONFIRMED_FROM
from llmdoctor.diagnose.values import Diagnosis
from llmdoctor.errors import LlmdoctorError
from llmdoctor.rulebook import CauseRule, Limit, Rulebook, Sample, SymptomRule
from llmdoctor.store import Store

FACTORS = (1000.0, 0.001)

# What a row has that its example does not say. Attempts without a time start 10 s apart.
_ATTEMPTS = """
create temp table placed as
select * replace (
    coalesce(started_at, timestamptz '2026-01-05 00:00:00+00' + to_seconds(10 * (line - 1))) as started_at,
    coalesce(vantage, 'client') as vantage, coalesce(input_id, 1) as input_id
)
from attempts;
delete from attempts;
insert into attempts by name
select * replace (
    coalesce(attempt_id, row_number() over (order by started_at, line)) as attempt_id,
    coalesce(ended_at, started_at + to_microseconds(cast(total_ms * 1000 as bigint))) as ended_at
)
from placed;
drop table placed;
"""
_INPUTS = """
insert into inputs by name
select input_id, 'example-' || input_id as path, 'native' as format, min(vantage) as vantage, count(*) as lines,
       count(*) as rows, 0 as bytes, 0 as rejected, 0 as blank, 0 as foreign_lines, 0 as doubled, 0 as out_of_order,
       false as grew
from attempts where input_id not in (select input_id from inputs) group by input_id
"""


def test_rules(  # named as the command `rules test` is; no test of pytest
    rulebook: Rulebook,
    only: Sequence[str] = (),  # noqa: PT028
) -> Iterator[tuple[str, bool, str]]:
    """Yields (rule id, whether it holds, one line that says what was checked or what is wrong), page by page.

    UsageError where `only` names no rule."""
    for rule_id in only:
        rulebook.check_id(rule_id)
    for symptom in rulebook.symptoms:
        if not only or symptom.id in only:
            yield from ((symptom.id, ok, text) for ok, text in _symptom(rulebook, symptom))
    for cause in rulebook.causes:
        if not only or cause.id in only:
            yield from ((cause.id, ok, text) for ok, text in _cause(rulebook, cause))


def run_example(rulebook: Rulebook, sample: Sample, only: Sequence[str] = ()) -> Diagnosis:
    """The diagnosis of one example. StoreError where a table of it cannot be filled."""
    with Store() as store:
        fill_example(store, sample)
        return diagnose(store, rulebook, Options(command="test", only=tuple(only)))


def fill_example(store: Store, sample: Sample) -> None:
    """Puts the rows of an example into an empty store and completes them."""
    store.create()
    store.script("set preserve_insertion_order = true")  # so that rows without a time keep the order of the page
    for number, (table, block) in enumerate(sample.tables):
        if table == "attempts":  # `line` keeps the order in which the page gives them
            numbered = f"select *, {number * 1_000_000} + row_number() over () as line from ({block.text})"
            store.run(f"insert into attempts by name {numbered}")
        else:
            store.run(f"insert into {table} by name {block.text}")
    store.script(_ATTEMPTS)
    store.script(_INPUTS)


def _symptom(book: Rulebook, rule: SymptomRule) -> Iterator[tuple[bool, str]]:
    for sample in rule.samples:
        place, wanted = f"{rule.page.path}:{sample.line}", "found" if sample.found else "absent"
        try:
            states = _states(run_example(_alone(book, rule), sample), rule.id)
        except LlmdoctorError as error:
            yield False, f"{place}: example cannot be run: {error}"
            continue
        if ("present" in states) == sample.found and (sample.found or "failed" not in states):
            yield True, f"{place}: {wanted}, as it should be"
        else:
            yield False, f"{place}: should be {wanted}, is {', '.join(sorted(set(states))) or 'not judged'}"
    for limit in rule.limits.values():
        yield _mutation(book, rule, limit)


def _alone(book: Rulebook, rule: SymptomRule) -> Rulebook:
    return Rulebook((rule,), (), book.fields, book.profile, book.calibration)


def _states(diagnosis: Diagnosis, rule_id: str) -> list[str]:
    return [
        f"{one.state} ({one.reason})" if one.state == "failed" else one.state
        for one in diagnosis.symptoms
        if one.id == rule_id
    ]


def _mutation(book: Rulebook, rule: SymptomRule, limit: Limit) -> tuple[bool, str]:
    """Whether one of the examples comes out otherwise when the limit is a thousand times as high or low."""
    name = f"{rule.page.path}: limit {limit.name}"
    for factor in FACTORS:
        moved = replace(rule, limits={**rule.limits, limit.name: replace(limit, value=limit.value * factor)})
        for sample in rule.samples:
            try:
                found = "present" in _states(run_example(_alone(book, moved), sample), rule.id)
            except LlmdoctorError:
                continue
            if found != sample.found:
                return True, f"{name} x {factor:g} turns the example in line {sample.line}"
    return False, f"{name}: x 1000 and x 0.001 turn no example: add one that rests on it, or drop the limit"


def _cause(book: Rulebook, rule: CauseRule) -> Iterator[tuple[bool, str]]:
    for sample in rule.samples:
        if sample.rule not in (rule.id, rule.page.id):
            continue
        place = f"{rule.page.path}:{sample.line}"
        try:
            diagnosis = run_example(book, sample)
        except LlmdoctorError as error:
            yield False, f"{place}: example cannot be run: {error}"
            continue
        yield _found(rule, place, diagnosis) if sample.found else _absent(rule, place, diagnosis)


def _found(rule: CauseRule, place: str, diagnosis: Diagnosis) -> tuple[bool, str]:
    if diagnosis.causes and diagnosis.causes[0].id == rule.id:
        return True, f"{place}: first, with {diagnosis.causes[0].confidence:.2f}"
    return False, f"{place}: should be first, but {_standing(diagnosis)}"


def _absent(rule: CauseRule, place: str, diagnosis: Diagnosis) -> tuple[bool, str]:
    """A look-alike may name the cause as a faint possibility, never as what it is."""
    listed: Mapping[str, float] = {cause.id: cause.confidence for cause in reversed(diagnosis.causes)}
    if listed.get(rule.id, 0.0) < CONFIRMED_FROM:
        return True, f"{place}: not named, as it should be"
    return False, f"{place}: should not be named, but {_standing(diagnosis)}"


def _standing(diagnosis: Diagnosis) -> str:
    causes = ", ".join(f"{cause.id} {cause.confidence:.2f}" for cause in diagnosis.causes[:4])
    seen = ", ".join(sorted({one.id for one in diagnosis.present}))
    return f"the causes are {causes or 'none'} (seen: {seen or 'nothing'})"
