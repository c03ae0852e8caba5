"""What would have been: the arrivals of this log through a queue that was fitted to it.

First come, first served, so many calls at a time; each holds its place for as long as its like takes in the quiet part
of the log (`expected`), and a caller leaves at its own timeout. The number of places is the one with which the replay
of the log *as it was* comes nearest to what was measured. Where even that misses the measured median or tail by more
than `WITHIN`, the log is no such queue and nothing is said.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.values import Advice, Symptom, six
from llmdoctor.stats.quantiles import LEAST_ROWS, nearest_rank
from llmdoctor.store import Store

MOST_CALLS = 5_000
"""Longest stretch that is replayed; it begins `BEFORE` the worst latency."""
BEFORE = timedelta(minutes=5)
WITHIN = 1.25
"""How far the replay may be from the log: a figure that misses by more than a quarter would advise nobody."""
GAIN = 0.9
"""A change is told where the tail falls to this share of itself or below."""

BUSIEST = "select model from front group by model order by count(*) desc nulls last, model limit 1"

CALLS = """
select epoch_us(f.started_at) / 1000.0 as at_ms, f.expected_total_ms as work_ms, f.total_ms,
       case when f.outcome in ('timeout', 'cancelled') then f.total_ms else f.timeout_ms end as patience_ms,
       coalesce(t.retry, false) as retry
from   front_expected f
left   join tries t on t.attempt_id = f.attempt_id
where  f.model is not distinct from $model and f.started_at >= cast($since as timestamptz)
and    f.total_ms is not null and f.expected_total_ms is not null
and    coalesce(f.cache_hit, false) = false and f.outcome in ('completed', 'incomplete', 'timeout', 'cancelled')
order  by f.started_at, f.attempt_id
limit  $most
"""


@dataclass(frozen=True)
class Call:
    """One call, in milliseconds: when it comes, how long it needs a place, how long its caller waits."""

    at_ms: float
    work_ms: float
    patience_ms: float
    retry: bool


@dataclass(frozen=True)
class Queue:
    """Places, and whether a call whose caller has left gives its place back."""

    places: int
    cancels: bool

    def times_ms(self, calls: Sequence[Call]) -> list[float]:
        """How long each caller waits for the end, or until it leaves. `calls` in order of `at_ms`."""
        free = [-math.inf] * self.places
        found = []
        for call in calls:
            begin = max(call.at_ms, free[0])
            end, gone = begin + call.work_ms, call.at_ms + call.patience_ms
            if not self.cancels or begin < gone:
                heapq.heapreplace(free, min(end, gone) if self.cancels else end)
            found.append(min(end, gone) - call.at_ms)
        return found


def what_if(store: Store, fronts: Fronts, findings: Sequence[Symptom]) -> Iterator[Advice]:
    """The tail of the whole call without its retries, and without the longest one in a hundred, where a finding is
    about waiting and the replay holds. Each is an estimate."""
    about = next((one for one in findings if one.id in ABOUT and one.vantage and one.first_at), None)
    if about is None:
        return
    fronts.use(str(about.vantage))
    model = store.run(BUSIEST)[0][0]
    rows = store.rows(CALLS, {"model": model, "since": _before(str(about.first_at)), "most": MOST_CALLS})
    calls = [
        Call(
            float(row["at_ms"]),
            float(row["work_ms"]),
            math.inf if row["patience_ms"] is None else float(row["patience_ms"]),
            bool(row["retry"]),
        )
        for row in rows
    ]
    q = next((q for q in (0.99, 0.95) if len(calls) >= LEAST_ROWS[q]), None)
    queue = fitted(calls, [float(row["total_ms"]) for row in rows], q) if q else None
    if q is None or queue is None:
        return
    was = _quantile(queue.times_ms(calls), q)
    longest = _quantile([call.work_ms for call in calls], 0.99)
    for kind, kept, words in (
        ("without_retries", [call for call in calls if not call.retry], "had nobody retried"),
        (
            "without_longest",
            [call for call in calls if call.work_ms < longest],
            f"without the calls that alone take {longest / 1000:.3g} s or more, the longest in a hundred",
        ),
    ):
        if len(kept) in (0, len(calls)):
            continue
        would = _quantile(queue.times_ms(kept), q)
        if would <= GAIN * was:
            yield _advice(kind, words, q, queue, len(calls), (was, would), about)


ABOUT = ("high_ttft", "tail_latency", "slow_overall", "client_timeouts", "long_queue", "retry_storm")
"""Findings that waiting can be behind."""


def _before(first_at: str) -> str:
    return (datetime.fromisoformat(first_at) - BEFORE).isoformat()


def fitted(calls: Sequence[Call], measured_ms: Sequence[float], q: float) -> Queue | None:
    """The queue through which the calls take what was measured, at the median and at quantile `q`; None without one
    that comes within `WITHIN` of both."""
    leaves = any(math.isfinite(call.patience_ms) for call in calls)
    wanted = [_quantile(measured_ms, one) for one in (0.5, q)]
    tried = [
        (_distance([_quantile(times, one) for one in (0.5, q)], wanted), places, cancels)
        for cancels in ((False, True) if leaves else (False,))
        for places in _places(len(calls))
        if (times := Queue(places, cancels).times_ms(calls))
    ]
    if not tried or min(tried)[0] > math.log(WITHIN):
        return None
    _, places, cancels = min(tried)
    return Queue(places, cancels)


def _places(calls: int) -> Iterator[int]:
    """1, 2, 3, 4, 5, 6, 8, 10 ... up to 512: steps of a quarter, no more than there are calls."""
    places = 1
    while places <= min(calls, 512):
        yield places
        places = max(places + 1, round(places * 1.25))


def _distance(found: Sequence[float], wanted: Sequence[float]) -> float:
    return max(abs(math.log(max(one, 1e-3) / max(other, 1e-3))) for one, other in zip(found, wanted, strict=True))


def _quantile(values: Sequence[float], q: float) -> float:
    return sorted(values)[nearest_rank(len(values), q) - 1]


def _advice(kind: str, words: str, q: float, queue: Queue, n: int, tail: tuple[float, float], about: Symptom) -> Advice:
    was, would = tail
    return Advice(
        kind=kind,
        vantage=str(about.vantage),
        model=None,
        route=None,
        value=six(would),
        unit="ms",
        text=f"P{q * 100:.0f} of the whole call {would / 1000:.3g} s instead of {was / 1000:.3g} s, {words}",
        basis=f"replay of {n} calls through {queue.places} places, first come, first served;"
        f" the log as it was comes within {(WITHIN - 1) * 100:.0f} % of what was measured",
        estimate=True,
        n=n,
    )
