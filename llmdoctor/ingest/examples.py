"""Runs the examples of a format page: its lines must give its rows, and must be recognised without being told."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from llmdoctor.errors import LlmdoctorError
from llmdoctor.ingest import ReadOptions, read
from llmdoctor.ingest.detect import detect
from llmdoctor.ingest.formats import TABLES, Example, Format, load_formats
from llmdoctor.store import Row, Store


def test_format(fmt: Format, formats_dirs: Sequence[Path] = ()) -> list[str]:  # noqa: PT028 - no test
    """One sentence for each example that does not come out as the page says, [] where all do. Keys that an expected
    row does not name are not compared; rows are in the order of `attempt_id`, other tables after the attempts."""
    if not fmt.examples:
        return [f"{fmt.path}: there is no example"]
    return [failure for example in fmt.examples for failure in _run(fmt, example, tuple(formats_dirs))]


def _run(fmt: Format, example: Example, formats_dirs: tuple[Path, ...]) -> Iterator[str]:
    place = f"{fmt.path}:{example.line}"
    with tempfile.TemporaryDirectory() as folder, Store() as store:
        log = Path(folder) / "example.log"
        log.write_text(example.log, encoding="utf-8")
        chosen = detect(log, load_formats(formats_dirs)).format
        if chosen is None or chosen.id != fmt.id:
            yield f"{place}: the example is taken for {chosen.id if chosen else 'no known format'}"
        store.create()
        try:
            read(store, [str(log)], ReadOptions(format=fmt.id, formats_dirs=formats_dirs))
        except LlmdoctorError as error:
            yield f"{place}: {error}"
            return
        yield from _compared(
            place, _rows(store), [json.loads(line) for line in example.rows.splitlines() if line.strip()]
        )


def _rows(store: Store) -> list[Row]:
    found = store.rows("select * from attempts order by attempt_id")
    for table in TABLES:
        order = ", ".join(f'"{name}"' for name in store.columns(table))
        found += [{"table": table, **row} for row in store.rows(f"select * from {table} order by {order}")]
    return found


def _compared(place: str, rows: Sequence[Row], expected: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(rows) != len(expected):
        yield f"{place}: {len(rows)} rows, expected {len(expected)}"
    for number, (row, wanted) in enumerate(zip(rows, expected, strict=False), 1):
        for name, value in wanted.items():
            if name not in row:
                yield f"{place}: row {number} has no column {name}"
            elif not _same(row[name], value):
                yield f"{place}: row {number} has {name} = {row[name]!r}, expected {value!r}"


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, datetime) and isinstance(wanted, str):
        return abs((found - datetime.fromisoformat(wanted)).total_seconds()) < 1e-6
    if isinstance(found, float) and isinstance(wanted, int | float):
        return abs(found - wanted) <= 1e-6 * max(1.0, abs(wanted))
    return bool(found == wanted)
