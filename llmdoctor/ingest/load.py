"""Files of one format -> `attempts`, by one query for all of them, and the ledger of what was not read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from llmdoctor.errors import StoreError
from llmdoctor.ingest import pool, query
from llmdoctor.ingest.formats import TABLES, Format
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.query import CALL, DEAD, FOREIGN, OTHER
from llmdoctor.store import Store

NEEDED = frozenset(
    (
        *("attempt_id", "input_id", "vantage", "request_id", "attempt", "started_at", "ended_at", "time_basis"),
        *("stream", "ttft_ms", "ttfo_ms", "total_ms", "output_tokens", "outcome", "http_status", "error_type"),
    )
)
"""Columns that normal.sql fills or finish.py asks of a lone log, whether it has them or not."""


def load(store: Store, jobs: Sequence[Job], folder: Path, slim: bool = False) -> None:
    """Reads all jobs of one format into `attempts` (and rows for other tables into `other_rows`). `slim`: `attempts`
    may be left without the columns that no row has; `finish.widen` gives them back."""
    fmt = jobs[0].format
    assert fmt is not None
    small, large = pool.divided(jobs)
    if small:
        pool.fill(small, folder)
        if not (_read_clean(store, fmt, small, slim and not large) or _read(store, fmt, small, False)):
            pool.empty(small)
            large = list(jobs)
    by_packing: dict[str, list[Job]] = {}
    for job in large:
        if job.needs_copy:
            job.copy_to(folder)
        by_packing.setdefault(job.packing, []).append(job)
    for group in by_packing.values():
        _load_group(store, fmt, group, folder, slim and len(group) == len(jobs))


def _load_group(store: Store, fmt: Format, jobs: Sequence[Job], folder: Path, slim: bool) -> None:
    # A generic page asks for hundreds of keys, most of them as text: strict reading would gain nothing.
    faulty = [job for job in jobs if job.detection.faulty or fmt.generic]
    clean = [job for job in jobs if not (job.detection.faulty or fmt.generic)]
    if clean and not _read_clean(store, fmt, clean, slim and not faulty):
        faulty = list(jobs)
    if faulty:
        _tolerant(store, fmt, faulty, folder)


def _read_clean(store: Store, fmt: Format, jobs: Sequence[Job], slim: bool) -> bool:
    """Strict reading, of few columns where that will do; False where something does not fit."""
    if fmt.generic:
        return False
    return (slim and fmt.native and _read_slim(store, fmt, jobs)) or _read(store, fmt, jobs, True)


def _tolerant(store: Store, fmt: Format, jobs: Sequence[Job], folder: Path) -> None:
    """Halves the list until the files that make DuckDB give up are alone; those are copied as far as they go."""
    if _read(store, fmt, jobs, False):
        return
    if len(jobs) > 1:
        half = len(jobs) // 2
        _tolerant(store, fmt, jobs[:half], folder)
        _tolerant(store, fmt, jobs[half:], folder)
    elif not jobs[0].copied:
        jobs[0].copy_to(folder)
        _tolerant(store, fmt, jobs, folder)
    else:
        jobs[0].give_up(f"DuckDB cannot read it as {fmt.id}")


def _read_slim(store: Store, fmt: Format, jobs: Sequence[Job]) -> bool:
    """Reads all columns and stores those that were seen when the files were looked at, and any other that a row has a
    value in: sixty empty ones would cost a quarter of the read."""
    seen = frozenset().union(*(job.detection.keys for job in jobs))
    kept = [name for name in store.columns("attempts") if name in seen or name in NEEDED]
    return _read(store, fmt, jobs, True, kept)


def _read(store: Store, fmt: Format, jobs: Sequence[Job], strict: bool, kept: Sequence[str] | None = None) -> bool:
    """One query over the files of all jobs; False where DuckDB gives up, or where there are other rows than calls and
    only the columns `kept` were to be stored (and nothing is changed)."""
    attempts = store.columns("attempts")
    zone = str(store.run("select current_setting('TimeZone')")[0][0])
    how = query.plan(fmt, [*attempts, "table"] if fmt.native else None, strict, zone)
    file = str(jobs[0].file)
    raw = query.from_pool(how, file, strict) if jobs[0].pooled else _raw(how, jobs, strict)
    if fmt.generic:
        # The search for common subexpressions takes seconds over the hundreds of aliases of a generic page.
        store.script("set disabled_optimizers = 'common_subexpressions'")
    try:
        sql = query.rows_sql(how, raw, given_columns(store, how), attempts, kept)
        store.script(f"create table loaded as {sql}")
    except StoreError:
        store.script("drop table if exists loaded")
        return False
    finally:
        store.script("reset disabled_optimizers")
    if jobs[0].pooled and store.run("select count(*) from loaded where input_id is null")[0][0]:
        store.script("drop table loaded")
        return False
    if kept is not None:
        if store.run("select bool_or(_kind = ?) from loaded", [OTHER])[0][0]:
            store.script("drop table loaded")
            return False
        kept = [*kept, *_add_more(store, {name: kind for name, kind in attempts.items() if name not in kept})]
    _count(store, how, jobs)
    _keep(store, kept or list(attempts))
    if fmt.native and any(job.others for job in jobs):
        _read_others(store, fmt, [job for job in jobs if job.others])
    _read_further(store, fmt, [job for job in jobs if job.rows or job.before])
    return True


def _add_more(store: Store, others: Mapping[str, str]) -> list[str]:
    """Makes columns of what is in `_more`: those of the other ones (name -> type) that some row has."""
    values = {name: f"try_cast(_more ->> {query.literal(name)} as {kind})" for name, kind in others.items()}
    counts = ", ".join(f"count({value})" for value in values.values())
    known = store.run(f"select {counts} from loaded where _more is not null")[0]
    added = [name for name, count in zip(values, known, strict=True) if count]
    for name in added:
        store.script(f"alter table loaded add column {query.quoted(name)} {others[name]}")
    if added:
        filled = ", ".join(f"{query.quoted(name)} = {values[name]}" for name in added)
        store.script(f"update loaded set {filled} where _more is not null")
    store.script("alter table loaded drop column _more")
    return added


def given_columns(store: Store, how: query.Plan) -> dict[str, str]:
    """Columns that the page's query returns -> their types."""
    empty = ", ".join(f"cast(null as {kind}) as {query.quoted(root)}" for root, kind in how.roots.items())
    raw = f"select {empty}, 0 as _input where false"
    return {str(row[0]): str(row[1]) for row in store.run(f"describe {query.page_sql(how, raw)}")}


