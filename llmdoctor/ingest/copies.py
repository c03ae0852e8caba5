"""The same requests written twice at one vantage, in two formats, count once.

A JSON log beside the combined one is common, and no id tells that they are the same: the second in which a call ended,
its status, route and duration do. What an SDK writes beside the log of its application tells less of the same calls: a
page of that kind is `secondary`.
"""

from collections.abc import Mapping, Sequence

from llmdoctor.ingest.finish import remove
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.query import literal
from llmdoctor.store import Store

_ALIKE = 0.95
"""Share of the rows of the poorer log, within the time of the richer one, that must have a partner there."""

_LEAST = {True: 3, False: 10}
"""Rows below which likeness may be chance, with durations and without."""

# The richer log of two has ids, then durations, then the finer clock; between equals the name decides.
_PAIRS = """
with logs as (
    select vantage, format, count(request_id) > 0 as has_ids, count(total_ms) = count(*) as has_durations,
           -coalesce(min(time_resolution_ms), 1e9) as fineness, min(ended_at) as first_at, max(ended_at) as last_at
    from   attempts join written using (input_id)
    where  ended_at is not null
    group  by vantage, format
)
select poor.vantage, poor.format, rich.format, poor.has_durations and rich.has_durations
from   logs as poor join logs as rich on rich.vantage = poor.vantage and rich.format <> poor.format
where  not poor.has_ids and rich.last_at >= poor.first_at and rich.first_at <= poor.last_at
  and  (rich.has_ids, rich.has_durations, rich.fineness, poor.format)
     > (false, poor.has_durations, poor.fineness, rich.format)
order  by all
"""


def drop_copies(store: Store, jobs: Sequence[Job]) -> list[str]:
    """Removes the rows of a log without ids that stand in another log of the same vantage and another format as well,
    and counts them as doubled. One sentence for each such log."""
    named = [(job.source.input_id, job.format.id) for job in jobs if job.format and job.rows]
    if len({name for _, name in named}) < 2:
        return []
    values = ", ".join(f"({input_id}, {literal(name)})" for input_id, name in named)
    store.script(f"create or replace temp table written as select * from (values {values}) as v(input_id, format)")
    by_id = {job.source.input_id: job for job in jobs}
    notes = []
    for vantage, poor, rich, timed in store.run(_PAIRS):
        copied = _copied(store, vantage, poor, rich, timed)
        for input_id, count in copied:
            by_id[input_id].doubled += count
        if copied:
            total = sum(count for _, count in copied)
            notes.append(
                f"{total:,} calls stand in a log of {rich} and, without ids, in one of {poor}: they count once."
            )
    for name in sorted({job.format.id for job in jobs if job.format and job.rows and job.format.secondary}):
        notes += _covered(store, name, by_id)
    store.script("drop table written")
    return notes


def _covered(store: Store, name: str, by_id: Mapping[int, Job]) -> list[str]:
    """Removes the rows of a secondary log from the time that another log of its vantage covers."""
    store.script(
        "create or replace temp table covered as with others as (select vantage, min(started_at) as first_at, "
        "max(coalesce(ended_at, started_at)) as last_at from attempts join written using (input_id) "
        f"where format <> {literal(name)} and started_at is not null group by vantage) "
        "select a.rowid as r, a.input_id from attempts as a join written using (input_id) join others as o "
        f"on o.vantage = a.vantage where format = {literal(name)} and a.ended_at >= o.first_at - interval 1 second "
        "and a.started_at <= o.last_at + interval 1 second"
    )
    counts = store.run("select input_id, count(*) from covered group by all order by all")
    for input_id, count in counts:
        by_id[input_id].doubled += count
    remove(store, "select r from covered")
    store.script("drop table covered")
    total = sum(count for _, count in counts)
    return (
        [f"{total:,} calls of {name} are told by another log of the same time too: they count once."] if total else []
    )


def _copied(store: Store, vantage: str, poor: str, rich: str, timed: bool) -> list[tuple[int, int]]:
    """Removes the rows of `poor` that have a partner in `rich`, each partner used once. Returns input and count; [] and
    nothing is changed where too many have none."""
    took = "round(total_ms)" if timed else "null"
    rows = (
        "select r, input_id, ended_at, at_second, http_status, route, took, row_number() over "
        "(partition by at_second, http_status, route, took order by r) as n from (select a.rowid as r, a.*, "
        f"date_trunc('second', ended_at) as at_second, {took} as took from attempts as a join written using (input_id) "
        f"where vantage = {literal(vantage)} and format = "
    )
    same = " and ".join(
        f"p.{name} is not distinct from q.{name}" for name in ("at_second", "http_status", "route", "took", "n")
    )
    store.script(
        f"create or replace temp table copied as with p as ({rows}{literal(poor)})), q as ({rows}{literal(rich)})) "
        f"select p.r, p.input_id, q.r is not null as found from p left join q on {same} "
        "where p.ended_at between (select min(ended_at) from q) - interval 1 second and (select max(ended_at) from q)"
    )
    found, every = store.run("select count(*) filter (where found), count(*) from copied")[0]
    alike = found >= _LEAST[timed] and found >= _ALIKE * every
    counts = store.run("select input_id, count(*) from copied where found group by all order by all") if alike else []
    if alike:
        remove(store, "select r from copied where found")
    store.script("drop table copied")
    return [(int(input_id), int(count)) for input_id, count in counts]
