"""What a page would make of a file, told by the records that were looked at: nothing is stored."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmdoctor.ingest import query
from llmdoctor.ingest.detect import Detection
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.load import given_columns
from llmdoctor.ingest.rejects import on_lines
from llmdoctor.store import Store


@dataclass(frozen=True)
class Preview:
    """`calls` of `records` are LLM calls; `columns` says how many of these fill each column (those that none fills are
    left out), `guesses` which units were guessed; `known` are all columns of `attempts`; `rows` are the calls, without
    the columns that are null."""

    records: int
    calls: int
    columns: Mapping[str, int]
    guesses: tuple[str, ...]
    known: frozenset[str]
    rows: tuple[Mapping[str, Any], ...]


def preview(found: Detection) -> Preview:
    """For a file that some page fits (`found.format` is not None)."""
    assert found.format is not None
    return preview_of(found.format, found.sample)


def preview_of(page: Format, records: Sequence[Mapping[str, Any]]) -> Preview:
    """The same for records and a page."""
    how = query.plan(page)
    with Store() as store:
        store.create()
        attempts = store.columns("attempts")
        sql = query.rows_sql(how, query.from_lines(how), given_columns(store, how), attempts)
        lines = [json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") for record in records]
        found = on_lines(store, f"select * from ({sql}) where _kind = {query.CALL} order by input_id", lines)
    names = [*attempts, "_bad0", "_bad1", "_guess", "_kind"]
    rows = [dict(zip(names, row, strict=True)) for row in found]
    bits = 0
    for row in rows:
        bits |= row["_guess"]
    hidden = {"_bad0", "_bad1", "_guess", "_kind", "input_id", "attempt_id", "line"}
    kept = [{name: value for name, value in row.items() if value is not None and name not in hidden} for row in rows]
    guesses = tuple(f"{alias.shown} in {alias.unit}" for i, alias in enumerate(how.guesses) if bits >> i & 1)
    return Preview(
        len(records),
        len(rows),
        Counter(name for row in kept for name in row),
        guesses,
        frozenset(attempts),
        tuple(kept),
    )
