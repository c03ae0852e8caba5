"""One request over all vantages: Store -> Request, a frozen view of every attempt that belongs to it.

To it belong the attempts that carry its id, those of the same task or trace, and their partners in `pairs`
(`belonging.py`); where they contradict each other stands in `disagreements.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmdoctor.diagnose.belonging import Hidden, find, gather
from llmdoctor.diagnose.disagreements import Disagreement, disagreements
from llmdoctor.diagnose.values import instant, six
from llmdoctor.ingest import locate
from llmdoctor.pairs import MOST_TRIES, join_vantages
from llmdoctor.redact import mask
from llmdoctor.store import Row, Store, package_sql


@dataclass(frozen=True)
class Phase:
    """A stretch of one attempt, in ms since its own start: connect, prepare, queue, prefill, wait (until the first
    token, else the headers), answer, or whole where nothing within it is known."""

    name: str
    start_ms: float
    duration_ms: float


@dataclass(frozen=True)
class Join:
    """The outer attempt that this one serves (its number in the request), and how that is known: id, trace, time."""

    outer: int
    joined_by: str


@dataclass(frozen=True)
class Pieces:
    """The timed chunks of one stream, in ms since its send: all, those with content, longest gap between these."""

    count: int
    with_content: int
    first_ms: float | None
    last_ms: float | None
    max_gap_ms: float | None


@dataclass(frozen=True)
class Try:
    """One attempt at one vantage. `start_ms` counts from the first start of the request, `wait_ms` from the end of the
    try before at the same vantage (negative: that one was still running). `link` is why it belongs here."""

    number: int
    vantage: str
    attempt: int | None
    asked_for: bool
    link: str
    request_id: str | None
    file: str
    line: int | None
    outcome: str
    timeout_phase: str | None
    http_status: int | None
    error_type: str | None
    error_origin: str | None
    model: str | None
    instance: str | None
    stream: bool | None
    start_ms: float | None
    header_ms: float | None
    ttft_ms: float | None
    total_ms: float | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    wait_ms: float | None
    upstream_attempts: int | None
    phases: tuple[Phase, ...]
    joins: tuple[Join, ...]
    pieces: Pieces | None


@dataclass(frozen=True)
class Stage:
    """A named part of the way. `start_ms` counts from the first start of the request; `of` is the try, else None."""

    name: str
    of: int | None
    start_ms: float | None
    duration_ms: float | None
    parent: str | None


@dataclass(frozen=True)
class TaskEvent:
    """A change of the task's state, in ms from the first start of the request."""

    at_ms: float | None
    state: str
    worker: str | None


@dataclass(frozen=True)
class Request:
    """Everything known of one request, in order of start; `vantages` from the outermost in. `left_out` attempts were
    too many to be looked at."""

    asked: str
    found_in: tuple[str, ...]
    vantages: tuple[str, ...]
    started_at: str | None
    tries: tuple[Try, ...]
    left_out: int
    stages: tuple[Stage, ...]
    events: tuple[TaskEvent, ...]
    disagreements: tuple[Disagreement, ...]


def look_up(store: Store, asked: str, hash_ids: bool = False) -> Request:
    """The request with this id, or with the only id that begins so. The store was filled and is not sealed.

    Strings that look like secrets are masked; with `hash_ids` ids and hosts are hashed. InputError where no attempt has
    such an id, with the nearest ones; UsageError where several requests have one."""
    store.script(package_sql("derived/tables.sql"))
    join_vantages(store)
    hidden = Hidden(hash_ids)
    found_in = find(store, asked.strip(), hidden)
    total = gather(store)
    rows = store.rows(_ROWS, {"most": MOST_TRIES})
    numbers = {int(row["attempt_id"]): number for number, row in enumerate(rows, 1)}
    first = next((row["start_us"] for row in rows if row["start_us"] is not None), None)
    joins = _joins(store, rows)
    tries = tuple(_tries(rows, first, joins, _pieces(store), locate(store, list(numbers)), hidden))
    return Request(
        asked=hidden.id(asked.strip()) or "",
        found_in=found_in,
        vantages=tuple(dict.fromkeys(mask(row["vantage"] or "unknown") for row in sorted(rows, key=_depth))),
        started_at=instant(rows[0]["started_at"]),
        tries=tries,
        left_out=total - len(rows),
        stages=tuple(_stages(store, numbers, first, hidden)),
        events=tuple(_events(store, first, hidden)),
        disagreements=tuple(
            disagreements(rows, {inner: [join.outer for join in found] for inner, found in joins.items()})
        ),
    )


