"""How much of each finding each cause accounts for.

The engine fixes the excess per attempt of a finding (of one about tasks: per task, by its `task_key`); a cause's claims
are clipped to it; claims that overlap beyond the excess are split in proportion to claim times confidence; what nobody
claims is unexplained. All in two temporary tables of the store, so a million affected attempts cost a query and no
Python objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.values import Symptom, six
from llmdoctor.rulebook import CauseRule, Kind, SymptomRule
from llmdoctor.store import Store

# An attempt counts as slow from half as much again as expected, and from 50 ms: below that nobody notices.
NOTICED_TIMES = 1.5
NOTICED_MS = 50

LATENCY = {
    # First token: against what is typical for the model, whatever the prompt, for a user's limit does not know the
    # prompt either; a stream cut before its first token had waited at least its elapsed time.
    "ttft_ms": """
        select f.attempt_id,
               coalesce(f.ttft_ms, case when f.stream and f.outcome = 'timeout' then f.total_ms end) as value,
               least(coalesce(f.typical_ttft_ms, $expected), $expected) as expected
    """,
    # Total: against what these tokens take in the quiet part.
    "total_ms": "select f.attempt_id, f.total_ms as value, f.expected_total_ms as expected",
}


@dataclass(frozen=True)
class Claim:
    """What one cause accounts for in one finding: whole attempts, excess (ms, or attempts) and its share of all."""

    affected: int
    excess: float
    share: float | None


def begin(store: Store) -> None:
    """Makes the two tables, empty."""
    store.script(
        "create or replace temp table excess (finding integer, attempt_id bigint, excess decimal(18, 3));"
        "create or replace temp table claims (finding integer, cause varchar, attempt_id bigint,"
        " claim decimal(18, 3), confidence decimal(9, 6))"
    )


def add_excess(store: Store, fronts: Fronts, number: int, finding: Symptom, rule: SymptomRule) -> None:
    """Writes the excess per attempt of finding `number`."""
    if rule.counts == "tasks" and rule.affected:
        store.run(f"insert into excess select {number}, task_key, 1 from task_audit where {rule.affected}")
        return
    if rule.self_explained or finding.vantage is None:
        return
    fronts.use(finding.vantage)
    where = _subject_condition(store, finding.subject)
    if rule.affected:
        store.run(f"insert into excess select {number}, attempt_id, 1 from front where ({rule.affected}) and {where}")
        return
    values = {"expected": finding.expected} if rule.excess == "ttft_ms" else {}
    store.run(
        f"insert into excess select {number}, attempt_id, value - expected from ({LATENCY[rule.excess or 'total_ms']}"
        f" from front_expected f where {where}) as timed"
        f" where value > {NOTICED_TIMES} * expected and value - expected >= {NOTICED_MS}",
        values,
    )


def _subject_condition(store: Store, subject: str) -> str:
    column, equals, value = subject.partition("=")
    if not equals or column not in store.columns("attempts"):
        return "true"
    literal = value.replace("'", "''")
    return f"cast({column} as varchar) = '{literal}'"


@dataclass(frozen=True)
class Under:
    """A finding under which a cause is listed, with the cause's confidence there and the kind it is asked for."""

    number: int
    finding: Symptom
    confidence: float
    kind: Kind


def add_claims(store: Store, fronts: Fronts, rule: CauseRule, listed: Sequence[Under]) -> None:
    """Writes what one cause claims of each finding, clipped to its excess.

    A cause that can only be told apart at an inner vantage (the gateway knows the model, the client does not) claims
    there, and its claims come back over `pairs`."""
    open_ones = list(listed)
    for vantage in (None, *fronts.vantages):  # None: tasks, the same wherever one stands
        asking = [one for one in open_ones if vantage in _places(fronts, one.finding)]
        if not asking:
            continue
        if vantage is not None:
            fronts.use(vantage)
        kept = None
        for one in sorted(asking, key=lambda under: under.kind):
            if one.kind != kept:
                store.keep("claimed", rule.affected.text, {"dimension": rule.dimension, "kind": one.kind})
                kept = one.kind
            came_back = "join pairs p on p.partner_id = c.attempt_id" if vantage != one.finding.vantage else ""
            store.run(
                f"""
                insert into claims
                select x.finding, $cause, x.attempt_id, least(max(c.claim), any_value(x.excess)), $confidence
                from   claimed c {came_back}
                join   excess x on {"p" if came_back else "c"}.attempt_id = x.attempt_id
                where  x.finding = $number and c.claim > 0
                and    c.subject = (select case when count(*) > 0 then $subject else 'all' end
                                    from claimed where subject = $subject)
                group  by x.finding, x.attempt_id
                """,
                {
                    "cause": rule.id,
                    "number": one.number,
                    "subject": one.finding.subject,
                    "confidence": one.confidence,
                },
            )
            if _count(store, one.number, rule):
                open_ones.remove(one)


def _places(fronts: Fronts, finding: Symptom) -> Sequence[str | None]:
    """Where a finding may be laid at a cause's door: at its own vantage, then further in."""
    if finding.vantage is None:
        return (None,)
    return fronts.vantages[fronts.vantages.index(finding.vantage) :] if finding.vantage in fronts.vantages else ()


def _count(store: Store, number: int, rule: CauseRule) -> int:
    return int(store.run("select count(*) from claims where finding = ? and cause = ?", [number, rule.id])[0][0])


def settle(store: Store, number: int) -> tuple[dict[str, Claim], float, float]:
    """What each cause accounts for in finding `number` by cause id, the whole excess and the unexplained part.

    Where causes claim in a part of a large log only, that stands for the whole: claims are scaled by the excess, and
    the numbers of attempts by the attempts with any."""
    known = store.run(
        """
        select coalesce(sum(x.excess), 0), count(*), coalesce(sum(x.excess) filter (a.attempt_id is not null), 0),
               count(a.attempt_id)
        from   excess x
        left   join attempts a on a.attempt_id = x.attempt_id
        where  x.finding = ?
        """,
        [number],
    )[0]
    whole, rows, part, part_rows = (float(one) for one in known)
    if not part:  # tasks, which have no attempts
        part, part_rows = whole, rows
    found = store.run(
        """
        with summed as (
            select c.*, sum(claim) over attempt as claims_ms, sum(claim * confidence) over attempt as weighed, x.excess
            from   claims c
            join   excess x using (finding, attempt_id)
            where  c.finding = ?
            window attempt as (partition by attempt_id)
        )
        select cause, count(*),
               sum(cast(case when claims_ms <= excess or weighed = 0 then claim
                             else excess * (claim * confidence / weighed) end as decimal(24, 6)))
        from   summed
        group  by cause
        order  by cause
        """,
        [number],
    )
    claims = {
        cause: Claim(
            round(affected * rows / part_rows),
            six(float(claimed) * whole / part) or 0.0,
            six(float(claimed) / part) if part else None,
        )
        for cause, affected, claimed in found
    }
    left = max(0.0, whole - sum(claim.excess for claim in claims.values()))
    return claims, whole, left
