"""What the service itself reports of an attempt: beside the caller's record (full) or in its own log (two_sided)."""

from __future__ import annotations

from typing import Protocol

from tests.simulator.attempts import Attempt
from tests.simulator.setups import API_AFTER_MS
from tests.simulator.world import World

Value = str | int | float | bool | None
Row = dict[str, Value]


class Habits(Protocol):
    """The part of a logger's style that is used here."""

    @property
    def vantage(self) -> str: ...
    @property
    def skew_s(self) -> float: ...
    def instant(self, at: float) -> str: ...
    def ms(self, seconds: float | None) -> float | None: ...


def server_side(world: World, habits: Habits, one: Attempt) -> Row:
    """Stage times and the outcome as the service saw it; nothing of a request that never reached it."""
    job = one.job
    if one.reached is None:
        return {}
    row: Row = {
        "overhead_ms": habits.ms(one.overhead_s),
        "server_outcome": server_outcome(one),
        "server_total_ms": habits.ms(_worked(world, one)),
    } | _around(world, habits, one)
    if job is None or job.scheduled is None:
        return row
    first = _first(world, one)
    return row | {
        "queue_ms": habits.ms(job.scheduled - job.submitted),
        "prefill_ms": habits.ms(job.first - job.scheduled) if job.first is not None else None,
        "decode_ms": habits.ms(job.done - job.first) if job.done is not None and job.first is not None else None,
        "input_tokens": one.ask.prompt,
        "cached_tokens": job.cached,
        "output_tokens": job.answer if job.finished and not one.breaks else None,
        "preemptions": job.preemptions,
        "server_ttft_ms": habits.ms(first) if one.ask.stream else None,
    }


def server_outcome(one: Attempt) -> str:
    """The service's own verdict: it may call a success what the caller gave up on."""
    job = one.job
    if one.refused_as is not None and one.cut_at is None:
        return "rate_limited" if one.refused_as == 429 else "failed"
    if one.breaks:
        return "failed"
    if one.cut_at is not None:
        return "completed" if job is not None and job.finished else "cancelled"
    if job is not None and job.finished:
        return "completed"
    return "cancelled" if one.outcome in {"timeout", "cancelled"} else "failed"


def server_row(world: World, habits: Habits, one: Attempt) -> Row:
    """One line of the service's own log, empty if it has none: an engine knows only what reached its queue."""
    job, engine = one.job, habits.vantage == "engine"
    if one.reached is None or (engine and (job is None or job.scheduled is None)):
        return {}
    began = job.submitted if engine and job else one.reached
    lag = began - one.reached
    side = server_side(world, habits, one)
    first, total = _first(world, one), _worked(world, one) if engine else _ended(world, one)
    outcome = server_outcome(one) if engine or one.cut_at is None else "timeout"
    row: Row = {
        "vantage": habits.vantage, "request_id": one.request_id, "model": one.ask.model, "region": one.ask.region,
        "tenant": one.ask.tenant, "instance": one.replica.instance.name if one.replica else None,
        "app_version": one.version, "stream": one.ask.stream, "max_tokens": one.ask.max_tokens,
        "started_at": habits.instant(began + habits.skew_s),
        "ttft_ms": habits.ms(first - lag) if first is not None and one.ask.stream else None,
        "total_ms": habits.ms(total - lag) if total is not None else None,
        "outcome": outcome, "http_status": None if engine else _status(one, outcome),
        "finish_reason": one.ask.finish if outcome == "completed" and one.told_finish else None,
    }  # fmt: skip
    copied = ("queue_ms", "prefill_ms", "decode_ms", "input_tokens", "cached_tokens", "output_tokens", "preemptions")
    row.update({key: side[key] for key in copied if key in side})
    if not engine:
        row.update({"overhead_ms": side["overhead_ms"], "retry_after_ms": one.retry_after_ms})
        row.update(_around(world, habits, one))
    return row