_ROWS = """
select a.*, v.depth, b.asked_for, b.link, p.path, epoch_us(a.started_at) as start_us, epoch_us(a.ended_at) as end_us
from   attempts a
join   belongs b using (attempt_id)
left   join vantages v using (vantage)
left   join inputs p using (input_id)
order  by a.started_at nulls last, v.depth, a.attempt_id
limit  $most
"""


# --- what is told of each


def _tries(
    rows: Sequence[Row],
    first: int | None,
    joins: Mapping[int, tuple[Join, ...]],
    pieces: Mapping[int, Pieces],
    lines: Mapping[int, int],
    hidden: Hidden,
) -> Iterator[Try]:
    ended: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        vantage = row["vantage"] or "unknown"
        before = ended.get(vantage)
        yield Try(
            number=number,
            vantage=mask(vantage),
            link=row["link"],
            request_id=hidden.id(row["request_id"]),
            file=mask(row["path"] or ""),
            line=lines.get(int(row["attempt_id"])),
            outcome=row["outcome"] or "unknown",
            model=hidden.text(row["model"]),
            instance=hidden.id(row["instance"]),
            error_type=hidden.text(row["error_type"]),
            error_origin=hidden.text(row["error_origin"]),
            timeout_phase=hidden.text(row["timeout_phase"]),
            start_ms=_since(row["start_us"], first),
            wait_ms=_since(row["start_us"], before),
            phases=tuple(_phases(row)),
            joins=joins.get(number, ()),
            pieces=pieces.get(int(row["attempt_id"])),
            header_ms=six(row["header_ms"]),
            ttft_ms=six(row["ttft_ms"]),
            total_ms=six(row["total_ms"]),
            **{name: row[name] for name in _AS_IT_IS},
        )
        if row["end_us"] is not None:
            ended[vantage] = max(row["end_us"], before or row["end_us"])


_AS_IT_IS: Sequence[Any] = (
    *("attempt", "asked_for", "http_status", "stream", "input_tokens", "cached_tokens", "output_tokens"),
    *("reasoning_tokens", "upstream_attempts"),
)


def _since(at_us: int | None, from_us: int | None) -> float | None:
    return None if at_us is None or from_us is None else six((at_us - from_us) / 1000)


BEFORE_ANSWER = (
    ("connect", ("dns_ms", "connect_ms", "tls_ms")),
    ("prepare", ("prepare_ms",)),
    ("queue", ("queue_ms",)),
    ("prefill", ("prefill_ms",)),
)


def _phases(row: Row) -> Iterator[Phase]:
    """The stretches in order, never overlapping and never beyond the total."""
    total = row["total_ms"]
    if total is None:
        return
    clock, answer_from = 0.0, _answer_from(row, total)
    for name, columns in BEFORE_ANSWER:
        took = sum(row[column] or 0.0 for column in columns)
        if took and clock + took <= answer_from:
            yield Phase(name, six(clock) or 0.0, six(took) or 0.0)
            clock += took
    if answer_from > clock:
        nothing = answer_from == total and not clock and row["outcome"] == "completed"
        yield Phase("whole" if nothing else "wait", six(clock) or 0.0, six(answer_from - clock) or 0.0)
    if total > answer_from:
        yield Phase("answer", six(answer_from) or 0.0, six(total - answer_from) or 0.0)


