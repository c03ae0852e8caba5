"""Which value of a column holds the slow or failed attempts (`slices`): log odds with a lower bound, Benjamini-Hochberg
over all values that were tried."""

from collections.abc import Mapping, Sequence

import polars as pl

from llmdoctor.stats.crossed import find_crossed
from llmdoctor.stats.front import set_front
from llmdoctor.stats.odds import bound, passing, slice_row
from llmdoctor.store import Row, Store

DIMENSIONS = ("instance", "upstream_instance", "app_version", "model", "region", "tenant")
MAX_VALUES = 200


def write_slices(store: Store, vantages: Sequence[str], alone: bool) -> None:
    """Fills `slices`: every value that holds three bad attempts, and pairs of values that are worse than both alone."""
    for vantage in vantages:
        set_front(store, vantage, alone)
        store.script(f"create or replace temp view judged as {JUDGED}")
        slow_from = store.run(SLOW_FROM)[0][0]
        kinds = {"slow": f"times >= {slow_from!r}" if slow_from else "cast(null as boolean)", "failed": "failed"}
        _count(store, kinds)
        tested = [row for kind in kinds for row in _singles(store, vantage, kind)]
        for row in passing(tested):
            row["significant"] = True
        found = [*tested, *find_crossed(store, vantage, tuple(kinds), tested)]
        store.insert("slices", list(found[0]) if found else [], [list(row.values()) for row in found])
    store.script("drop view if exists judged; drop table if exists counted")


# Which attempts can be slow or failed, and which are. Slow: the slowest tenth by what they took against what their
# tokens take in the quiet part of this log, at least half as much again; from three times on always, for where half of
# all are slow the slowest tenth of them would point at a bystander. Null: not judged. Time counts as lost from half as
# much again on. Of an answer that came whole, in the last tenth of its time, only the whole counts: its first token was
# held back, and a proxy that does so to everybody would hide the replica that is slow by itself.
JUDGED = f"""
select {", ".join(f"f.{name}" for name in DIMENSIONS)}, f.total_ms, f.load <> 'busy' as calm,
       case when f.ttft_ms >= 0.9 * f.total_ms and f.worse_times is not null
            then f.total_ms / nullif(f.expected_total_ms, 0) else f.worse_times end as times,
       case when times >= 1.5
            then round(greatest(0, f.total_ms - f.expected_total_ms,
                                case when f.ttft_ms < 0.9 * f.total_ms then f.ttft_ms - f.expected_ttft_ms end))
            end as lost_ms,
       case when f.outcome not in ('unknown', 'cancelled', 'rate_limited')
            then f.outcome in ('failed', 'timeout', 'incomplete', 'empty') end as failed
from   (select * rename (times as worse_times) from front_expected) f
"""
COUNTED = ("rows", "bad", "calm", "calm_bad", "lost")
LOST = {"slow": "coalesce(sum(lost_ms), 0)", "failed": "count(*) filter (failed)"}
SLOW_FROM = "select greatest(least(percentile_disc(0.9) within group (order by times), 3), 1.5) from judged"


def _count(store: Store, kinds: Mapping[str, str]) -> None:
    """The table `counted`: all columns together, once over all rows; the few groups are then put together by each."""
    counts = ", ".join(
        f"count({bad}) as {kind}_rows, count(*) filter ({bad}) as {kind}_bad,"
        f" count(*) filter (({bad}) is not null and calm) as {kind}_calm,"
        f" count(*) filter ({bad} and calm) as {kind}_calm_bad, {LOST[kind]} as {kind}_lost"
        for kind, bad in kinds.items()
    )
    names = ", ".join(DIMENSIONS)
    store.script(f"create or replace temp table counted as select {names}, {counts} from judged group by {names}")


def _singles(store: Store, vantage: str, kind: str) -> list[Row]:
    sums = ", ".join(f"sum({kind}_{name})::bigint as {name}" for name in COUNTED)
    names, sets = ", ".join(DIMENSIONS), ", ".join(f"({name})" for name in DIMENSIONS)
    frame = pl.DataFrame(
        store.arrow(
            f"select coalesce({names}) as value, {_which(DIMENSIONS)} as dimension, {sums}"
            f" from counted group by grouping sets ({sets})"
        )
    ).sort("dimension", "value")
    found = []
    for (dimension,), part in frame.group_by("dimension", maintain_order=True):
        if 2 <= part["value"].count() <= MAX_VALUES and part["bad"].sum() >= 3:
            found += _slices_of(part, vantage, kind, str(dimension))
    return found


def _slices_of(part: pl.DataFrame, vantage: str, kind: str, dimension: str) -> list[Row]:
    """The values of one column that hold three bad attempts or more, but not all attempts that were judged."""
    if _at_random(part):
        part = part.drop_nulls("value")
    counts = part.with_columns(pl.col("value").fill_null("(missing)")).sort("value")
    totals = {name: int(counts[name].sum()) for name in COUNTED}
    return [
        slice_row(vantage, kind, dimension, count, totals)
        for count in counts.iter_rows(named=True)
        if count["bad"] >= 3 and count["rows"] < totals["rows"]
    ]


def _at_random(part: pl.DataFrame) -> bool:
    """Whether the value is missing in some attempts for no reason of theirs: at most half lack it, and they are no more
    and no less often bad than the others, beyond chance (95 % interval of the odds ratio). Then those that have it tell
    it all; else, as where a call that fails reaches no replica, the missing ones stand for the rest."""
    lacking, known = (
        (int(rows["bad"].sum()), int(rows["rows"].sum()))
        for rows in (part.filter(pl.col("value").is_null()), part.drop_nulls("value"))
    )
    return 0 < lacking[1] <= known[1] and bound(lacking, known) <= 0 <= -bound(known, lacking)


def _which(dimensions: Sequence[str]) -> str:
    """SQL for the name of the column that a row of the grouping sets stands for."""
    cases = " ".join(f"when grouping({name}) = 0 then '{name}'" for name in dimensions)
    return f"case {cases} end"