def _count(store: Store, how: query.Plan, jobs: Sequence[Job]) -> None:
    by_id = {job.source.input_id: job for job in jobs}
    for job in jobs:
        job.seen = job.rows = job.rejected = job.foreign = job.others = 0
        job.bad.clear()
    for input_id, kind, count in store.run("select input_id, _kind, count(*) from loaded group by all"):
        job = by_id[input_id]
        job.seen += count
        if kind == CALL:
            job.rows += count
        elif kind == OTHER:
            job.rows += count
            job.others += count
        elif kind == FOREIGN:
            job.foreign += count
        elif kind == DEAD:
            job.rejected += count
    bad = "select input_id, _bad0, _bad1, count(*) from loaded where _kind = ? and _bad0 + _bad1 > 0 group by all"
    for input_id, bad0, bad1, count in store.run(bad, [CALL]):
        for name in query.bad_names(how, bad0, bad1):
            by_id[input_id].bad[name] += count
    _tell_apart(store, [job for job in jobs if job.rejected])
    if how.guesses:
        _note_guesses(store, how, by_id)


def _tell_apart(store: Store, jobs: Sequence[Job]) -> None:
    """Lines without any known key are unreadable, or objects of another kind: asked of the same parser once more."""
    for job in jobs:
        if job.pooled:
            job.foreign, job.rejected = job.foreign + job.rejected, 0
    jobs = [job for job in jobs if not job.pooled]
    for packing in {job.packing for job in jobs}:
        some = [job for job in jobs if job.packing == packing]
        files = ", ".join(query.literal(str(job.file)) for job in some)
        compression = {"gzip": "gzip", "zstd": "zstd"}.get(packing, "none")
        found = store.run(
            "select file_index, count(*) filter (where json is null or json_type(json) <> 'OBJECT') from "
            f"read_ndjson_objects([{files}], ignore_errors = true, compression = '{compression}', "
            "hive_partitioning = false) group by all"
        )
        for index, unreadable in found:
            job = some[index]
            job.foreign += job.rejected - min(unreadable, job.rejected)
            job.rejected = min(unreadable, job.rejected)


