"""Where the time went: the normal, the slow and the failed requests of one kind, stretch by stretch of their way.

Stretches of a request never overlap and add up to its whole time (derived/where.sql). Means of populations add up as
well, so what the slow ones take beyond the normal ones is attributed to stretches without counting anything twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.values import Population, Stretch, Where, six
from llmdoctor.store import Row, Store, package_sql

MAX_KINDS = 3
MOST_ROWS = 20_000
"""Requests looked at of one kind: means need no more. Every k-th attempt by its start is taken."""
LEAST = 3
ORDER = (
    *("earlier tries", "waits between tries", "connect", "retrieval", "tools", "prepare", "queue", "prefill"),
    *("model calls", "decode", "delivery", "network", "unexplained"),
)  # fmt: skip

# Slow: the slowest tenth of those that completed, by the whole time against what these tokens take in the quiet part
# (a task with stages: against the median task), from half as much again on, from three times always. Normal: those
# below that half, or the quicker half where fewer than a fifth are.
POPULATIONS = """
create or replace temp table peopled as
with requests as (
    select attempt_id, any_value(outcome) as outcome, any_value(whole_ms) as whole_ms, any_value(by_path) as by_path,
           any_value(times) as times, any_value(expected_total_ms) as expected_ms
    from   stretched
    group  by attempt_id
), typical as (
    select by_path, percentile_disc(0.5) within group (order by case when outcome = 'completed' then whole_ms end) as ms
    from   requests
    group  by by_path
), judged as (
    select r.*, case when r.by_path or r.expected_ms is null then r.whole_ms / nullif(t.ms, 0)
                     else greatest(coalesce(r.times, 0), r.whole_ms / nullif(r.expected_ms, 0)) end as ratio
    from   requests r
    join   typical t on t.by_path = r.by_path
), bounds as (
    select greatest(1.5, least(3, percentile_disc(0.9) within group (order by ratio))) as slow_from,
           percentile_disc(0.5) within group (order by ratio) as middle,
           count(*) filter (ratio < 1.5) >= 0.2 * count(*)    as many
    from   judged
    where  outcome = 'completed'
)
select j.attempt_id, j.whole_ms,
       case when j.outcome in ('failed', 'timeout', 'incomplete', 'empty', 'rate_limited') then 'failed'
            when j.outcome <> 'completed' then null
            when j.ratio >= b.slow_from and j.ratio > b.middle then 'slow'
            when case when b.many then j.ratio < 1.5 else j.ratio <= b.middle end then 'normal' end as population
from   judged j
cross  join bounds b
"""


def where_time_went(store: Store, fronts: Fronts) -> tuple[Where, ...]:
    """One Where per kind (model, streamed or not, operation) of the outermost vantage that knows durations, at most
    three, those with most requests first; kinds with fewer than three normal and slow or failed ones are left out."""
    timed = dict(store.run("select vantage, count(total_ms) from attempts where vantage <> 'probe' group by 1"))
    vantage = next((one for one in fronts.vantages if timed.get(one, 0) >= 2 * LEAST), None)
    if vantage is None:
        return ()
    fronts.thin(vantage)
    kinds = store.rows(
        "select model, stream, operation, count(*) as n from thinned where total_ms > 0"
        " group by all order by n desc, model, stream, operation limit ?",
        [MAX_KINDS],
    )
    found = (_where(store, vantage, kind) for kind in kinds)
    return tuple(one for one in found if one is not None)


def _where(store: Store, vantage: str, kind: Row) -> Where | None:
    values: Mapping[str, Any] = {**kind, "vantage": vantage, "every": max(1, kind["n"] // MOST_ROWS)}
    store.keep("stretched", package_sql("derived/where.sql"), values)
    store.run(POPULATIONS)
    counted = store.run(
        "select population, count(*), sum(whole_ms) / count(*) from peopled where population is not null group by 1"
        " order by array_position(['normal', 'slow', 'failed'], population)"
    )
    sizes = {name: Population(int(n), six(mean) or 0.0) for name, n, mean in counted if n >= LEAST}
    if "normal" not in sizes or len(sizes) == 1:
        return None
    rows = store.rows(
        "select s.name, p.population, sum(s.ms) as ms, bool_and(s.exact) as exact from stretched s"
        " join peopled p using (attempt_id) where p.population is not null group by all order by s.name, p.population"
    )
    return Where(
        vantage=vantage,
        model=kind["model"],
        stream=kind["stream"],
        operation=kind["operation"],
        populations=sizes,
        stretches=_stretches(rows, sizes),
    )


def _stretches(rows: Sequence[Row], sizes: Mapping[str, Population]) -> tuple[Stretch, ...]:
    means = {(row["name"], row["population"]): float(row["ms"]) / sizes[row["population"]].n
             for row in rows if row["population"] in sizes}  # fmt: skip
    exact = {name: all(row["exact"] for row in rows if row["name"] == name) for name, _ in means}
    beyond = {name: means.get((name, "slow"), 0.0) - means.get((name, "normal"), 0.0) for name in exact}
    # What the slow ones save somewhere is no part of why they are slow: shares are those of all that they take more.
    more = sum(max(value, 0.0) for value in beyond.values())
    known = "slow" in sizes and more > 0
    return tuple(
        Stretch(
            name=name,
            exact=exact[name],
            mean_ms={population: six(means.get((name, population), 0.0)) or 0.0 for population in sizes},
            excess_share=six(max(beyond[name], 0.0) / more) if known else None,
        )
        for name in sorted(exact, key=_place)
    )


def _place(name: str) -> tuple[int, str]:
    """In the order of the way; a stretch under several names stands where the first of them does."""
    first = name.partition(",")[0].partition(" or ")[0]
    return (ORDER.index(first) if first in ORDER else ORDER.index("prepare"), name)
