"""Where the time went: stretches that never overlap, add up, and say what they cannot tell apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from llmdoctor import ingest, rulebook
from llmdoctor.diagnose import diagnose
from llmdoctor.diagnose.values import Stretch, Where
from llmdoctor.stats import prepare
from llmdoctor.store import Store
from tests.filled import filled

BOOK = rulebook.load()
Span = tuple[str | None, int | None, str, float, float, str | None]
"""task, attempt, name, seconds after the start of the log, milliseconds, parent"""


def _with_stages(store: Store, spans: Sequence[Span]) -> None:
    rows = [
        [task, attempt, name, f"2026-01-05 00:{int(at // 60):02d}:{at % 60:06.3f}+00", ms, parent]
        for task, attempt, name, at, ms, parent in spans
    ]
    store.insert("stages", ["task_id", "attempt_id", "name", "started_at", "duration_ms", "parent"], rows)


def _path(rows: Sequence[Mapping[str, Any]], spans: Sequence[Span]) -> dict[str, float]:
    with filled(rows) as store:
        _with_stages(store, spans)
        prepare(store)
        found = store.run("select part, ms, whole_ms from path where unit = (select max(unit) from path)")
    assert sum(ms for _, ms, _ in found) == pytest.approx(found[0][2])
    return {part: ms for part, ms, _ in found}


def _where(rows: Sequence[Mapping[str, Any]], spans: Sequence[Span] = ()) -> Where:
    with filled(rows) as store:
        _with_stages(store, spans)
        found = diagnose(store, BOOK).where
    assert len(found) == 1
    _adds_up(found[0])
    return found[0]


def _adds_up(where: Where) -> None:
    for kind, population in where.populations.items():
        assert sum(one.mean_ms[kind] for one in where.stretches) == pytest.approx(population.mean_ms, rel=1e-4)
    if "slow" in where.populations:
        assert sum(one.excess_share or 0 for one in where.stretches) == pytest.approx(1, abs=1e-4)


def _named(where: Where, name: str) -> Stretch:
    return next(one for one in where.stretches if one.name == name)


def _calls(slow: Mapping[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """40 requests 10 s apart; every fourth has these times instead."""
    usual = {"ttft_ms": 500.0, "total_ms": 3000.0}
    return [
        {"at_s": 10 * n, "stream": True, "output_tokens": 100, "input_tokens": 800, **usual, **fields}
        | ({**slow} if n % 4 == 1 else {})
        for n in range(40)
    ]


def test_parallel_stages_count_once_by_the_one_that_ends_last() -> None:
    call = {"at_s": 4.0, "total_ms": 2000.0, "task_id": "a"}
    found = _path([call], [("a", None, "retrieval", 0, 4000, None), ("a", None, "tool", 1, 1500, None)])
    assert found == {"retrieval": 4000, "generate": 2000}


def test_parents_keep_only_the_time_that_no_child_fills() -> None:
    spans: list[Span] = [
        ("a", None, "agent", 0, 10_000, None),
        ("a", None, "prepare", 0.5, 3500, "agent"),
        ("a", None, "retrieval", 1, 2500, "prepare"),
        ("a", None, "tool", 7, 2000, "agent"),
    ]
    found = _path([{"at_s": 4.0, "total_ms": 3000.0, "task_id": "a"}], spans)
    assert found == {"between": 1500, "prepare": 1000, "retrieval": 2500, "generate": 3000, "tool": 2000}


def test_a_span_around_a_call_is_no_stage_of_its_own() -> None:
    spans: list[Span] = [("a", None, "handle request", 0, 5000, None)]
    assert _path([{"at_s": 1.0, "total_ms": 3000.0, "trace_id": "a"}], spans) == {"between": 2000, "generate": 3000}


def test_the_queue_within_a_call_is_taken_out_of_the_call() -> None:
    assert _path([{"at_s": 0.0, "total_ms": 3000.0}], [(None, 1, "queue", 0, 1200, None)]) == {
        "queue": 1200,
        "generate": 1800,
    }


def test_with_the_callers_fields_alone_there_are_only_bounds() -> None:
    where = _where(_calls({"ttft_ms": 4500.0, "total_ms": 7000.0}))
    wait, decode = _named(where, "queue, prefill or network"), _named(where, "decode")
    assert (wait.exact, decode.exact) == (False, False)
    assert wait.mean_ms == {"normal": 500, "slow": 4500}
    assert wait.excess_share == 1


def test_what_both_sides_tell_is_told_apart() -> None:
    rows = _calls(
        {"ttft_ms": 4500.0, "total_ms": 7000.0, "queue_ms": 3900.0, "server_ttft_ms": 4400.0,
         "server_total_ms": 6850.0},
        queue_ms=10.0, server_ttft_ms=420.0, server_total_ms=2850.0, connect_ms=20.0,
    )  # fmt: skip
    where = _where(rows)
    assert all(one.exact for one in where.stretches)
    assert _named(where, "queue").mean_ms == {"normal": 10, "slow": 3900}
    assert _named(where, "prefill").mean_ms == {"normal": 410, "slow": 500}
    assert _named(where, "network").mean_ms == pytest.approx({"normal": 130, "slow": 130})
    assert _named(where, "decode").mean_ms == {"normal": 2430, "slow": 2450}
    assert (_named(where, "queue").excess_share or 0) > 0.95


def test_earlier_tries_and_the_waits_between_them_are_stretches_of_the_last_one() -> None:
    rows = [one | {"task_id": f"t{n}"} for n, one in enumerate(_calls({}))]
    for n in (5, 13, 21, 29):
        rows[n] |= {"attempt": 2}
        first = {"outcome": "failed", "ttft_ms": None, "total_ms": 1000.0, "at_s": 10 * n - 4, "attempt": 1}
        rows.append(rows[n] | first)
    where = _where(rows)
    assert {kind: one.n for kind, one in where.populations.items()} == {"normal": 36, "slow": 4}
    assert _named(where, "earlier tries").mean_ms == {"normal": 0, "slow": 1000}
    assert _named(where, "waits between tries").mean_ms == {"normal": 0, "slow": 3000}


def test_what_lies_before_the_call_makes_the_whole_longer() -> None:
    where = _where(_calls({"retrieval_ms": 6000.0}, retrieval_ms=700.0))
    assert where.populations["slow"].mean_ms == 9000
    assert _named(where, "retrieval").excess_share == 1


def test_failed_requests_are_shown_beside_the_normal_ones() -> None:
    where = _where(_calls({"outcome": "timeout", "ttft_ms": None, "total_ms": 30_000.0}))
    assert set(where.populations) == {"normal", "failed"}
    assert _named(where, "queue, prefill or network").mean_ms["failed"] == 30_000
    assert all(one.excess_share is None for one in where.stretches)


def test_tasks_with_stages_are_told_as_a_whole() -> None:
    rows = [
        {"at_s": 30 * n + 5, "task_id": f"t{n}", "stream": True, "ttft_ms": 400.0, "total_ms": 2000.0}
        for n in range(20)
    ]
    spans: list[Span] = [(f"t{n}", None, "tool", 30 * n, 5000.0 if n % 5 == 2 else 900.0, None) for n in range(20)]
    where = _where(rows, [(task, attempt, name, at if ms > 1000 else at + 4.1, ms, parent)
                          for task, attempt, name, at, ms, parent in spans])  # fmt: skip
    assert where.populations["slow"].n == 4
    assert _named(where, "tools").mean_ms == {"normal": 900, "slow": 5000}
    assert _named(where, "model calls").mean_ms == {"normal": 2000, "slow": 2000}


@pytest.mark.parametrize("folder", ["queueing", "nested_retries", "client_timeout_short", "proxy_buffering", "healthy"])
def test_real_logs_add_up(folder: str) -> None:
    with Store() as store:
        store.create()
        ingest.read(store, [f"sample_logs/{folder}"])
        for where in diagnose(store, BOOK).where:
            _adds_up(where)


def test_a_real_queue_is_before_the_first_token() -> None:
    with Store() as store:
        store.create()
        ingest.read(store, ["sample_logs/queueing"])
        where = diagnose(store, BOOK).where[0]
    assert (_named(where, "queue, prefill or network").excess_share or 0) > 0.9
