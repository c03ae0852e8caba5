"""The file of `--save`: what was read, kept as a DuckDB file that a later analysis takes over instead of the logs.

It holds the canonical tables as they were before --since, --until and --where, some of them as views. A further file
may change what counts twice and which attempt a chunk belongs to: so besides the rows that were taken out (`left_out`),
the rows of other tables with the ids by which they find their attempts (`further_rows`), what attempts said before
their chunks told more (`untold`), and what each file is recognised by (`origins`).
"""

import json
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from llmdoctor import __version__
from llmdoctor.errors import StoreError, UsageError
from llmdoctor.ingest.find import Source
from llmdoctor.ingest.formats import TABLES
from llmdoctor.ingest.job import Job, Known, Mark
from llmdoctor.ingest.load import other_rows
from llmdoctor.ingest.marks import can_go_on, end_of_lines, mark, page_digest
from llmdoctor.ingest.query import literal, quoted
from llmdoctor.ingest.secrets import Exposed, Looked
from llmdoctor.redact import mask, unquoted
from llmdoctor.store import Store, padded

_LAYOUT = 1
"""Goes up when a table of this file changes that is not in schema.sql: the columns of those count by themselves."""

_TOLD = ("chunks", "ttft_ms", "ttfo_ms", "max_gap_ms", "terminal_seen")
_COPIED = ("engine_samples", "inputs", "rejects", "bad_fields", "secrets")
_ORIGINS = (
    *("input_id", "mtime_ns", "size", "head", "tail", "offset", "reading", "page", "repaired", "guessed"),
    *("last_open", "broken", "notes", "looked_bytes", "looked_whole"),
)


@dataclass(frozen=True)
class Shelf:
    """The stores among the given files, each reached under its name, and what they know. `notes` are those of the reads
    that filled them."""

    stores: tuple[str, ...] = ()
    known: tuple[Known, ...] = ()
    notes: tuple[str, ...] = ()


def opened(store: Store, sources: Sequence[Source]) -> tuple[list[Source], Shelf]:
    """Attaches the stores among `sources`; returns those that cannot be used, with their problem, and the others."""
    bad: list[Source] = []
    shelf = Shelf()
    for source in sources:
        shelf_name = f"saved{source.input_id}"
        try:
            store.attach(source.path, shelf_name, read_only=True)
        except StoreError as error:
            bad.append(replace(source, problem=f"a DuckDB file that cannot be opened ({unquoted(str(error))})"))
            continue
        problem = _problem(store, shelf_name)
        if problem:
            store.detach(shelf_name)
            bad.append(replace(source, problem=problem))
            continue
        notes = json.loads(store.run(f"select notes from {shelf_name}.about")[0][0])
        known = _known(store, shelf_name)
        shelf = Shelf((*shelf.stores, shelf_name), (*shelf.known, *known), (*shelf.notes, *notes))
    return bad, replace(shelf, known=_latest(shelf.known))


def closed(store: Store, shelf: Shelf) -> None:
    """Lets the files go."""
    for shelf_name in shelf.stores:
        store.detach(shelf_name)


def _problem(store: Store, shelf_name: str) -> str | None:
    tables = store.run("select count(*) from duckdb_tables() where database_name = ? and table_name in "
                       "('about', 'origins')", [shelf_name])  # fmt: skip
    if tables[0][0] != 2:
        return "a DuckDB file that llmdoctor did not save"
    layout, version = store.run(f"select layout, version from {shelf_name}.about")[0]
    if layout == _layout(store):
        return None
    return f"a store of llmdoctor {version} with other columns: read its logs again and save them anew"


def _layout(store: Store) -> str:
    columns = [sorted(store.columns(table).items()) for table in ("attempts", *_COPIED, *TABLES)]
    return f"{_LAYOUT}.{sha256(json.dumps(columns).encode()).hexdigest()[:12]}"


def _latest(known: Sequence[Known]) -> tuple[Known, ...]:
    """Of a file that two stores hold, the longer one."""
    found: dict[tuple[str, ...], Known] = {}
    for one in known:
        key = ("", one.mark.head) if one.mark and one.mark.size else (one.shelf, str(one.number))
        before = found.get(key)
        if before is None or before.mark is None or (one.mark and one.mark.size > before.mark.size):
            found[key] = one
        elif one.shelf == before.shelf:
            found[one.shelf, str(one.number)] = one
    return tuple(found.values())


