"""Tasks and stages through the whole engine: logs of tasks alone, tasks beside attempts, contradictions of tasks."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from llmdoctor import ingest, rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.stats import prepare
from llmdoctor.store import Store

START = datetime(2026, 1, 5, tzinfo=UTC)
BOOK = rulebook.load()
Line = Mapping[str, Any]


def _at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def _event(task: str, seconds: float, state: str, **more: Any) -> Line:
    return {"table": "task_events", "task_id": task, "at": _at(seconds), "state": state, **more}


def _task(n: int, took: float = 5.0, worker: str | None = None) -> Iterator[Line]:
    """One task that does well: 10 s after the one before."""
    who = worker or f"w{n % 4}"
    yield _event(f"t{n}", 10 * n, "queued")
    yield _event(f"t{n}", 10 * n + 0.3, "running", worker=who)
    yield _event(f"t{n}", 10 * n + took, "succeeded", worker=who, result_id=f"r{n}")


def _read(tmp_path: Path, lines: Iterable[Line]) -> Store:
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = Store()
    store.create()
    ingest.read(store, [str(tmp_path)])
    return store


def _diagnosis(tmp_path: Path, lines: Iterable[Line]) -> Diagnosis:
    with _read(tmp_path, lines) as store:
        return diagnose(store, BOOK)


def _audit(tmp_path: Path, lines: Iterable[Line]) -> dict[str, Any]:
    """What the audit says of the task `x`, among thirty that do well."""
    with _read(tmp_path, [*(line for n in range(30) for line in _task(n)), *lines]) as store:
        prepare(store)
        return store.rows("select * from task_audit where task = 'x'")[0]


def _present(found: Diagnosis) -> list[str]:
    return [one.id for one in found.present]


def test_a_log_of_tasks_alone_is_judged(tmp_path: Path) -> None:
    lines = [line for n in range(40) for line in _task(n) if not (n == 7 and line["state"] == "succeeded")]
    found = _diagnosis(tmp_path, lines)
    (stuck,) = found.present
    assert (stuck.id, stuck.counts, stuck.affected, stuck.total, stuck.vantage) == ("stuck_tasks", "tasks", 1, 40, None)
    assert "1 of 40 tasks" in found.verdict.text
    assert (found.causes[0].id, found.causes[0].excess_share) == ("lost_worker", 1.0)
    assert [one.request_id for one in found.causes[0].examples] == ["t7"]
    assert (found.window_from, found.window_to) == ("2026-01-05T00:00:00.000Z", "2026-01-05T00:06:35.000Z")


def test_tasks_that_do_well_are_seen_to_do_well(tmp_path: Path) -> None:
    found = _diagnosis(tmp_path, [line for n in range(40) for line in _task(n)])
    states = {one.id: one.state for one in found.symptoms if one.counts == "tasks"}
    assert states == {"stuck_tasks": "absent", "inconsistent_tasks": "absent"}


def test_few_attempts_beside_many_tasks_do_not_hide_them(tmp_path: Path) -> None:
    attempt = {"started_at": _at(1), "total_ms": 900.0, "outcome": "completed", "model": "m", "task_id": "t0"}
    lines = [line for n in range(40) for line in _task(n) if not (n == 7 and line["state"] == "succeeded")]
    assert _present(_diagnosis(tmp_path, [attempt, *lines])) == ["stuck_tasks"]


def test_a_task_of_a_worker_that_died_is_told_from_one_that_hangs(tmp_path: Path) -> None:
    def log(lost: Mapping[int, str]) -> list[Line]:
        """Four tasks at a time on each of three workers; those of `lost` never end."""
        return [
            _event(f"t{n}", n + after, state, worker=f"w{n % 3}", **more)
            for n in range(200)
            for after, state, more in ((0.0, "running", {}), (12.0 + n % 5, "succeeded", {"result_id": f"r{n}"}))
            if not (state == "succeeded" and n in lost) and not (n % 3 == 1 and "gone" in lost.values() and n > 40)
        ]

    died = _diagnosis(tmp_path, log(dict.fromkeys((28, 31, 34, 37, 40), "gone")))
    assert _present(died) == ["stuck_tasks"]
    assert died.causes[0].id == "lost_worker"
    hangs = _diagnosis(tmp_path, log({40: "hangs"}))
    assert _present(hangs) == ["stuck_tasks"]
    assert not hangs.causes


def test_waiting_tasks_without_a_worker_are_no_lost_worker(tmp_path: Path) -> None:
    lines = [line for n in range(40) for line in _task(n) if not (n in (5, 6) and line["state"] != "queued")]
    found = _diagnosis(tmp_path, lines)
    assert _present(found) == ["stuck_tasks"]
    assert not found.causes


@pytest.mark.parametrize(
    ("flag", "events"),
    [
        ("late_result", [("running", 1, "w1", None), ("succeeded", 5, "w1", None), ("saved", 5.2, "w1", "rx")]),
        ("no_result", [("running", 1, "w1", None), ("succeeded", 5, "w1", None)]),
        ("torn", [("running", 1, "w1", None), ("cancelled", 3, None, None), ("succeeded", 5, "w1", "rx")]),
        ("early_end", [("succeeded", 1, "w1", "rx"), ("running", 5, "w2", None)]),
        ("two_results", [("running", 1, "w1", None), ("succeeded", 5, "w1", "rx"), ("succeeded", 6, "w1", "ry")]),
        ("executions", [("running", 1, "w1", None), ("running", 4, "w2", None), ("succeeded", 5, "w1", "rx")]),
        ("executions", [("running", 1, "w1", None), ("succeeded", 5, "w1", "rx"), ("running", 7, "w1", None)]),
    ],
)
def test_each_contradiction_is_seen(
    tmp_path: Path, flag: str, events: list[tuple[str, float, str | None, str | None]]
) -> None:
    row = _audit(tmp_path, [_event("x", at, state, worker=who, result_id=what) for state, at, who, what in events])
    assert row[flag]
    assert row["inconsistent"]


TRIED_AGAIN = [("running", 1, "w1"), ("failed", 2, "w1"), ("running", 3, "w2"), ("succeeded", 9, "w2")]
GIVEN_BACK = [("running", 1, "w1"), ("retry", 2, "w1"), ("running", 3, "w2"), ("succeeded", 9, "w2")]
PROGRESS = [("running", 1, "w1"), ("running", 2, "w1"), ("succeeded", 9, "w1")]
WRITTEN_TWICE = [("running", 1, "w1"), ("succeeded", 9, "w1"), ("succeeded", 9.5, "w1")]
CLOCKS_APART = [("running", 1.4, "w1"), ("succeeded", 1, "w2")]


@pytest.mark.parametrize("events", [TRIED_AGAIN, GIVEN_BACK, PROGRESS, WRITTEN_TWICE, CLOCKS_APART])
def test_what_is_no_contradiction_is_left_alone(tmp_path: Path, events: list[tuple[str, float, str]]) -> None:
    lines = [
        _event("x", at, state, worker=who, **({"result_id": "rx"} if state == "succeeded" else {}))
        for state, at, who in events
    ]
    assert not _audit(tmp_path, lines)["inconsistent"]


def test_one_key_with_two_contents_is_a_task_of_its_own(tmp_path: Path) -> None:
    lines = [
        {"started_at": _at(4 * n), "total_ms": 900.0, "outcome": "completed", "model": "m", "prompt_hash": f"p{n}",
         "idempotency_key": f"k{n // 2 if n < 4 else n}"}
        for n in range(60)
    ]  # fmt: skip
    found = _diagnosis(tmp_path, lines)
    assert [(one.id, one.affected, one.total) for one in found.present] == [("inconsistent_tasks", 2, 58)]
    assert found.causes[0].id == "idempotency_conflict"
    assert [one.request_id for one in found.causes[0].examples] == ["k0", "k1"]


def test_a_slow_stage_is_named_and_the_stage_beside_it_is_not(tmp_path: Path) -> None:
    lines: list[Line] = []
    for n in range(40):
        tool = 8000.0 if n % 4 == 1 else 300.0
        lines += [
            {"table": "stages", "task_id": f"t{n}", "started_at": _at(40 * n), "name": "search", "duration_ms": 200.0},
            {"table": "stages", "task_id": f"t{n}", "started_at": _at(40 * n), "name": "tool", "duration_ms": tool},
            {"task_id": f"t{n}", "started_at": _at(40 * n + tool / 1000), "total_ms": 2500.0, "ttft_ms": 500.0,
             "stream": True, "outcome": "completed", "model": "m", "output_tokens": 80, "input_tokens": 900},
        ]  # fmt: skip
    found = _diagnosis(tmp_path, lines)
    assert [(one.id, one.subject) for one in found.present] == [("slow_stage", "stage=tool")]
    assert [one.id for one in found.causes] == ["slow_tool"]
    assert found.causes[0].affected == 10


def test_stages_that_are_not_logged_are_asked_for(tmp_path: Path) -> None:
    lines = [
        {"started_at": _at(9 * n), "total_ms": 9000.0 if n % 6 == 1 else 2500.0, "ttft_ms": 500.0, "stream": True,
         "outcome": "completed", "model": "m", "output_tokens": 80}
        for n in range(60)
    ]  # fmt: skip
    wanted = {one.field: one.unlocks for one in _diagnosis(tmp_path, lines).unknown}
    assert "slow_stage" in wanted["stages"]
    assert "stuck_tasks" in wanted["task_events"]
