"""Where two vantages contradict each other about one attempt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from llmdoctor.diagnose.values import six
from llmdoctor.store import Row

Kind = Literal["outcome", "status", "clock", "first token", "duration", "input tokens", "output tokens"]

# What is no contradiction: an outcome that says nothing, and a server that noticed that its caller left.
SILENT = ("unknown", None)
SLACK_MS = 5.0
NOTICED = {("timeout", "cancelled"), ("cancelled", "timeout")}


@dataclass(frozen=True)
class Disagreement:
    """What the outer and the inner record say (numbers of tries; the same where one record holds both sides), and by
    how many ms the inner side is later; of a clock: by how much it starts before (negative) or after it can."""

    kind: Kind
    outer: int
    inner: int
    outer_says: str
    inner_says: str
    later_ms: float | None


def disagreements(rows: Sequence[Row], joins: Mapping[int, Sequence[int]]) -> Iterator[Disagreement]:
    """Every contradiction between joined rows. `joins` holds the outer numbers by inner number; numbers begin at 1."""
    for number, row in enumerate(rows, 1):
        yield from _within(number, row)
        for outer in joins.get(number, ()):
            yield from _outcomes(outer, number, rows, joins)
            yield from _clocks((outer, number), rows[outer - 1], row)
            yield from _figures((outer, number), rows[outer - 1], row)


def _within(number: int, row: Row) -> Iterator[Disagreement]:
    """One record that holds both sides."""
    if _contradict(row["outcome"], row["server_outcome"]):
        later = _less(row["server_total_ms"], row["total_ms"])
        yield Disagreement("outcome", number, number, row["outcome"], row["server_outcome"], later)


def _outcomes(
    outer: int, inner: int, rows: Sequence[Row], joins: Mapping[int, Sequence[int]]
) -> Iterator[Disagreement]:
    o, i = rows[outer - 1], rows[inner - 1]
    if _contradict(o["outcome"], i["outcome"]):
        if o["outcome"] != "completed" or not _tried_again(o, i, rows, joins):
            yield Disagreement("outcome", outer, inner, o["outcome"], i["outcome"], _apart(o["end_us"], i["end_us"]))
    elif o["http_status"] and i["http_status"] and o["http_status"] != i["http_status"]:
        yield Disagreement("status", outer, inner, str(o["http_status"]), str(i["http_status"]), None)


def _tried_again(o: Row, i: Row, rows: Sequence[Row], joins: Mapping[int, Sequence[int]]) -> bool:
    """Whether the inner side succeeded in another try within the outer attempt, one that serves no other attempt."""
    free = (row for number, row in enumerate(rows, 1) if number not in joins and row["vantage"] == i["vantage"])
    return any(
        row["outcome"] == "completed" and (_apart(i["start_us"], row["start_us"]) or -1) >= 0
        and (_apart(row["start_us"], o["end_us"]) or -1) >= 0
        for row in free
    )  # fmt: skip


def _clocks(both: tuple[int, int], o: Row, i: Row) -> Iterator[Disagreement]:
    slack = _slack(o, i)
    early, late = _apart(o["start_us"], i["start_us"]), _apart(o["end_us"], i["start_us"])
    if early is not None and early < -slack:
        yield Disagreement("clock", *both, "starts", "starts before it", early)
    elif late is not None and late > slack and o["outcome"] == "completed":
        yield Disagreement("clock", *both, "has ended", "starts after that", late)


def _figures(both: tuple[int, int], o: Row, i: Row) -> Iterator[Disagreement]:
    for kind, column in _DURATIONS.items():
        if (more := _less(i[column], o[column])) is not None and more > _slack(o, i) and o["outcome"] == i["outcome"]:
            yield Disagreement(kind, *both, f"{o[column]:.0f} ms", f"{i[column]:.0f} ms", more)
    for kind, column in _COUNTS.items():
        if o[column] is not None and i[column] is not None and o[column] != i[column]:
            yield Disagreement(kind, *both, str(o[column]), str(i[column]), None)


def _slack(o: Row, i: Row) -> float:
    """Milliseconds that records of two machines in step may differ by: their resolution and a little."""
    return float(SLACK_MS + (o["time_resolution_ms"] or 1.0) + (i["time_resolution_ms"] or 1.0))


_DURATIONS: Mapping[Kind, str] = {"first token": "ttft_ms", "duration": "total_ms"}
_COUNTS: Mapping[Kind, str] = {"input tokens": "input_tokens", "output tokens": "output_tokens"}


def _contradict(outer: str | None, inner: str | None) -> bool:
    """One side says completed, the other knows better."""
    if outer in SILENT or inner in SILENT or (outer, inner) in NOTICED:
        return False
    return (outer == "completed") != (inner == "completed")


def _apart(from_us: int | None, to_us: int | None) -> float | None:
    return None if from_us is None or to_us is None else six((to_us - from_us) / 1000)


def _less(more: float | None, less: float | None) -> float | None:
    return None if more is None or less is None else six(more - less)
