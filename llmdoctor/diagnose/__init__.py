"""Store + Rulebook -> Diagnosis: the straight line from rows to conclusions.

prepare     derived tables and views (stats), then the store is sealed
symptoms    is a limit broken?
causes      under each broken limit: what speaks for and against each cause, what it accounts for
answers     percentiles, cases side by side, timeouts, what could not be checked, the verdict
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmdoctor import __version__
from llmdoctor.diagnose.advice import advise_timeouts
from llmdoctor.diagnose.answers import list_inputs, list_metrics, missing_fields, timeline, verdict, window
from llmdoctor.diagnose.arrivals import arrivals
from llmdoctor.diagnose.cases import pick_cases, side_by_side
from llmdoctor.diagnose.causes import Causes, judge_causes
from llmdoctor.diagnose.charts import pictures
from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.limits import advise_limits
from llmdoctor.diagnose.sampling import take_samples
from llmdoctor.diagnose.shared_ids import unshared_ids
from llmdoctor.diagnose.shifts import find_shifts
from llmdoctor.diagnose.stages import where_time_went
from llmdoctor.diagnose.story import tell
from llmdoctor.diagnose.symptoms import judge_symptoms
from llmdoctor.diagnose.values import Diagnosis, RuleTally, Symptom
from llmdoctor.ingest import locate
from llmdoctor.rulebook import Rulebook
from llmdoctor.stats import prepare
from llmdoctor.store import Store

__all__ = ["Diagnosis", "Options", "diagnose", "prepare"]


@dataclass(frozen=True)
class Options:
    """What the user asked: the command line as shown, notes of the ingest, settings in force, rules to leave out."""

    command: str = "analyze"
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    verbose: bool = False


def diagnose(store: Store, book: Rulebook, options: Options | None = None) -> Diagnosis:
    """Judges everything in a filled store. The store is prepared and sealed here; give it once.

    Returns the Diagnosis; UsageError where `ignore` or `only` name no rule. A rule that fails is a value in it."""
    options = options or Options()
    for rule_id in (*options.ignore, *options.only):
        book.check_id(rule_id)
    prepare(store)
    store.seal()
    book = _only(book, options.only)
    fronts = Fronts(store, book.needs)
    symptoms = judge_symptoms(store, fronts, book, options.ignore)
    causes = judge_causes(store, fronts, book, symptoms, options.ignore)
    judged = [one for one in symptoms if one.state == "present"]
    symptoms = _by_best_cause(symptoms, causes)
    first, last = window(store)
    findings = [one for one in symptoms if one.state == "present"]
    over_time = timeline(store, fronts)
    shifts = find_shifts(store, book, findings)
    cases = pick_cases(store, fronts, findings)
    shown = {number for one in cases for number in one.attempts}.union(*causes.examples.values())
    lines = locate(store, sorted(shown))
    causes = causes.on(lines)
    return Diagnosis(
        command=options.command,
        version=__version__,
        verdict=verdict(symptoms, causes.listed, options.command),
        window_from=first,
        window_to=last,
        inputs=list_inputs(store),
        metrics=list_metrics(store),
        symptoms=tuple(symptoms),
        causes=causes.listed,
        unexplained=causes.unexplained,
        unknown=(
            *unshared_ids(store, book),
            *missing_fields(store, book, [*_missing_of_symptoms(fronts, book), *causes.missing]),
        ),
        timeouts=advise_timeouts(store, fronts, incident=bool(findings)),
        rules=_tally(book, symptoms, causes),
        cases=side_by_side(cases, lines),
        timeline=over_time,
        notes=(*options.notes, *causes.notes),
        settings=options.settings,
        considered=causes.considered,
        arrivals=arrivals(store),
        where=where_time_went(store, fronts),
        samples=take_samples(store, fronts),
        pictures=pictures(store, fronts, book, findings, over_time),
        shifts=shifts,
        story=tell(store, judged, findings, over_time, shifts) if over_time.vantage else None,
        limits=advise_limits(store, fronts, findings),
    )


def _only(book: Rulebook, only: tuple[str, ...]) -> Rulebook:
    """The book with just these rules: symptoms named, causes named, and what a named one cannot do without."""
    if not only:
        return book
    causes = tuple(
        rule for rule in book.causes if rule.id in only or not {one.id for one in book.causes}.intersection(only)
    )
    explained = {symptom for rule in causes if rule.id in only for symptom in rule.explains}
    symptoms = tuple(rule for rule in book.symptoms if rule.id in only or rule.id in explained)
    return Rulebook(symptoms, causes, book.fields, book.profile, book.calibration)


def _by_best_cause(symptoms: list[Symptom], causes: Causes) -> list[Symptom]:
    """Findings whose best cause ranks first stand first: what is worst and best explained leads the report."""
    ranks = {(cause.symptom, cause.subject): cause.rank for cause in reversed(causes.listed)}
    present = [one for one in symptoms if one.state == "present"]
    present.sort(key=lambda one: ranks.get((one.id, one.subject), len(ranks) + 1))
    return [*present, *(one for one in symptoms if one.state != "present")]


def _missing_of_symptoms(fronts: Fronts, book: Rulebook) -> list[tuple[str, str]]:
    return [(need, rule.id) for rule in book.symptoms for need in fronts.choose(rule.needs, rule.min_rows).missing]


def _tally(book: Rulebook, symptoms: list[Symptom], causes: Causes) -> RuleTally:
    ends: dict[str, list[str]] = {name: [] for name in ("present", "absent", "unknown", "suppressed", "failed")}
    seen: set[str] = set()
    for one in symptoms:
        if one.id not in seen:
            seen.add(one.id)
            ends[one.state].append(one.id)
    for rule in book.causes:
        ends[causes.ends[rule.id]].append(rule.id)
    return RuleTally(**{name: tuple(sorted(ids)) for name, ids in ends.items()})
