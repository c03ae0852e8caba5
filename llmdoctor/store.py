"""The DuckDB database that everything observed is put into and everything concluded is asked of.

Fill (tables of schema.sql), `seal` (no files, network or settings from then on), query. The only module that imports
duckdb. Results come back as plain Python values; `arrow` hands a result to polars without a copy through Python.
"""

import json
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb

from llmdoctor.errors import StoreError
from llmdoctor.redact import unquoted

Row = dict[str, Any]

# Errors about a value; those of the parser and the binder quote the statement, which tells the user what to change.
_QUOTES_DATA = ("Conversion Error", "Invalid Input Error", "Out of Range Error", "Constraint Error")

MEMORY = "60%"
"""Of what the machine (or the container) has, where the user does not say."""

# ':name' outside strings, quoted identifiers and comments, and not the second half of '::'.
_LIMIT = re.compile(r"('(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|::)|:([a-z_][a-z0-9_]*)", re.DOTALL)


class Store:
    """One database, in memory or in a file. Use as a context manager."""

    def __init__(self, path: Path | None = None, memory: str | None = None, threads: int | None = None) -> None:
        # What does not fit waits in a folder that nobody else can read: by itself DuckDB would take one in the working
        # directory. The rest of the memory is for what polars holds meanwhile.
        folder = tempfile.mkdtemp(prefix="llmdoctor-")
        self._remove_spill = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": False,
            "memory_limit": memory or MEMORY,
            "temp_directory": folder,
        }
        if threads:
            config["threads"] = threads
        self._closing: list[Callable[[], object]] = []
        try:
            self._db = duckdb.connect(str(path) if path else ":memory:", config=config)
            # `progress` asks for it; printed, it would go to standard output even when that is a pipe.
            self._db.execute("set enable_progress_bar_print = false; set enable_progress_bar = true")
            self._db.execute("set TimeZone = 'UTC'")
            self._db.execute("set preserve_insertion_order = false")
            # Memory given back after each query would be asked for, page by page, by the next.
            for setting in ("allocator_flush_threshold", "allocator_bulk_deallocation_flush_threshold"):
                self._db.execute(f"set {setting} = '16GB'")
        except duckdb.Error as error:
            self._remove_spill()
            raise StoreError(f"{path or 'database'}: {first_line(error)}") from error

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the database; a file keeps what was put into it."""
        try:
            self._db.close()
        finally:
            self._remove_spill()
            for clean in self._closing:
                clean()

    def at_close(self, clean: Callable[[], object]) -> None:
        """Calls `clean` when the store is closed."""
        self._closing.append(clean)

    def progress(self) -> float:
        """Share of the running query that is done, as far as DuckDB knows it, 0 without one. Any thread may ask."""
        try:
            return max(float(self._db.query_progress()), 0.0) / 100.0
        except (duckdb.Error, RuntimeError):  # closed meanwhile
            return 0.0

    def attach(self, path: Path, name: str, read_only: bool = False) -> None:
        """Lets queries name the tables of another database file as `name.table`. StoreError where it is none."""
        place = str(path).replace("'", "''")
        self.script(f"attach '{place}' as {name} (type duckdb{', read_only' if read_only else ''})")

    def detach(self, name: str) -> None:
        """Ends what `attach` began; what was written is in the file then."""
        self.script(f"detach {name}")

    def create(self) -> None:
        """Makes the empty canonical tables."""
        self.script(package_sql("schema.sql"))

    def script(self, sql: str) -> None:
        """Runs several statements; StoreError with DuckDB's first line when one is refused."""
        try:
            self._db.execute(sql)
        except (duckdb.Error, RuntimeError) as error:
            raise _refused(error) from error

    def run(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Runs one statement and returns its rows as tuples. StoreError when DuckDB refuses it."""
        try:
            return self._db.execute(sql, values or None).fetchall()
        except (duckdb.Error, RuntimeError) as error:
            raise _refused(error) from error

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Like `run`, each row a dict of column to value."""
        try:
            cursor = self._db.execute(sql, values or None)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except (duckdb.Error, RuntimeError) as error:
            raise _refused(error) from error

    def ask(self, sql: str, limits: Mapping[str, Any]) -> list[Row]:
        """Runs a page's query: `:name` limits are bound, and only those that occur."""
        text, used = bind_limits(sql)
        missing = sorted(used - limits.keys())
        if missing:
            raise StoreError(f"no limit or parameter is called {', '.join(missing)}")
        return self.rows(text, {name: limits[name] for name in used})

    def keep(self, table: str, sql: str, limits: Mapping[str, Any]) -> None:
        """Like `ask`, but the rows stay in the database as a temporary table."""
        text, used = bind_limits(sql)
        self.run(f"create or replace temp table {table} as {text}", {name: limits[name] for name in used})

    def arrow(self, sql: str) -> Any:
        """The result as an object with the Arrow C stream interface, for `polars.DataFrame(...)`."""
        return self._db.sql(sql)

    def lend(self, name: str, frame: Any) -> None:
        """Lets queries read `name`: a frame, or whatever else has the Arrow C stream interface. Until `take_back`."""
        self._db.register(name, _Stream(frame))

    def take_back(self, name: str) -> None:
        """Ends what `lend` began."""
        self._db.unregister(name)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Appends rows to a table, by one JSON text: bound one by one, ten thousand rows would take seconds."""
        batch = [dict(zip(columns, row, strict=True)) for row in rows]
        if not batch:
            return
        kinds = self.columns(table)
        form = json.dumps([{name: kinds[name] for name in columns}]).replace("'", "''")
        names = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(f'one."{name}"' for name in columns)
        rows_of_text = f"select unnest(from_json_strict(?, '{form}')) as one"
        try:
            self.run(
                f"insert into {table} ({names}) select {values} from ({rows_of_text})", [json.dumps(batch, default=str)]
            )
        except StoreError as error:
            raise StoreError(f"{table}: {error}") from error

    def columns(self, table: str) -> dict[str, str]:
        """Column name -> DuckDB type of a table or view, in order."""
        found = self.run(
            "select column_name, data_type from information_schema.columns where table_name = ?"
            " and table_catalog in (current_database(), 'temp') order by ordinal_position",
            [table],
        )
        return {str(name): str(kind) for name, kind in found}

    def seal(self) -> None:
        """From here on no query can read a file, use the network or change a setting."""
        self.script("set enable_external_access = false; set lock_configuration = true")


def _refused(error: Exception) -> BaseException:
    """What to raise for an error of DuckDB. Ctrl-C ends a query with an error of the C++ runtime: it must not pass for
    a file that cannot be read."""
    if isinstance(error, duckdb.InterruptException) or "Query interrupted" in str(error):
        return KeyboardInterrupt()
    return StoreError(first_line(error)) if isinstance(error, duckdb.Error) else error


class _Stream:
    """Only the Arrow interface of a frame: of a polars frame as such DuckDB would ask that pyarrow be installed."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def bind_limits(sql: str) -> tuple[str, set[str]]:
    """Turns `:name` into DuckDB's `$name` outside strings and comments; returns the text and the names used."""
    used: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        if match.group(2) is None:
            return match.group(0)
        used.add(match.group(2))
        return f"${match.group(2)}"

    return _LIMIT.sub(replace, sql), used


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, without its trailing blanks, nor the value where it quotes one: it may be
    somebody's prompt."""
    line = (str(error).splitlines() or ["unknown error"])[0].rstrip()
    return unquoted(line) if line.startswith(_QUOTES_DATA) else line


def padded(every: Mapping[str, str], given: Collection[str], of: str = "") -> str:
    """The columns of `every` (name to type) for a SELECT from what has only those of `given`: the others are null."""
    items = (f'{of}"{one}"' if one in given else f'cast(null as {kind}) as "{one}"' for one, kind in every.items())
    return ", ".join(items)


def package_sql(name: str) -> str:
    """The text of one of the .sql files of this package."""
    return resources.files("llmdoctor").joinpath(name).read_text(encoding="utf-8")
