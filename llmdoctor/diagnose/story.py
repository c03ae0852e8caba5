"""Findings that overlap in time, told as one incident with one start.

A fault shows in several ways, one after the other: more arrives, a queue grows, first tokens come late, callers give
up, they try again, and still more arrives. A finding's span is the stretch of the time line on which its requests
crowd: the one whose counts add up to most above the level half way between its share inside and outside (Kadane's sum).
One early straggler does not move it; a finding whose share outside is half of that inside is there all along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt
from statistics import median

from llmdoctor.diagnose.course import Shift, Step, Story
from llmdoctor.diagnose.values import Symptom, Timeline, instant
from llmdoctor.store import Store

ORDER = (
    *("arrivals", "latency_shift", "uneven_instances", "long_queue", "slow_stage", "high_ttft", "slow_decode"),
    *("slow_overall", "tail_latency", "stream_stall", "burst_delivery", "client_timeouts", "timeout_success_mismatch"),
    *("retry_storm", "rate_limited", "errors", "incomplete_streams", "duplicate_work", "wasted_spend"),
)
"""What begins in the same bin is told in this order: causes before what they lead to."""

MORE = 1.5  # times the usual rate of first tries
SURE = 4.0  # standard errors
TOLD = 6  # steps in the one line


@dataclass(frozen=True)
class _Span:
    """Where on the time line something crowds: first and last bin."""

    what: str
    text: str
    first: int
    last: int


def tell(
    store: Store, judged: Sequence[Symptom], findings: Sequence[Symptom], timeline: Timeline, shifts: Sequence[Shift]
) -> Story | None:
    """The story of the finding that stands first and of all that overlap with it; None where that is less than two.

    `judged` are the findings in the order in which `judge_causes` numbered them, `findings` those as they are shown."""
    if len(timeline.bins) < 4:
        return None
    spans = _spans(store, judged, findings, timeline)
    together = _overlapping(spans)
    if len(together) < 2:
        return None
    if (more := _arrivals(timeline, min(one.first for one in together))) is not None:
        together = [more, *together]
    together.sort(key=lambda one: (one.first, ORDER.index(one.what) if one.what in ORDER else len(ORDER)))
    steps = tuple(Step(timeline.bins[one.first].at, _end(timeline, one.last), one.what, one.text) for one in together)
    return Story(steps[0].at, max(one.until for one in steps), steps, _text(together, steps, timeline, shifts))


def _end(timeline: Timeline, place: int) -> str:
    """When a bin ends."""
    start = datetime.fromisoformat(timeline.bins[place].at)
    return instant(start + timedelta(milliseconds=timeline.bin_ms)) or ""


def _spans(store: Store, judged: Sequence[Symptom], findings: Sequence[Symptom], timeline: Timeline) -> list[_Span]:
    """One span for each symptom, in the order of the findings; of several subjects the first one counts."""
    bin_us = round(timeline.bin_ms * 1000)
    counts: dict[int, dict[int, int]] = {}
    for number, place, rows in store.run(
        f"select x.finding, epoch_us(a.started_at) // {bin_us} - epoch_us($start::timestamptz) // {bin_us}, count(*)"
        " from excess x join attempts a on a.attempt_id = x.attempt_id where a.started_at is not null group by all",
        {"start": timeline.bins[0].at},
    ):
        counts.setdefault(int(number), {})[int(place)] = int(rows)
    weights = [float(one.requests) for one in timeline.bins]
    found: dict[str, _Span] = {}
    for finding in findings:
        held = counts.get(judged.index(finding), {}) if finding.counts == "attempts" else {}
        inside = [float(held.get(place, 0)) for place in range(len(weights))]
        place = _stretch(inside, weights) if any(inside) else None
        if place and finding.id not in found:
            where = "" if finding.subject == "all" else f" ({finding.subject})"
            found[finding.id] = _Span(finding.id, finding.title[:1].lower() + finding.title[1:] + where, *place)
    return list(found.values())


def _stretch(inside: Sequence[float], weights: Sequence[float]) -> tuple[int, int]:
    """First and last bin of the stretch on which these requests crowd."""
    held = [place for place, count in enumerate(inside) if count]
    level = sum(inside) / max(sum(weights), 1.0)
    whole = held[0], held[-1]
    found = whole
    for _ in range(3):
        found = _crowd(inside, [level * weight for weight in weights]) or whole
        shares = []
        for within in (True, False):
            places = [place for place in range(len(inside)) if (found[0] <= place <= found[1]) == within]
            shares.append(sum(inside[place] for place in places) / max(sum(weights[place] for place in places), 1.0))
        if shares[1] >= 0.5 * shares[0]:
            return whole
        level = sum(shares) / 2
    return found


def _crowd(values: Sequence[float], levels: Sequence[float]) -> tuple[int, int] | None:
    """First and last bin of the stretch whose values add up to most above their levels; None where none does."""
    best, place, running, start = 0.0, None, 0.0, 0
    for here, (value, level) in enumerate(zip(values, levels, strict=True)):
        running += value - level
        if running > best:
            best, place = running, (start, here)
        if running <= 0:
            running, start = 0.0, here + 1
    return place


def _overlapping(spans: Sequence[_Span]) -> list[_Span]:
    """The first span and all that hang together with it."""
    together = list(spans[:1])
    rest = list(spans[1:])
    while near := [
        one for one in rest if any(one.first <= other.last and other.first <= one.last for other in together)
    ]:
        together += near
        rest = [one for one in rest if one not in near]
    return together


def _arrivals(timeline: Timeline, first: int) -> _Span | None:
    """A rise of first tries that begins before the findings, or with them, and overlaps with them."""
    tries = [float(max(0, one.requests - one.retries)) for one in timeline.bins]
    usual = median(tries[: max(first, 4)])
    place = _crowd(tries, [0.5 * (1 + MORE) * usual] * len(tries))
    if place is None or usual <= 0 or place[0] > first + 1 or place[1] < first or place[0] == 0:
        return None
    held, bins = sum(tries[place[0] : place[1] + 1]), place[1] - place[0] + 1
    if held < MORE * usual * bins or held - usual * bins < SURE * 1.5 * sqrt(usual * bins):
        return None
    minutes = timeline.bin_ms / 60_000
    text = f"first tries a minute rise from {usual / minutes:,.0f} to {held / bins / minutes:,.0f}"
    return _Span("arrivals", text, *place)


def _text(story: Sequence[_Span], steps: Sequence[Step], timeline: Timeline, shifts: Sequence[Shift]) -> str:
    first, last = min(one.first for one in story), max(one.last for one in story)
    start = "from the beginning of the log" if first <= 1 else f"from {steps[0].at[11:19]}"
    end = "until it ends" if last == len(timeline.bins) - 1 else f"until {max(one.until for one in steps)[11:19]}"
    told: list[str] = []
    for number, step in enumerate(steps[:TOLD]):
        same = number > 0 and step.at == steps[number - 1].at
        told.append(step.text if same else f"{step.at[11:19]} {step.text}")
    more = f"; and {len(steps) - TOLD} more" if len(steps) > TOLD else ""
    text = f"One incident {start} {end}. {'; '.join(told)}{more}"
    near = [one for one in shifts if one.changed and _bin(timeline, one.at) in range(first - 1, first + 3)]
    return f"{text}. What changed then: {near[0].changed[0].text}" if near and first else text


def _bin(timeline: Timeline, at: str) -> int:
    start = datetime.fromisoformat(timeline.bins[0].at)
    return int((datetime.fromisoformat(at) - start) / timedelta(milliseconds=timeline.bin_ms))