def _known(store: Store, shelf_name: str) -> list[Known]:
    bad: dict[int, dict[str, int]] = defaultdict(dict)
    for number, field, count in store.run(f"select input_id, field, bad_values from {shelf_name}.bad_fields"):
        bad[number][field] = count
    rejects: dict[int, list[Any]] = defaultdict(list)
    for number, *reject in store.run(f"select input_id, line, reason, fatal, snippet from {shelf_name}.rejects"):
        rejects[number].append(tuple(reject))
    kinds: dict[int, list[Exposed]] = defaultdict(list)
    for number, *exposed in store.run(f"select input_id, kind, count, first_line from {shelf_name}.secrets"):
        kinds[number].append(Exposed(*exposed))
    rows = store.rows(f"select * from {shelf_name}.origins join {shelf_name}.inputs using (input_id) order by input_id")
    return [
        Known(
            shelf=shelf_name,
            number=row["input_id"],
            mark=None if row["size"] is None else Mark(row["size"], row["head"], row["tail"]),
            foreign=row["foreign_lines"],
            notes=tuple(json.loads(row["notes"])),
            bad=bad[row["input_id"]],
            rejects=tuple(rejects[row["input_id"]]),
            looked=None
            if row["looked_bytes"] is None
            else Looked(tuple(kinds[row["input_id"]]), row["looked_bytes"], row["looked_whole"]),
            **{key: row[key] for key in ("path", "mtime_ns", "offset", "reading", "page", "format", "reason", "lines")},
            **{key: row[key] for key in ("rows", "rejected", "blank", "repaired", "guessed", "last_open", "broken")},
        )
        for row in rows
    ]


def columns(store: Store, shelf: Shelf) -> set[str]:
    """The columns of `attempts` for which a store has values."""
    return {one for shelf_name in shelf.stores for one in _columns(store, shelf_name)}


def _columns(store: Store, shelf_name: str) -> list[str]:
    found = store.run(
        "select column_name from duckdb_columns() where database_name = ? and table_name = 'attempt_rows' "
        "order by column_index",
        [shelf_name],
    )
    return [str(column) for (column,) in found]


def take_over(store: Store, jobs: Sequence[Job]) -> None:
    """Puts the rows that stores have of these files into `attempts`, `other_rows` and `engine_samples`, as a read of
    the files would have left them."""
    by_shelf: dict[str, list[tuple[int, Known]]] = defaultdict(list)
    for job in jobs:
        if job.before:
            by_shelf[job.before.shelf].append((job.source.input_id, job.before))
    for shelf_name, files in by_shelf.items():
        numbers = ", ".join(f"({known.number}, {number})" for number, known in files)
        store.script(f"create or replace temp table renumbered as select * from (values {numbers}) as v(was, input_id)")
        _take_attempts(store, shelf_name, [known.without for _, known in files if known.without is not None])
        _take_others(store, shelf_name)
        store.script("drop table renumbered")


def _take_attempts(store: Store, shelf_name: str, without: Sequence[int]) -> None:
    names = [quoted(one) for one in _columns(store, shelf_name) if one not in ("attempt_id", "input_id")]
    told = (
        f"case when u.attempt_id is null then a.{one} else u.{one} end" if one.strip('"') in _TOLD else f"a.{one}"
        for one in names
    )
    left = f" and a.attempt_id not in ({', '.join(map(str, without))})" if without else ""
    store.script(
        f"insert into attempts (input_id, {', '.join(names)}) "
        f"select r.input_id, {', '.join(told)} from {shelf_name}.attempt_rows as a "
        "join renumbered as r on r.was = a.input_id "
        f"left join {shelf_name}.untold as u on u.attempt_id = a.attempt_id where true{left} union all "
        f"select r.input_id, {', '.join(f'a.{one}' for one in names)} from {shelf_name}.left_out as a "
        "join renumbered as r on r.was = a.input_id"
    )


def _take_others(store: Store, shelf_name: str) -> None:
    if store.run(f"select count(*) from {shelf_name}.further_rows")[0][0]:
        names = ", ".join(['"table"', "_bad0", "_bad1", *map(quoted, other_rows(store))])
        store.script(
            f"insert into other_rows (input_id, {names}) select r.input_id, {names} from {shelf_name}.further_rows "
            "as o join renumbered as r on r.was = o.input_id"
        )
    names = ", ".join(quoted(one) for one in store.columns("engine_samples") if one != "input_id")
    store.script(
        f"insert into engine_samples (input_id, {names}) select r.input_id, {names} from {shelf_name}.engine_samples "
        "as s join renumbered as r on r.was = s.input_id"
    )


