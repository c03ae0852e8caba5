"""Symptom pages + store -> findings: what is seen, what is not, and what cannot be decided."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.probing import distrust, endings
from llmdoctor.diagnose.values import SEVERITIES, Severity, State, Symptom, instant, six
from llmdoctor.errors import StoreError
from llmdoctor.rulebook import Rulebook, SymptomRule
from llmdoctor.store import Row, Store

MAX_SUBJECTS = 20
OF_TIMES = ("burst_delivery", "high_ttft", "slow_decode", "slow_overall", "stream_stall", "tail_latency")
"""Symptoms of the times of single pieces: where the client of a probe lags they are not decided."""


OF_ENDINGS = ("client_timeouts", "errors", "incomplete_streams", "rate_limited")
"""Symptoms of calls that did not come whole: of a probe it is said how they ended."""


def judge_symptoms(store: Store, fronts: Fronts, book: Rulebook, skip: Collection[str]) -> list[Symptom]:
    """Every symptom of the book, judged: the present ones first, worst first, then absent, unknown and the rest.

    `skip` are ids that the user asked to ignore; they are judged and shown as suppressed."""
    found: list[Symptom] = []
    doubt = distrust(store)
    by_hop = bool(store.run("select 1 from attempts where vantage = 'probe' and hop is not null limit 1"))
    for rule in book.symptoms:
        judged = _judge(store, fronts, rule, rule.id in skip, by_hop)
        found += (_doubted(one, doubt) for one in judged) if doubt and rule.id in OF_TIMES else judged
    ended = endings(store)
    found = [
        replace(one, reason=ended.get(one.subject)) if one.state == "present" and one.id in OF_ENDINGS else one
        for one in found
    ]
    order: tuple[State, ...] = ("present", "absent", "unknown", "suppressed", "failed")
    return sorted(found, key=lambda one: (order.index(one.state), -SEVERITIES.index(one.severity), one.id, one.subject))


def _judge(store: Store, fronts: Fronts, rule: SymptomRule, ignored: bool, by_hop: bool) -> Iterator[Symptom]:
    """`by_hop`: there is a probe, whose few requests mix places and kinds: it is judged place by place only."""
    choice = fronts.choose(rule.needs, rule.min_rows)
    if choice.vantage is None:
        yield _undecided(rule, "unknown", choice.why_not(rule.min_rows))
        return
    try:
        rows = store.ask(rule.query.text, {name: limit.value for name, limit in rule.limits.items()})
    except StoreError as error:
        yield _undecided(rule, "failed", f"{rule.page.path}:{rule.query.line}: {error}")
        return
    if by_hop:
        rows = [row for row in rows if row["vantage"] != "probe" or row["subject"] != "all"]
    if not rows:
        yield _undecided(rule, "unknown", "not decidable from these rows")
    held = sorted((row for row in rows if row["holds"]), key=lambda row: (-(row["affected"] or 0), row["subject"]))
    for row in held[:MAX_SUBJECTS]:
        yield _symptom(rule, row, "suppressed" if ignored else "present", "by --ignore" if ignored else None)
    if len(held) > MAX_SUBJECTS:
        yield _undecided(rule, "suppressed", f"and {len(held) - MAX_SUBJECTS} more subjects")
    if not held:
        for row in _whole(rows):
            unknown = row["holds"] is None
            yield _symptom(rule, row, "unknown" if unknown else "absent", "not decidable" if unknown else None)


def _doubted(symptom: Symptom, doubt: str) -> Symptom:
    """The symptom as unknown, where it rests on a probe whose client lagged."""
    if symptom.vantage != "probe" or symptom.state not in ("present", "absent"):
        return symptom
    return replace(symptom, state="unknown", severity=symptom.severity, reason=doubt)


def _whole(rows: list[Row]) -> list[Row]:
    """The rows that together tell of everything: `all`, else each place of a probe, else the only one."""
    for chosen in (
        [row for row in rows if row["subject"] == "all"],
        [row for row in rows if str(row["subject"]).startswith("hop=")][:MAX_SUBJECTS],
    ):
        if chosen:
            return chosen
    return rows if len(rows) == 1 else []


def _symptom(rule: SymptomRule, row: Row, state: State, reason: str | None) -> Symptom:
    return Symptom(
        id=rule.id,
        title=rule.title,
        severity=_severity(rule, row) if state in ("present", "suppressed") else _base(rule),
        state=state,
        vantage=row["vantage"],
        subject=row["subject"],
        observed=six(row["observed"]),
        expected=six(row["expected"]),
        unit=rule.unit,
        affected=None if row["affected"] is None else int(row["affected"]),
        total=None if row["total"] is None else int(row["total"]),
        first_at=instant(row["first_at"]),
        last_at=instant(row["last_at"]),
        reason=reason,
        why=rule.why,
        caveat=rule.caveat,
        self_explained=rule.self_explained,
        counts=rule.counts,
    )


def _undecided(rule: SymptomRule, state: State, reason: str) -> Symptom:
    nothing: Row = dict.fromkeys(("vantage", "observed", "expected", "affected", "total", "first_at", "last_at"))
    return _symptom(rule, nothing | {"subject": "all"}, state, reason)


def _base(rule: SymptomRule) -> Severity:
    return next(level for level in SEVERITIES if level == rule.severity)


def _severity(rule: SymptomRule, row: Row) -> Severity:
    """One step up where more than a fifth is affected, or the observed is more than three times the expected."""
    share = (row["affected"] or 0) / row["total"] if row["total"] else 0
    times = float(row["observed"] or 0) / float(row["expected"]) if row["expected"] else 0
    step = 1 if share > 0.2 or times > 3 else 0
    return SEVERITIES[min(SEVERITIES.index(_base(rule)) + step, len(SEVERITIES) - 1)]