def server_rows(world: World, habits: Habits, one: Attempt) -> list[Row]:
    """The lines of the service's own log: an engine has one more for each try that its gateway gave up on."""
    row = server_row(world, habits, one)
    rows = [row] if row else []
    for job in one.jobs[:-1]:
        if habits.vantage == "engine" and job.scheduled is not None and job.first is not None:
            total = job.done - job.submitted if job.done is not None else None
            rows.append(
                {"vantage": "engine", "request_id": one.request_id, "model": one.ask.model, "stream": one.ask.stream,
                 "started_at": habits.instant(job.submitted + habits.skew_s), "total_ms": habits.ms(total),
                 "ttft_ms": habits.ms(job.first - job.submitted) if one.ask.stream else None,
                 "input_tokens": one.ask.prompt, "output_tokens": job.produced,
                 "outcome": "completed" if job.finished else "cancelled"}
            )  # fmt: skip
    return rows


def stage_rows(habits: Habits, one: Attempt) -> list[Row]:
    """The stages of an attempt before, in and after the model."""
    job, rows = one.job, list[Row]()
    if one.reached is None or job is None or job.done is None:
        return rows
    at = one.reached + one.overhead_s
    spans = [*one.stages.items(), ("generate", job.done - at - sum(one.stages.values()))]
    if one.saving_s:
        spans.append(("deliver", one.saving_s))
    for name, seconds in spans:
        rows.append(
            {"table": "stages", "request_id": one.request_id, "attempt": one.number, "task_id": one.ask.task,
             "name": name, "started_at": habits.instant(at), "duration_ms": habits.ms(seconds)}
        )  # fmt: skip
        at += seconds
    return rows


def _status(one: Attempt, outcome: str) -> int:
    """What a gateway writes down; 499 is nginx's mark for a client that closed the connection."""
    if one.refused_as is not None:
        return one.refused_as
    if outcome in {"cancelled", "timeout"}:
        return 499 if outcome == "cancelled" else 200
    if one.breaks and not one.ask.stream:
        return 502
    return 200


def _first(world: World, one: Attempt) -> float | None:
    """Seconds from arrival at the door until the service wrote the first token; a fake stream begins at the end."""
    job = one.job
    if job is None or job.first is None or one.reached is None:
        return None
    if _fake(world, one):
        return None if job.done is None else job.done + 0.003 - one.reached
    return one.thaw(job.first) - one.reached


def _around(world: World, habits: Habits, one: Attempt) -> Row:
    """What an application or a gateway knows beside the engine: its own stages, its tries, when the caller left."""
    job, stages = one.job, one.stages
    gone = one.outcome in {"timeout", "cancelled"} and one.ended is not None
    row: Row = {
        "retrieval_ms": habits.ms(stages.get("retrieval")), "tool_ms": habits.ms(stages.get("tool")),
        "prepare_ms": habits.ms(sum(stages.values())) if stages else None,
        "delivery_ms": habits.ms(one.saving_s) if one.saving_s else None,
        "client_gone_at": habits.instant(one.ended + one.rtt_s / 2 + habits.skew_s) if gone and one.ended else None,
    }  # fmt: skip
    if world.gateway.upstream:
        row["upstream_attempts"] = one.upstream_tries
    if job is not None and job.done is not None and one.reached is not None and not stages:
        row["upstream_total_ms"] = habits.ms(job.done - one.reached - one.overhead_s)
    return row


def _ended(world: World, one: Attempt) -> float | None:
    """Seconds from arrival at the door until the door was through with the request, whoever ended it."""
    if one.cut_at is not None and one.reached is not None:
        return one.cut_at - one.reached
    return _worked(world, one)


def _worked(world: World, one: Attempt) -> float | None:
    """Seconds from arrival at the door until the model was through with it, or until it was refused or given up."""
    job = one.job
    if one.reached is None:
        return None
    if one.refused_at is not None and one.cut_at is None:
        return one.refused_at - one.reached
    if job is not None and job.done is not None:
        played = one.received.times[-1] - one.received.times[0] if _fake(world, one) and one.received.times else 0.0
        return one.thaw(job.done) + API_AFTER_MS / 1000 + played - one.reached
    gone = one.outcome in {"timeout", "cancelled"} and one.ended is not None
    return one.ended + one.rtt_s / 2 - one.reached if gone and one.ended is not None else None


def _fake(world: World, one: Attempt) -> bool:
    delivery = world.gateway.delivery
    return delivery.mode.startswith("fake") and one.ask.stream and one.sent >= delivery.start
