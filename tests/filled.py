"""A store with rows in it, for tests: attempts given as dicts, everything else as a real read would leave it."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from llmdoctor.store import Store

START = datetime(2026, 1, 5, tzinfo=UTC)


@contextmanager
def filled(rows: Sequence[Mapping[str, Any]], threads: int | None = None) -> Iterator[Store]:
    """A created store with `rows` as attempts: `at_s` is the start in seconds, vantage client unless said otherwise."""
    with Store(threads=threads) as store, tempfile.TemporaryDirectory() as folder:
        store.create()
        path = Path(folder) / "attempts.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in _complete(rows)))
        types = store.columns("attempts")
        store.run(
            "insert into attempts by name select * from read_json(?, format = 'newline_delimited', columns = "
            + "{" + ", ".join(f"{name}: '{kind}'" for name, kind in types.items()) + "})",
            [str(path)],
        )  # fmt: skip
        store.insert("inputs", ["input_id", "path", "rows", "lines"], [[1, "made.jsonl", len(rows), len(rows)]])
        yield store


def _complete(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(sorted(rows, key=lambda row: float(row["at_s"])), 1):
        values = {"attempt_id": number, "input_id": 1, "vantage": "client", "outcome": "completed", **row}
        started_at = START + timedelta(seconds=float(values.pop("at_s")))
        values["started_at"] = started_at.isoformat()
        if values.get("total_ms") is not None:
            values["ended_at"] = (started_at + timedelta(milliseconds=values["total_ms"])).isoformat()
        yield values