def _answer_from(row: Row, total: float) -> float:
    if row["ttft_ms"] is not None:
        return float(min(row["ttft_ms"], total))
    if row["decode_ms"]:
        return float(max(total - row["decode_ms"], 0.0))
    return float(total if row["header_ms"] is None else min(row["header_ms"], total))


def _depth(row: Row) -> int:
    return int(row["depth"] or 99)


def _joins(store: Store, rows: Sequence[Row]) -> dict[int, tuple[Join, ...]]:
    """Number of the inner try -> the outer ones that it serves, the innermost of them first."""
    numbers = {int(row["attempt_id"]): number for number, row in enumerate(rows, 1)}
    found: dict[int, list[Join]] = {}
    for one, other, joined_by in store.run(
        "select attempt_id, partner_id, joined_by from pairs where attempt_id in (select attempt_id from belongs)"
    ):
        if one in numbers and other in numbers:
            outer, inner = numbers[one], numbers[other]
            if _around(rows[inner - 1], rows[outer - 1]):
                outer, inner = inner, outer
            found.setdefault(inner, []).append(Join(outer, joined_by))
    order = {number: (-_depth(row), number) for number, row in enumerate(rows, 1)}
    return {inner: tuple(sorted(joins, key=lambda join: order[join.outer])) for inner, joins in sorted(found.items())}


def _around(proxy: Row, gateway: Row) -> bool:
    """Whether the proxy stands in front of the gateway, as often as behind it: its attempt is the longer one."""
    if (proxy["vantage"], gateway["vantage"]) != ("proxy", "gateway"):
        return False
    return bool((proxy["total_ms"] or 0.0) > (gateway["total_ms"] or 0.0) and proxy["start_us"] < gateway["start_us"])


def _pieces(store: Store) -> dict[int, Pieces]:
    rows = store.run(
        """
        with timed as (
            select attempt_id, at_ms, coalesce(kind, 'text') in ('text', 'reasoning', 'tool') as content
            from   chunks semi join belongs using (attempt_id)
        ), gaps as (
            select *, case when content then at_ms - lag(at_ms) over of_kind end as gap
            from   timed
            window of_kind as (partition by attempt_id, content order by at_ms)
        )
        select attempt_id, count(*), count(*) filter (content), min(at_ms), max(at_ms), max(gap)
        from   gaps group by attempt_id
        """
    )
    return {
        int(attempt_id): Pieces(count, content, six(first), six(last), six(gap))
        for attempt_id, count, content, first, last, gap in rows
    }


_OF_TASK = "task_id in (select a.task_id from attempts a semi join belongs b on a.attempt_id = b.attempt_id)"


def _stages(store: Store, numbers: Mapping[int, int], first: int | None, hidden: Hidden) -> Iterator[Stage]:
    rows = store.rows(
        "select attempt_id, name, epoch_us(started_at) as start_us, duration_ms, parent from stages"
        f" where attempt_id in (select attempt_id from belongs) or {_OF_TASK}"
        " order by started_at nulls last, name, duration_ms limit 200"
    )
    for row in rows:
        yield Stage(
            name=mask(row["name"] or "unnamed"),
            of=numbers.get(row["attempt_id"]),
            start_ms=_since(row["start_us"], first),
            duration_ms=six(row["duration_ms"]),
            parent=hidden.text(row["parent"]),
        )


def _events(store: Store, first: int | None, hidden: Hidden) -> Iterator[TaskEvent]:
    rows = store.run(
        f'select epoch_us("at"), state, worker from task_events where {_OF_TASK} and not coalesce(heartbeat, false)'
        ' order by "at" nulls last, state limit 200'
    )
    shown: Callable[[str | None], str | None] = hidden.id
    for at_us, state, worker in rows:
        yield TaskEvent(_since(at_us, first), mask(state or "unknown"), shown(worker))
