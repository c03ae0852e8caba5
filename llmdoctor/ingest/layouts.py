"""Texts that are not one JSON object a line -> objects with the line on which each begins: JSON of any layout, CSV,
key=value, Parquet, SQLite."""

import csv
import io
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from llmdoctor.ingest.envelope import STAMP, Line
from llmdoctor.ingest.unpack import Unpacked
from llmdoctor.store import Store

LONGEST = 16 << 20
"""Bytes of the longest line that is read; DuckDB gives up the whole query at about twice that."""

LARGEST = 256 << 20
"""Characters of the largest object that is read from an export of any layout; a page may open the arrays in it."""

Item = tuple[int, dict[str, Any] | None, bytes, str]
"""Line, the object, its text as far as there is one, and why there is no object ("" where there is one)."""


def json_values(file: Unpacked) -> Iterator[Item]:
    """Objects of a JSON text of any layout: `[{...}, {...}]`, `{...}{...}` or pretty-printed. What cannot be read ends
    the file: one item that says so."""
    decoder = json.JSONDecoder()
    text, line, done = "", 1, False
    blocks = _decoded(file)
    while True:
        stripped = text.lstrip(" \t\r\n,[]\ufeff")
        line += text.count("\n", 0, len(text) - len(stripped))
        text = stripped
        try:
            value, end = decoder.raw_decode(text) if text else (None, 0)
        except (ValueError, RecursionError):
            end = 0
        if end and (done or end < len(text)):
            whole = text[:end].replace("\n", " ").replace("\r", " ").encode("utf-8", "replace")
            good = isinstance(value, dict)
            yield line, value if good else None, whole, "" if good else "JSON, but not an object"
            line += text.count("\n", 0, end)
            text = text[end:]
            continue
        if done:
            break
        # Objects larger than a block: read at least as much again, so that the work stays linear.
        more = next(blocks, None)
        wanted = len(text)
        parts = [text]
        while more is not None and wanted >= 0:
            parts.append(more)
            wanted -= len(more)
            more = next(blocks, None) if wanted > 0 else None
        done = len(parts) == 1
        text = "".join(parts)
        if len(text) > (LARGEST if text.startswith("{") else 4 * LONGEST):
            break
    if text:
        shown = text[:200].encode("utf-8", "replace")
        yield line, None, shown, _rest(text, done)


def _rest(text: str, done: bool) -> str:
    if text.startswith("{") and not done:
        return f"an object larger than {LARGEST >> 20} MiB"
    return "incomplete last record" if text.startswith("{") else "not JSON from here on"


def _decoded(file: Unpacked) -> Iterator[str]:
    import codecs  # noqa: PLC0415

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for block in file.blocks():
        yield decoder.decode(block)
    yield decoder.decode(b"", True)


def csv_rows(file: Unpacked, delimiter: str) -> Iterator[Item]:
    """Rows under the header, each as an object of texts; cells that hold JSON objects as such."""
    stream = io.TextIOWrapper(io.BufferedReader(_Raw(file)), encoding="utf-8-sig", errors="replace", newline="")
    reader = csv.reader(stream, delimiter=delimiter)
    csv.field_size_limit(LONGEST)
    header: list[str] = []
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield first, None, b"", f"not CSV ({error})"
            continue
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = [cell.strip() for cell in cells]
        elif len(cells) != len(header):
            shown = delimiter.join(cells).encode("utf-8", "replace")
            yield first, None, shown, f"{len(cells)} cells where the header has {len(header)}"
        else:
            yield first, {n: _cell(cell) for n, cell in zip(header, cells, strict=True) if cell != ""}, b"", ""


def _cell(text: str) -> Any:
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


_PAIR = re.compile(
    r'(?:^|(?<=[\s,;|\[{(]))([A-Za-z_@$\u4e00-\u9fff][\w.@$/\u4e00-\u9fff-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*?)(?=[,;|\])}]?(?:\s|$)|[,;|])'
)
_START = re.compile(r"\W?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)")


def pairs(line: Line) -> dict[str, Any]:
    """The `key=value` pairs of a line, values as texts; a time with which the line begins goes under `_logged_at`. Of a
    key that occurs twice the first value counts."""
    text = line.text.decode("utf-8", "replace")
    found: dict[str, Any] = {}
    for key, value in _PAIR.findall(text):
        quoted = value.startswith('"')
        found.setdefault(key, value[1:-1].replace('\\"', '"') if quoted else value)
    told = _START.match(text)
    at = told.group(1) if told else line.at
    if found and at:
        found.setdefault(STAMP, at)
    return found


def parquet_rows(path: Path) -> Iterator[Item]:
    """Rows of a Parquet file, in order."""
    with Store() as store:
        store.script("set preserve_insertion_order = true")
        for number, row in enumerate(store.rows(f"select * from read_parquet({_literal(path)})"), 1):
            yield number, {key: _plain(value) for key, value in row.items() if value is not None}, b"", ""


def parquet_head(path: Path) -> list[dict[str, Any]]:
    """A few rows of a Parquet file."""
    with Store() as store:
        store.script("set preserve_insertion_order = true")
        rows = store.rows(f"select * from read_parquet({_literal(path)}) limit 200")
    return [{key: _plain(value) for key, value in row.items() if value is not None} for row in rows]


def sqlite_tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Name -> a few rows, for each table of a SQLite file. sqlite3.Error where it is damaged."""
    with _sqlite(path) as base:
        names = [name for (name,) in base.execute("select name from sqlite_master where type in ('table', 'view')")]
        return {name: [_row(row) for row in base.execute(f"select * from {_name(name)} limit 200")] for name in names}


def sqlite_rows(path: Path, table: str) -> Iterator[Item]:
    """Rows of one table, in order; one item that says so where the file is damaged."""
    number = 0
    try:
        with _sqlite(path) as base:
            for number, row in enumerate(base.execute(f"select * from {_name(table)}"), 1):
                yield number, _row(row), b"", ""
    except sqlite3.Error as error:
        yield number + 1, None, b"", f"the database is damaged ({error})"


def _sqlite(path: Path) -> sqlite3.Connection:
    base = sqlite3.connect(f"file:{_uri(path)}?mode=ro&immutable=1", uri=True)
    base.row_factory = sqlite3.Row
    base.text_factory = lambda data: data.decode("utf-8", "replace")
    return base


def _uri(path: Path) -> str:
    from urllib.parse import quote  # noqa: PLC0415

    return quote(str(path.resolve()))


def _row(row: sqlite3.Row) -> dict[str, Any]:
    found = {}
    for key in row.keys():  # noqa: SIM118 - a sqlite3.Row iterates over its values
        value = row[key]
        if value is not None and not isinstance(value, bytes):
            found[key] = _cell(value) if isinstance(value, str) else value
    return found


def _plain(value: Any) -> Any:
    """A value that JSON knows."""
    if isinstance(value, str):
        return _cell(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool | int | float) or value is None:
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _name(table: str) -> str:
    return '"' + table.replace('"', '""') + '"'


class _Raw(io.RawIOBase):
    """Blocks as a file object."""

    def __init__(self, file: Unpacked) -> None:
        self._blocks = file.blocks()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._blocks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def numbered(lines: Iterable[bytes], above: int = 0) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, blank ones left out, without a byte order mark."""
    for number, line in enumerate(lines, above + 1):
        if line.strip():
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
