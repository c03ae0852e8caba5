"""What users saw of a case, and whether a fault made a difference to them (impact check, diagnosis.md 1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tests.simulator.attempts import Attempt
from tests.simulator.tasks import history
from tests.simulator.world import World

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
    wasted: float  # share of generated tokens that nobody received, or that were asked for a second time
    unmeasured: float  # share of answers without a count of tokens
    broken: float  # share of tasks lost, run twice, or called a success without their result


def nearest_rank(values: list[float], share: float) -> float:
    """The smallest value with at least ``share`` of the values at or below it; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0


def look(world: World, attempts: list[Attempt]) -> Seen:
    """The indicators of a case."""
    n = max(1, len(attempts))
    tasks = len({one.ask.task for one in attempts})
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
        wasted=_wasted(attempts),
        unmeasured=sum(not measured(one) and one.outcome == "completed" for one in attempts) / n,
        broken=(len(history(world, attempts).broken) + _conflicts(attempts)) / max(1, tasks),
    )


def measured(one: Attempt) -> bool:
    """Whether the answer came with its usage: a stream brings it only where it was asked for."""
    return not one.ask.stream or one.sent < one.client.usage_until


def _wasted(attempts: list[Attempt]) -> float:
    made, lost, paid = 0, 0, set[tuple[str, str]]()
    for one in attempts:
        tokens = sum(job.produced for job in one.jobs)
        kept = one.job.produced if one.job is not None and one.outcome == "completed" else 0
        again = (one.ask.task, one.ask.prompt_hash) in paid or (one.ask.batch, one.ask.prompt_hash) in paid
        made, lost = made + tokens, lost + (tokens if again else tokens - kept)
        if kept and (one.ask.batch or one.client.again or one.ask.worker):
            paid.add((one.ask.batch or one.ask.task, one.ask.prompt_hash))
    return lost / max(1, made)


def _conflicts(attempts: list[Attempt]) -> int:
    """Calls that use the key of another prompt."""
    keys: dict[str, str] = {}
    return sum(keys.setdefault(one.ask.key or one.ask.task, one.ask.prompt_hash) != one.ask.prompt_hash
               for one in attempts)  # fmt: skip


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
    """Users have something to complain of, against the twin: slow, failing, wasteful, lumpy, or three broken tasks."""
    more = max(seen.failures - twin.failures, seen.timeouts - twin.timeouts, seen.retries - twin.retries,
               seen.wasted - twin.wasted, seen.unmeasured - twin.unmeasured)  # fmt: skip
    lost = (seen.broken - twin.broken) * seen.n >= 3
    return _slower(seen, twin) or lost or more >= 0.02 or seen.bursts - twin.bursts >= 0.2


def _slower(seen: Seen, twin: Seen) -> bool:
    """1.5x on P90, P95 or P99 of first token or total, and so much that somebody would look: a limit of the chat
    profile (P95 of the first token 2 s, P99 5 s, .1 s a token), or a step away from the twin (first token: 2x and .3 s
    on P50, 3x and .5 s on P95; total: 2x on P50, 3x on P99; 2x on the time per token)."""
    pairs = [*zip(seen.ttft[1:], twin.ttft[1:], strict=True), *zip(seen.total[1:], twin.total[1:], strict=True)]
    slower = any(now >= 1.5 * then and now - then > 0.1 for now, then in pairs if then)
    limits = seen.ttft[2] > 2.0 or seen.ttft[3] > 5.0 or seen.tpot_p95 > max(0.1, 1.5 * twin.tpot_p95)
    first = seen.ttft[0] > 2 * twin.ttft[0] + 0.3 or seen.ttft[2] > max(0.5, 3 * twin.ttft[2])
    later = seen.total[0] > 2 * twin.total[0] or seen.total[3] > 3 * twin.total[3]
    return slower and (limits or first or later or seen.tpot_p95 > 2 * twin.tpot_p95)
