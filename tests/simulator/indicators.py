"""What users saw of a case, and whether a fault made a difference to them (impact check, diagnosis.md 1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tests.simulator.attempts import Attempt

QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Seen:
    """User-facing indicators. Quantiles in seconds at 50, 90, 95, 99 %; timeouts keep their elapsed time."""

    n: int
    ttft: tuple[float, ...]
    total: tuple[float, ...]
    tpot_p95: float
    failures: float
    timeouts: float
    retries: float
    bursts: float
    preempted: float
    queue_p99: float


def nearest_rank(values: list[float], share: float) -> float:
    """The smallest value with at least ``share`` of the values at or below it; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0


def look(attempts: list[Attempt]) -> Seen:
    """The indicators of a case."""
    n = max(1, len(attempts))
    took = [(one, one.ended - one.sent) for one in attempts if one.ended is not None]
    firsts = [(one, one.first_at - one.sent) for one, _ in took if one.first_at is not None]
    totals = [total for one, total in took if one.outcome in {"completed", "timeout"}]
    streams = [one for one, _ in firsts if one.outcome == "completed" and len(one.received.times) >= 32]
    return Seen(
        n=len(attempts),
        ttft=tuple(nearest_rank([ttft for _, ttft in firsts], share) for share in QUANTILES),
        total=tuple(nearest_rank(totals, share) for share in QUANTILES),
        tpot_p95=nearest_rank([_pace(one) for one in streams], 0.95),
        failures=sum(one.outcome in {"failed", "incomplete", "rate_limited"} for one in attempts) / n,
        timeouts=sum(one.outcome == "timeout" for one in attempts) / n,
        retries=sum(one.number > 1 for one in attempts) / n,
        bursts=sum(_lumpy(one) for one in streams) / max(1, len(streams)),
        preempted=sum(one.job is not None and one.job.preemptions > 0 for one in attempts) / n,
        queue_p99=nearest_rank([_queued(one) for one in attempts if one.job], 0.99),
    )


def _queued(one: Attempt) -> float:
    job = one.job
    return job.scheduled - job.submitted if job and job.scheduled is not None else 0.0


def _pace(one: Attempt) -> float:
    times = one.received.times
    return (times[-1] - times[0]) / max(1, one.ask.answer - 1)


def _lumpy(one: Attempt) -> bool:
    """Whether most pieces came in the company of ten or more others within 2 ms."""
    times = one.received.times
    together = sum(later - at < 0.002 for at, later in zip(times, times[10:], strict=False))
    return together > len(times) / 2 or (times[0] - one.sent) > 0.6 * (times[-1] - one.sent)


def is_healthy(seen: Seen) -> bool:
    """Inside the limits of the chat profile (diagnosis.md 5.2) with a margin, nothing queues, fails or is preempted."""
    quick = seen.ttft[2] <= 1.5 and seen.ttft[3] <= 3.5 and seen.tpot_p95 <= 0.085
    sound = seen.failures <= 0.006 and seen.timeouts <= 0.002 and seen.retries <= 0.006
    return quick and sound and seen.preempted <= 0.004 and seen.queue_p99 <= 0.8


def felt(seen: Seen, twin: Seen) -> bool:
    """P90, P95 or P99 of first token or total 1.5x, or 2 points of failures, timeouts or retries, or lumpy streams."""
    pairs = [*zip(seen.ttft[1:], twin.ttft[1:], strict=True), *zip(seen.total[1:], twin.total[1:], strict=True)]
    slower = any(now >= 1.5 * then and now - then > 0.1 for now, then in pairs if then)
    more = max(seen.failures - twin.failures, seen.timeouts - twin.timeouts, seen.retries - twin.retries)
    return slower or more >= 0.02 or seen.bursts - twin.bursts >= 0.2
