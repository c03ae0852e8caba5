"""Texts that are not one JSON object a line -> objects with the line on which each begins: JSON of any layout, CSV,
key=value, Parquet, SQLite."""

import csv
import io
import json
import os
import re
import shutil
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llmdoctor.ingest.envelope import STAMP, Line, leading_time
from llmdoctor.ingest.unpack import Unpacked
from llmdoctor.store import Store

LONGEST = 16 << 20
"""Bytes of the longest line that is read; DuckDB gives up the whole query at about twice that."""

LARGEST = 256 << 20
"""Characters of the largest object that is read from an export of any layout; a page may open the arrays in it."""

Item = tuple[int, dict[str, Any] | None, bytes, str]
"""Line, the object, its text as far as there is one, and why there is no object ("" where there is one)."""


_BETWEEN = " \t\r\n,[]\ufeff\0\x1e"
_NEXT = re.compile(r"[\s,\[\]}\0\x1e](\{\s*[\"}])")


def json_values(file: Unpacked) -> Iterator[Item]:
    """Objects of a JSON text of any layout: `[{...}, {...}]`, `{...}{...}` or pretty-printed. What cannot be read is
    one item that says so, and the next object is looked for behind it."""
    decoder = json.JSONDecoder()
    text, line, done = "", 1, False
    blocks = _decoded(file)
    while True:
        stripped = text.lstrip(_BETWEEN)
        line += text.count("\n", 0, len(text) - len(stripped))
        text, wrong = stripped, None
        try:
            value, end = decoder.raw_decode(text) if text else (None, 0)
        except json.JSONDecodeError as error:
            end, wrong = 0, error.pos
        except (ValueError, RecursionError):
            end = 0
        if end and (done or end < len(text)):
            whole = text[:end].replace("\n", " ").replace("\r", " ").encode("utf-8", "replace")
            good = isinstance(value, dict)
            yield line, value if good else None, whole, "" if good else "JSON, but not an object"
            line += text.count("\n", 0, end)
            text = text[end:]
            continue
        skipped = _damaged(text, wrong, done)
        if skipped:
            yield line, None, text[:200].encode("utf-8", "replace"), "not JSON"
            line += text.count("\n", 0, skipped)
            text = text[skipped:]
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


def _damaged(text: str, wrong: int | None, done: bool) -> int:
    """Characters up to the next object, where the text is wrong at a place that more of it would not mend, else 0. An
    indented object is followed by one that begins as it does, so that the objects in it are not taken for records."""
    if wrong is None or not text or (not done and wrong > len(text) - 100):
        return 0
    if re.match(r"\{\r?\n", text):
        found = re.compile(r"\n[,\]\[ \0\x1e]*(\{\r?\n)").search(text, 1)
    else:
        found = _NEXT.search(text, max(wrong - 1, 0))
    return found.start(1) if found else 0


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


_MOST_LINES = 2000
"""Lines of one CSV record; a quote that is never closed would take in the rest of the file."""


def csv_rows(file: Unpacked, delimiter: str) -> Iterator[Item]:
    """Rows under the header, each as an object of texts; cells that hold JSON objects as such. Where a record of many
    lines has a wrong number of cells, a stray quote is to blame: its first line is wrong, the others are read anew."""
    stream = io.TextIOWrapper(io.BufferedReader(_Raw(file)), encoding="utf-8-sig", errors="replace", newline="")
    csv.field_size_limit(LONGEST)
    waiting: deque[str] = deque()
    taken: list[str] = []

    def fed() -> Iterator[str]:
        while len(taken) < _MOST_LINES and (text := waiting.popleft() if waiting else stream.readline()):
            taken.append(text)
            yield text

    header: list[str] = []
    first = 1
    while True:
        taken.clear()
        try:
            cells = next(csv.reader(fed(), delimiter=delimiter), None)
            reason = f"{len(cells or ())} cells where the header has {len(header)}"
        except csv.Error as error:
            cells, reason = [], f"not CSV ({error})"
        if not taken:
            return
        if cells is None or (not any(cell.strip() for cell in cells) and reason[0].isdigit()):
            pass
        elif not header:
            header = [cell.strip() for cell in cells]
        elif len(cells) == len(header) and cells != header:
            yield first, {n: _cell(cell) for n, cell in zip(header, cells, strict=True) if cell != ""}, b"", ""
        else:
            if len(taken) > 1:
                waiting.extendleft(reversed(taken[1:]))
                del taken[1:]
            shown = taken[0].rstrip("\r\n").encode("utf-8", "replace")
            yield first, None, shown, "the header once more" if cells == header else reason
        first += len(taken)


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


def pairs(line: Line) -> dict[str, Any]:
    """The `key=value` pairs of a line, values as texts; a time with which the line begins goes under `_logged_at`. Of a
    key that occurs twice the first value counts."""
    text = line.text.decode("utf-8", "replace")
    found: dict[str, Any] = {}
    for key, value in _PAIR.findall(text):
        quoted = value.startswith('"')
        found.setdefault(key, value[1:-1].replace('\\"', '"') if quoted else value)
    at = leading_time(text) or line.at
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
    """Name -> a few rows, for each table of a SQLite file, as far as they can be read. sqlite3.Error where it is
    damaged before the first row."""
    with _sqlite(path) as base:
        names = [name for (name,) in base.execute("select name from sqlite_master where type in ('table', 'view')")]
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for name, rows in found.items():
            try:
                rows.extend(_row(row) for row in base.execute(f"select * from {_name(name)} limit 200"))
            except sqlite3.Error:
                if not any(found.values()):
                    raise
    return found


def sqlite_rows(path: Path, table: str) -> Iterator[Item]:
    """Rows of one table, in order; one item that says so where the file is damaged."""
    number = 0
    try:
        with _sqlite(path) as base:
            for number, row in enumerate(base.execute(f"select * from {_name(table)}"), 1):
                yield number, _row(row), b"", ""
    except sqlite3.Error as error:
        yield number + 1, None, b"", f"the database is damaged ({error})"


@contextmanager
def _sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    """The database as it stands, never written to. The newest rows may wait in a log beside it (`-wal`), which SQLite
    only reads where it may write: then a copy is read."""
    waiting = path.with_name(path.name + "-wal")
    with TemporaryDirectory(prefix="llmdoctor-") as folder:
        mode = "mode=ro&immutable=1"
        if waiting.exists() and waiting.stat().st_size:
            path = Path(shutil.copyfile(path, Path(folder) / "copy"))
            shutil.copyfile(waiting, Path(folder) / "copy-wal")
            mode = "mode=rw"
        base = sqlite3.connect(f"file:{_uri(path)}?{mode}", uri=True)
        try:
            base.row_factory = sqlite3.Row
            base.text_factory = lambda data: data.decode("utf-8", "replace")
            yield base
        finally:
            base.close()


def _uri(path: Path) -> str:
    from urllib.parse import quote  # noqa: PLC0415

    return quote(os.fsencode(path.resolve()))


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
