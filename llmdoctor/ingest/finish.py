"""After all files are loaded: impossible numbers, doubled rows, attempt numbers, the other tables, filters."""

from collections.abc import Sequence

from llmdoctor.errors import InputError, StoreError, UsageError
from llmdoctor.ingest.formats import TABLES
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.query import literal, quoted
from llmdoctor.store import Store, package_sql

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
        "select input_id, median(total_ms), count(*) filter (where output_tokens > 50 and total_ms < 5), count(*) "
        "from attempts where total_ms is not null group by input_id"
    )
    by_id = {job.source.input_id: job for job in jobs}
    for input_id, middle, too_fast, count in found:
        job = by_id[input_id]
        if job.guessed and middle > 600_000:
            job.notes.append(
                f"WARNING: taken as seconds, half of the durations are over {middle / 1000:,.0f} s; they are probably "
                "milliseconds: map the field with its unit"
            )
        elif too_fast * 2 > count:
            job.notes.append(
                "WARNING: more than 50 tokens in less than 5 ms in most records; the durations are probably seconds"
            )


def drop_doubled(store: Store, jobs: Sequence[Job]) -> list[str]:
    """Of rows equal in vantage, request_id, attempt, start and duration one stays: the one of the first file."""
    # Only rows of one start can be equal, and grouping by a hash is cheap; what it finds is compared in full.
    named = "request_id is not null and started_at is not null"
    _rank(store)
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
    store.script("delete from attempts where rowid in (select r from extra); drop table extra; drop table twins")
    if not total:
        return []
    _rank(store)
    return [f"{total:,} doubled rows (same vantage, request, attempt, start and duration) count once."]


def _rank(store: Store) -> None:
    """Fills `ranks`: rowid, place by start, and the place of the first row with the same start."""
    store.script(
        "create or replace temp table ranks as select rowid as r, row_number() over w as n, rank() over w as k "
        "from attempts window w as (order by started_at nulls last)"
    )


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
    return f"hash({', '.join(parts[1:])})"


def widen(store: Store) -> None:
    """Where rows were loaded without the columns that none of them has, `attempts` becomes a view that has them all."""
    given, every = store.columns("attempts"), store.columns("all_columns")
    store.script("drop table if exists all_columns")
    if len(given) < len(every):
        columns = [quoted(n) if n in given else f"cast(null as {kind}) as {quoted(n)}" for n, kind in every.items()]
        store.script(
            "alter table attempts rename to slim_attempts;"
            f"create view attempts as select {', '.join(columns)} from slim_attempts"
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
    store.script("drop table placed")
    _fill_from_chunks(store)
    return [f"{lost:,} rows of chunks or facts name no attempt that was read and were left out."] if lost else []


def _fill_from_chunks(store: Store) -> None:
    if store.run("select count(*) from chunks")[0][0]:
        store.script(package_sql("ingest/from_chunks.sql"))


def select(store: Store, since: str | None, until: str | None, where: str | None) -> list[str]:
    """Removes what --since, --until and --where leave out. One note for each filter. UsageError where one is no time or
    no condition."""
    notes = []
    tests = []
    if since:
        tests.append(("since", since, f"started_at >= {_instant(store, '--since', since)}"))
    if until:
        tests.append(("until", until, f"started_at < {_instant(store, '--until', until)}"))
    if where:
        _require_condition(store, where)
        tests.append(("where", where, where))
    for name, text, condition in tests:
        try:
            found = store.run(f"select attempt_id from attempts where ({condition}\n) is not true")
        except StoreError as error:
            raise UsageError(f"--{name}: {text!r} is no condition over the columns of attempts ({error})") from error
        store.script(f"delete from attempts where ({condition}\n) is not true")
        notes.append(f"--{name} {text}: {len(found):,} rows removed.")
    if tests:
        if store.run("select count(*) from attempts")[0][0] == 0:
            raise InputError(f"the filters left no row ({' '.join(notes)}): widen --since, --until or --where")
        for table in ("chunks", "stages", "facts"):
            store.script(
                f"delete from {table} where attempt_id is not null "
                "and attempt_id not in (select attempt_id from attempts)"
            )
    return notes


def _require_condition(store: Store, where: str) -> None:
    """A text such as `a) or (b` would make sense inside the brackets that we put around it, and mean something else."""
    try:
        store.run(f"select 1 from attempts where {where}\nlimit 0")
    except StoreError as error:
        raise UsageError(f"--where: {where!r} is no condition over the columns of attempts ({error})") from error


def _instant(store: Store, option: str, text: str) -> str:
    try:
        found = store.run("select cast(? as timestamptz)", [text])[0][0]
    except StoreError as error:
        raise UsageError(f"{option}: {text!r} is no time; write it as 2026-01-31T12:00:00Z") from error
    return f"timestamptz {literal(found.isoformat())}"


def stray(store: Store) -> list[str]:
    """A note for rows that start more than a year away from the middle of all: a clock or a unit was wrong there. Times
    that are counted from the start of a program name no day and are left out."""
    found = store.run(
        "with dated as (select * from attempts where time_basis is distinct from 'relative'), "
        "middle as (select quantile_disc(started_at, 0.5) as at_middle from dated) "
        "select i.path, count(*) from dated a join inputs i using (input_id) cross join middle m "
        "where abs(epoch_us(a.started_at) - epoch_us(m.at_middle)) > 366 * 86400 * 1e6 group by 1 order by 1"
    )
    return [
        f"{path}: {rows:,} rows start more than a year away from the rest; is their clock right?"
        for path, rows in found
    ]


def gaps(store: Store) -> dict[int, float]:
    """Input -> longest time between two neighbouring starts, in milliseconds."""
    found = store.run(
        "select input_id, max(gap) from (select input_id, epoch_us(started_at) - epoch_us(lag(started_at) over "
        "(partition by input_id order by started_at)) as gap from attempts where started_at is not null) "
        "where gap is not null group by input_id"
    )
    return {input_id: gap / 1000.0 for input_id, gap in found}
