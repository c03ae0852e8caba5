"""After all files are loaded: impossible numbers, doubled rows, attempt numbers, the other tables, filters."""

from collections.abc import Collection, Sequence

from llmdoctor.ingest.formats import TABLES
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.load import NEEDED
from llmdoctor.ingest.query import literal, quoted
from llmdoctor.stats.starts import write_ranks
from llmdoctor.store import Store, package_sql, padded

ALWAYS = NEEDED | {"time_resolution_ms", "route", "chunks", "max_gap_ms", "terminal_seen"}
"""Columns that are asked for while rows are put in order, whether a log has them or not."""

YEAR_US = "366 * 86400 * 1e6"
_TWIN = "vantage, request_id, attempt, started_at, total_ms"


# Numbers that are keys, or whose sign means something.
_MAY_BE_NEGATIVE = ("attempt_id", "input_id", "line", "priority")


def clean(store: Store, jobs: Sequence[Job]) -> None:
    """Durations and counts that are negative, infinite or no number become null and are counted; so do instants that no
    calendar has (before the year 1 or after 9999)."""
    kinds = store.columns("attempts")
    sane = {"DOUBLE": (">= 0", "< 1e13"), "BIGINT": (">= 0", "< 1e15"), "INTEGER": (">= 0", "< 1e9")}
    sane["TIMESTAMP WITH TIME ZONE"] = (">= timestamptz '0001-01-02'", "< timestamptz '9999-12-31'")
    bounds = {name: sane[kind] for name, kind in kinds.items() if kind in sane and name not in _MAY_BE_NEGATIVE}
    tests = {name: f"not ({quoted(name)} {low} and {quoted(name)} {high})" for name, (low, high) in bounds.items()}
    asked = ", ".join(
        f"not (min({quoted(name)}) {low} and max({quoted(name)}) {high})" for name, (low, high) in bounds.items()
    )
    by_id = {job.source.input_id: job for job in jobs}
    for name, wrong in zip(tests, store.run(f"select {asked} from attempts")[0], strict=True):
        if wrong:
            found = store.run(f"select input_id, count(*) from attempts where {tests[name]} group by all")
            for input_id, count in found:
                by_id[input_id].bad[name] += count
            store.script(f"update attempts set {quoted(name)} = null where {tests[name]}")


def doubt_units(store: Store, jobs: Sequence[Job]) -> None:
    """Warns, in the note of a file, where the magnitudes speak against the units."""
    found = store.run(
        "select input_id, count(*) filter (where output_tokens > 50 and total_ms < 5), "
        "count(*) filter (where ttft_ms > total_ms * 1.05), count(*) "
        "from attempts where total_ms is not null group by input_id"
    )
    by_id = {job.source.input_id: job for job in jobs}
    guessed = ", ".join(str(job.source.input_id) for job in jobs if job.guessed)
    asked = f"select input_id, median(total_ms) from attempts where input_id in ({guessed}) group by input_id"
    for input_id, middle in store.run(asked) if guessed else ():
        if middle is not None and middle > 600_000:
            by_id[input_id].notes.append(
                f"WARNING: taken as seconds, half of the durations are over {middle / 1000:,.0f} s; they are probably "
                "milliseconds: map the field with its unit"
            )
    for input_id, too_fast, too_late, count in found:
        if too_late * 2 > count:
            by_id[input_id].notes.append(
                "WARNING: in most records the first token comes after the end; one of the two has another unit"
            )
        if too_fast * 2 > count:
            by_id[input_id].notes.append(
                "WARNING: more than 50 tokens in less than 5 ms in most records; the durations are probably seconds"
            )


def drop_doubled(store: Store, jobs: Sequence[Job]) -> list[str]:
    """Of rows equal in vantage, request_id, attempt, start and duration one stays: the one of the first file."""
    # Only rows of one start can be equal, and grouping by a hash is cheap; what it finds is compared in full.
    named = "request_id is not null and started_at is not null"
    write_ranks(store)
    store.script(
        f"create or replace temp table likely as select hash({_TWIN}) as h from attempts where {named} "
        "and rowid in (select r from ranks where k in (select k from ranks where n <> k)) "
        "group by h having count(*) > 1"
    )
    if store.run("select count(*) from likely")[0][0] == 0:
        store.script("drop table likely")
        return []
    store.script(
        f"create or replace temp table twins as select {_TWIN} from attempts where {named} "
        f"and hash({_TWIN}) in (select h from likely) group by all having count(*) > 1; drop table likely"
    )
    same = " and ".join(f"a.{name} is not distinct from t.{name}" for name in _TWIN.split(", "))
    store.script(
        "create or replace temp table extra as select r, input_id from (select a.rowid as r, a.input_id, row_number() "
        f"over (partition by {', '.join('a.' + name for name in _TWIN.split(', '))} order by a.input_id, "
        f"{_hash(store)}, a.rowid) as n from attempts as a join twins as t on {same}) where n > 1"
    )
    by_id = {job.source.input_id: job for job in jobs}
    total = 0
    for input_id, count in store.run("select input_id, count(*) from extra group by all"):
        by_id[input_id].doubled = count
        total += count
    remove(store, "select r from extra")
    store.script("drop table extra; drop table twins")
    if not total:
        return []
    write_ranks(store)
    return [f"{total:,} doubled rows (same vantage, request, attempt, start and duration) count once."]


def keep_all(store: Store) -> None:
    """From here on what is taken away or changed stays in `left_out`, `untold` and `kept_others`: a read that is saved
    must be able to begin anew with further files."""
    store.script("create temp table left_out as select * from attempts limit 0")


