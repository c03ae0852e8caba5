"""Logs as they really come: shuffled, cut up, doubled, with holes, coarse, noisy. The truth stays the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

Value = str | int | float | bool | None
Row = dict[str, Value]
Files = Mapping[str, list[Row]]

KEPT = frozenset({"table", "vantage", "request_id", "attempt", "started_at", "at", "name", "state", "seq", "task_id"})
INSTANTS = ("started_at", "at", "client_gone_at")


def shuffled(files: Files, seed: int) -> Files:
    """Lines in random order."""
    rng = random.Random(seed)
    return {name: rng.sample(rows, len(rows)) for name, rows in files.items()}


def in_several_files(files: Files, _seed: int) -> Files:
    """Every file cut into three."""
    return {f"{part}-{name}": rows[part * len(rows) // 3 : (part + 1) * len(rows) // 3]
            for name, rows in files.items() for part in range(3)}  # fmt: skip


def other_columns(files: Files, seed: int) -> Files:
    """The keys of every record in another order."""
    rng = random.Random(seed)
    return _each(files, lambda row: dict(rng.sample(list(row.items()), len(row))))


def doubled(files: Files, seed: int) -> Files:
    """One record in ten stands twice."""
    rng = random.Random(seed)
    return {name: [row for row in rows for _ in range(2 if rng.random() < 0.1 else 1)] for name, rows in files.items()}


def with_holes(files: Files, seed: int) -> Files:
    """A fifth of all values is missing; ids and instants are not."""
    rng = random.Random(seed)
    return _each(files, lambda row: {key: value for key, value in row.items() if key in KEPT or rng.random() >= 0.2})


def coarse(files: Files, _seed: int) -> Files:
    """Instants in whole seconds, durations in steps of 10 ms."""

    def rounded(key: str, value: Value) -> Value:
        if key in INSTANTS and isinstance(value, str):
            return value[:19] + "Z"
        if key.endswith("_ms") and isinstance(value, int | float):
            return round(value / 10) * 10
        return value

    return _each(files, lambda row: {key: rounded(key, value) for key, value in row.items()})


def one_clock_off(files: Files, _seed: int) -> Files:
    """The records of one machine are 3 s late: one instance where instances are named, else one caller."""
    for column in ("instance", "caller"):
        names = sorted({str(row[column]) for rows in files.values() for row in rows if row.get(column) is not None})
        if len(names) > 1:
            return {
                name: [_late(row) if row.get(column) == names[0] else row for row in rows]
                for name, rows in files.items()
            }
    return files


def _late(row: Row) -> Row:
    return {key: _later(value) if key in INSTANTS and isinstance(value, str) else value for key, value in row.items()}


def _later(text: str) -> str:
    return (datetime.fromisoformat(text) + timedelta(seconds=3)).isoformat().replace("+00:00", "Z")


def noisy(files: Files, seed: int) -> Files:
    """Every duration is wrong by 10 % or so."""
    rng = random.Random(seed)

    def shaken(row: Row) -> Row:
        found = {key: _shaken(key, value, rng) for key, value in row.items()}
        first, total = found.get("ttft_ms"), found.get("total_ms")
        if isinstance(first, int | float) and isinstance(total, int | float):
            found["ttft_ms"] = min(first, total)
        return found

    return _each(files, shaken)


def _shaken(key: str, value: Value, rng: random.Random) -> Value:
    set_by_hand = key in {"timeout_ms", "retry_after_ms", "at_ms"}
    if not key.endswith("_ms") or set_by_hand or not isinstance(value, int | float):
        return value
    return round(value * rng.lognormvariate(0, 0.1), 3)


def _each(files: Files, change: Callable[[Row], Row]) -> Files:
    return {name: [change(row) for row in rows] for name, rows in files.items()}


CHANGES: dict[str, Callable[[Files, int], Files]] = {
    "shuffled lines": shuffled,
    "three files": in_several_files,
    "other column order": other_columns,
    "a tenth of the rows doubled": doubled,
    "a fifth of the values missing": with_holes,
    "whole seconds, 10 ms": coarse,
    "one machine's clock 3 s off": one_clock_off,
    "10 % noise": noisy,
}