def write(store: Store, jobs: Sequence[Job], path: Path, reading: str, notes: Sequence[str]) -> None:
    """Writes all that was read beside `path` and renames it, so that nobody ever sees half a store. UsageError where
    the system refuses; an older file then stays as it was."""
    target = Path(os.path.realpath(path))
    beside = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}"
    try:
        beside.mkdir()
        _fill(store, jobs, beside / "store", reading, notes)
        if target.exists():
            (beside / "store").chmod(target.stat().st_mode & 0o7777)
        (beside / "store").replace(target)
    except (OSError, StoreError) as error:
        reason = error.strerror if isinstance(error, OSError) else unquoted(str(error))
        raise UsageError(f"{path}: cannot be written ({reason}): write elsewhere") from error
    finally:
        with suppress(StoreError):
            store.detach("kept")
        shutil.rmtree(beside, ignore_errors=True)


def _fill(store: Store, jobs: Sequence[Job], file: Path, reading: str, notes: Sequence[str]) -> None:
    store.attach(file, "kept")
    for table in _COPIED:
        store.script(f"create table kept.{table} as select * from {table}")
    others = ", ".join(["input_id", '"table"', "_bad0", "_bad1", *map(quoted, other_rows(store))])
    source = "kept_others" if store.columns("kept_others") else "other_rows"
    number = "attempt_id" if source == "kept_others" else "cast(null as bigint) as attempt_id"
    untold = "untold" if store.columns("untold") else "attempts limit 0"
    attempts = "attempt_rows" if store.columns("attempt_rows") else "attempts"
    names = ", ".join(map(quoted, store.columns(attempts)))
    store.script(
        f"create table kept.attempt_rows as select {names} from {attempts};"
        f"create table kept.left_out as select {names} from left_out;"
        f"create table kept.untold as select attempt_id, {', '.join(_TOLD)} from {untold};"
        f"create table kept.further_rows as select {number}, {others} from {source} "
        "where \"table\" <> 'engine_samples';"
        "create table kept.about (layout varchar, version varchar, notes varchar);"
        "create or replace temp table origins (input_id integer, mtime_ns bigint, size bigint, head varchar, "
        "tail varchar, "
        '"offset" bigint, reading varchar, page varchar, repaired bigint, guessed boolean, last_open boolean, '
        "broken varchar, notes varchar, looked_bytes bigint, looked_whole boolean)"
    )
    store.run(
        "insert into kept.about values (?, ?, ?)",
        [_layout(store), __version__, json.dumps([mask(note) for note in notes])],
    )
    for (path,) in store.run("select distinct path from inputs"):
        if mask(path) != path:
            store.run("update kept.inputs set path = ? where path = ?", [mask(path), path])
    store.insert("origins", _ORIGINS, [_origin(job, reading) for job in jobs])
    store.script("create table kept.origins as select * from origins; drop table origins")
    _add_views(store)
    store.detach("kept")


def _add_views(store: Store) -> None:
    """The canonical tables whose rows stand in `attempt_rows` and `further_rows`."""
    ours = quoted(str(store.run("select current_database()")[0][0]))
    given = store.columns("attempt_rows") or store.columns("attempts")
    every = padded(store.columns("attempts"), given)
    views = [f"create view attempts as select {every} from attempt_rows"]
    for table in (one for one in TABLES if one not in _COPIED):
        names = ", ".join(map(quoted, store.columns(table)))
        alone = " and attempt_id is not null" if table in ("chunks", "facts") else ""
        views.append(f'create view {table} as select {names} from further_rows where "table" = {literal(table)}{alone}')
    store.script(f"use kept; {'; '.join(views)}; use {ours}")


def _origin(job: Job, reading: str) -> tuple[Any, ...]:
    """What a file is recognised by, and how it was read."""
    known, source = job.before, job.source
    notes = json.dumps([note for note in job.notes if not note.startswith("WARNING: ") and note != job.broken])
    looked = (job.looked.bytes, job.looked.whole) if job.looked else (None, None)
    if job.kept and known:
        mark_of, offset, reading, page = known.mark, known.offset, known.reading, known.page
    else:
        mark_of, offset = _mark_of(job)
        page = page_digest(job.detection)
    told = (mark_of.size, mark_of.head, mark_of.tail) if mark_of else (None, None, None)
    counts = (job.repaired, job.guessed, job.last_open, job.broken)
    return (source.input_id, source.mtime_ns, *told, offset, reading, page, *counts, notes, *looked)


def _mark_of(job: Job) -> tuple[Mark | None, int]:
    """Nothing where the file could not be read, or changed while it was."""
    if job.source.problem or job.grew:
        return None, -1
    try:
        found = mark(job.source.path, job.source.size)
        if not can_go_on(job.format, job.detection.content):
            return found, -1
        return found, end_of_lines(job.source.path, found.size) if job.last_open else found.size
    except OSError:
        return None, -1