def keeps_all(store: Store) -> bool:
    """Whether `keep_all` was called."""
    return bool(store.columns("left_out"))


def remove(store: Store, numbers: str) -> None:
    """Takes the rows of `attempts` away whose rowid the query returns."""
    if keeps_all(store):
        store.script(f"insert into left_out select * from attempts where rowid in ({numbers})")
    store.script(f"delete from attempts where rowid in ({numbers})")


def number(store: Store) -> None:
    """Fills attempt_id: the rank by start, file, request, attempt and duration, at last by a hash of the whole row."""
    if store.run("select count(*) from ranks where n <> k")[0][0]:
        store.script(
            "create or replace temp table ranks as with tied as (select distinct k from ranks where n <> k) "
            "select r, n from ranks where k not in (select k from tied) union all "
            "select s.r, s.k - 1 + row_number() over (partition by s.k order by a.input_id, a.request_id nulls last, "
            f"a.attempt nulls last, a.total_ms nulls last, {_hash(store)}, s.r) as n from ranks as s "
            "join attempts as a on a.rowid = s.r where s.k in (select k from tied)"
        )
    store.script("update attempts set attempt_id = ranks.n from ranks where attempts.rowid = ranks.r; drop table ranks")


def _hash(store: Store) -> str:
    """Over all columns of the schema, also those that a slim table lacks: the same rows get the same hash."""
    given = store.columns("attempts")
    every = store.columns("all_columns") or given
    parts = [f"a.{quoted(n)}" if n in given else f"cast(null as {kind})" for n, kind in every.items()]
    return f"hash({', '.join(parts[2:])})"  # neither attempt_id nor input_id, which depends on the other files


def narrow(store: Store, wanted: Collection[str]) -> None:
    """Drops the columns of `attempts` that no row has and none of `wanted` needs, until `widen`: each costs time in all
    that follows."""
    every = store.columns("attempts")
    known = store.run(f"select {', '.join(f'count({quoted(name)}) > 0' for name in every)} from attempts")[0]
    empty = [
        name for name, has in zip(every, known, strict=True) if not has and name not in ALWAYS and name not in wanted
    ]
    if not store.columns("all_columns"):
        store.script("create table all_columns as select * from attempts limit 0")
    store.script(";".join(f"alter table attempts drop column {quoted(name)}" for name in empty))


def widen(store: Store) -> None:
    """Where rows were loaded without the columns that none of them has, `attempts` becomes a view that has them all."""
    given, every = store.columns("attempts"), store.columns("all_columns")
    store.script("drop table if exists all_columns")
    if len(given) < len(every):
        store.script(
            "alter table attempts rename to attempt_rows;"
            f"create view attempts as select {padded(every, given)} from attempt_rows"
        )


def attach(store: Store) -> list[str]:
    """Gives the rows of other tables the numbers of their attempts. Returns a note where some name no attempt."""
    if not store.columns("other_rows"):
        return []
    store.script(
        """
        create or replace temp table homes as
        select o.r, min_by(a.attempt_id, (a.input_id <> o.input_id, a.vantage is distinct from o.vantage, a.attempt_id))
               as attempt_id
        from (select rowid as r, * from other_rows) as o
        join attempts as a on a.request_id = o.request_id and coalesce(a.attempt, 1) = coalesce(o.attempt, 1)
        group by o.r;
        create or replace temp table placed as
        select h.attempt_id, o.* from other_rows as o left join homes as h on o.rowid = h.r;
        drop table homes; drop table other_rows;
        """
    )
    for table in TABLES:
        names = ", ".join(quoted(name) for name in store.columns(table))
        values = (
            names.replace('"value"', 'try_cast("value" as double) as "value"') if table == "engine_samples" else names
        )
        alone = "attempt_id is not null" if table in ("chunks", "facts") else "true"
        store.script(
            f'insert into {table} ({names}) select {values} from placed where "table" = {literal(table)} and {alone}'
        )
    lost = store.run("select count(*) from placed where \"table\" in ('chunks', 'facts') and attempt_id is null")[0][0]
    store.script("alter table placed rename to kept_others" if keeps_all(store) else "drop table placed")
    _fill_from_chunks(store)
    return [f"{lost:,} rows of chunks or facts name no attempt that was read and were left out."] if lost else []


def _fill_from_chunks(store: Store) -> None:
    if store.run("select count(*) from chunks")[0][0]:
        if keeps_all(store):
            store.script(
                "create temp table untold as select attempt_id, chunks, ttft_ms, ttfo_ms, max_gap_ms, terminal_seen "
                "from attempts where attempt_id in (select attempt_id from chunks)"
            )
        store.script(package_sql("ingest/from_chunks.sql"))


def stray(store: Store) -> list[str]:
    """A note for rows that start more than a year away from the middle of all: a clock or a unit was wrong there. Times
    that are counted from the start of a program name no day and are left out."""
    found = store.run(
        "with dated as (select * from attempts where time_basis is distinct from 'relative'), "
        "middle as (select quantile_disc(started_at, 0.5) as at_middle from dated) "
        "select i.path, count(*) from dated a join inputs i using (input_id) cross join middle m "
        f"where abs(epoch_us(a.started_at) - epoch_us(m.at_middle)) > {YEAR_US} group by 1 order by 1"
    )
    return [
        f"{path}: {rows:,} rows start more than a year away from the rest; is their clock right?"
        for path, rows in found
    ]