def _note_guesses(store: Store, how: query.Plan, by_id: Mapping[int, Job]) -> None:
    found = store.run("select input_id, bit_or(_guess) from loaded where _kind = ? group by all", [CALL])
    for input_id, bits in found:
        used = [alias for i, alias in enumerate(how.guesses) if bits >> i & 1]
        if used:
            told = ", ".join(f"{alias.shown} in {alias.unit}" for alias in used)
            by_id[input_id].notes.append(f"units guessed: {told}")
            by_id[input_id].guessed = True


def _keep(store: Store, attempts: Sequence[str]) -> None:
    """Moves the calls of `loaded` to `attempts`: by renaming the table where that saves copying most of it."""
    calls, every = store.run("select count(*) filter (where _kind = ?), count(*) from loaded", [CALL])[0]
    empty = store.run("select count(*) from attempts")[0][0] == 0
    if empty and calls * 2 > every:
        if calls < every:
            store.run("delete from loaded where _kind <> ?", [CALL])
        for column in ("_bad0", "_bad1", "_guess", "_kind"):
            store.script(f"alter table loaded drop column {column}")
        store.script("alter table attempts rename to all_columns; alter table loaded rename to attempts")
        return
    names = ", ".join(query.quoted(name) for name in attempts)
    store.run(f"insert into attempts ({names}) select {names} from loaded where _kind = ?", [CALL])
    store.script("drop table loaded")


def _read_others(store: Store, fmt: Format, jobs: Sequence[Job]) -> None:
    """A second pass for the lines that name another table; they wait in `other_rows` for their attempts' numbers."""
    how = query.plan(fmt)
    columns = other_rows(store)
    names = ", ".join(query.quoted(name) for name in columns)
    store.script(
        f'insert into other_rows (input_id, "table", _bad0, _bad1, {names}) '
        f'select _input, "table", _bad0, _bad1, {names} '
        f'from ({query.fields_sql(how, _raw(how, jobs))}) where "table" is not null'
    )
    by_id = {job.source.input_id: job for job in jobs}
    found = store.run(
        "select input_id, _bad0, _bad1, count(*) from other_rows where _bad0 + _bad1 > 0 "
        f"and input_id in ({', '.join(map(str, by_id))}) group by all"
    )
    for input_id, bad0, bad1, count in found:
        for name in query.bad_names(how, bad0, bad1):
            by_id[input_id].bad[name] += count


def _read_further(store: Store, fmt: Format, jobs: Sequence[Job]) -> None:
    """The rows that a page gives for other tables, from the files in which some record has what they need."""
    for further in fmt.further:
        some = [job for job in jobs if not further.keys or job.detection.keys & set(further.keys)]
        if not some:
            continue
        how = query.plan(fmt)
        columns = other_rows(store)
        select = f"select _input, {further.sql.lstrip()[len('select') :]}"
        sql = f"with fields as ({query.fields_sql(how, _raw(how, some))}) {select}"
        given = {str(row[0]) for row in store.run(f"describe {sql}")} & columns.keys()
        vantage = "" if "vantage" in given or not fmt.vantage else f", {query.literal(fmt.vantage)}"
        names = ", ".join(query.quoted(name) for name in sorted(given))
        store.script(
            f'insert into other_rows (input_id, "table", _bad0, _bad1, {names}{", vantage" if vantage else ""}) '
            f"select _input, {query.literal(further.table)}, 0, 0, {names}{vantage} from ({sql})"
        )


def _raw(how: query.Plan, jobs: Sequence[Job], strict: bool = False) -> str:
    """The keys of the records of some jobs, which all stand in one pool or none of them."""
    ids = [job.source.input_id for job in jobs]
    if jobs[0].pooled:
        return query.from_pool(how, str(jobs[0].file), strict, ids)
    return query.from_files(how, [str(job.file) for job in jobs], jobs[0].packing, ids, strict)


def other_rows(store: Store) -> dict[str, str]:
    """The columns of `other_rows`, which is made where it does not exist: those of all other tables, and what names an
    attempt. A value is text here: that of a fact is one."""
    wanted = {"request_id": "varchar", "attempt": "integer", "vantage": "varchar"}
    for table in TABLES:
        for name, kind in store.columns(table).items():
            if name not in ("attempt_id", "input_id"):
                wanted.setdefault(name, "varchar" if name == "value" else kind)
    columns = ", ".join(f"{query.quoted(name)} {kind}" for name, kind in wanted.items())
    store.script(
        'create temp table if not exists other_rows (input_id integer, "table" varchar, _bad0 ubigint, _bad1 ubigint, '
        f"{columns})"
    )
    return wanted
