"""The simulator is honest: what it writes adds up, and nothing is invented."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.simulator.__main__ import save
from tests.simulator.arrivals import plan
from tests.simulator.base import Shape, base
from tests.simulator.calibrate import confidence, isotonic, tables
from tests.simulator.cases import SCENARIOS, SINGLE, Case, make
from tests.simulator.clients import retry_delay, simulate
from tests.simulator.engine import Replica
from tests.simulator.jobs import Clock, Job
from tests.simulator.log import CLIENT_KEYS, PROFILES, Row, logs
from tests.simulator.perturb import CHANGES
from tests.simulator.results import Listed, Result, as_line, from_line
from tests.simulator.setups import A100_8B, CHAT, H100_8B
from tests.simulator.tally import macro, table
from tests.simulator.tasks import history
from tests.simulator.world import Client, Instance, RetryLayer

SCHEMA = Path(__file__).parents[1] / "llmdoctor" / "schema.sql"
ROWS = 250


@cache
def case(name: str, seed: int = 1) -> Case:
    return make(name, seed, 2 * ROWS if name in SLOW_TO_SHOW else ROWS)


SLOW_TO_SHOW = ("kv_preemption", "compute_bound", "cache_miss")  # need more traffic until users feel them
ALL = [name for name, one in SCENARIOS.items() if not one.pair]


def columns(table_name: str) -> set[str]:
    body = re.search(rf"create table {table_name} \((.*?)\n\);", SCHEMA.read_text(), re.S)
    assert body
    return set(re.findall(r"^    \"?(\w+)\"? ", body.group(1), re.M))


def rows_of(name: str, profile: str, table_name: str | None = None) -> list[Row]:
    found = [row for rows in logs(case(name), profile).values() for row in rows]
    return [row for row in found if row.get("table") == table_name]


def number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def instant(row: Row) -> float:
    return datetime.fromisoformat(str(row["started_at"])).timestamp()


def replica(slots: int, kv_tokens: int = 400_000) -> tuple[Clock, Replica]:
    clock = Clock()
    instance = Instance("one", "m", "r", H100_8B, slots, ((0.0, "1"),), kv_tokens)
    return clock, Replica(instance, clock, random.Random(1), lambda _now: 1.0, None)


def run_jobs(clock: Clock, one: Replica, asks: list[tuple[float, int, int]]) -> list[Job]:
    jobs = [Job(prompt, answer, "p", 0, lambda: None) for _, prompt, answer in asks]
    for (at, _, _), job in zip(asks, jobs, strict=True):
        clock.at(at, lambda job=job: one.submit(job))  # type: ignore[misc]  # mypy: lambda default
    clock.run()
    return jobs


# ---------------------------------------------------------------- the engine


def test_a_request_that_is_alone_never_waits() -> None:
    clock, one = replica(slots=8)
    jobs = run_jobs(clock, one, [(10.0 * number, 500, 50) for number in range(20)])
    assert [job.scheduled for job in jobs] == [job.submitted for job in jobs]


def test_every_token_has_one_instant_and_they_ascend() -> None:
    clock, one = replica(slots=4)
    for job in run_jobs(clock, one, [(0.05 * number, 700, 20 + number) for number in range(30)]):
        times = one.token_times(job)
        assert len(times) == job.answer
        assert times == sorted(times)
        assert (times[0], times[-1]) == (job.first, job.done)


def test_no_more_sequences_run_than_there_are_slots() -> None:
    clock, one = replica(slots=3)
    jobs = run_jobs(clock, one, [(0.0, 300, 40) for _ in range(12)])
    for job in jobs:
        assert job.scheduled is not None
        held = [other for other in jobs if (other.scheduled or 0) <= job.scheduled < (other.done or 0)]
        assert len(held) <= 3


def test_a_step_costs_what_the_model_says() -> None:
    clock, one = replica(slots=1)
    (job,) = run_jobs(clock, one, [(0.0, 1000, 400)])
    assert job.first is not None
    assert job.done is not None
    setup = H100_8B
    expected = setup.base_ms + setup.seq_ms + setup.ctx_ms * 1200
    assert (job.done - job.first) * 1000 / 399 == pytest.approx(expected, rel=0.02)


def test_full_memory_preempts_the_youngest_and_loses_no_token() -> None:
    clock, one = replica(slots=8, kv_tokens=3000)
    jobs = run_jobs(clock, one, [(0.001 * number, 400, 300) for number in range(6)])
    assert sum(job.preemptions for job in jobs) > 0
    assert jobs[0].preemptions == 0
    assert all(len(one.token_times(job)) == 300 for job in jobs)


def test_aborting_one_request_leaves_the_others_alone() -> None:
    clock, one = replica(slots=4)
    jobs = [Job(200, 100, "p", 0, lambda: None) for _ in range(3)]
    for job in jobs:
        clock.at(0.0, lambda job=job: one.submit(job))  # type: ignore[misc]  # mypy: lambda default
    clock.at(0.3, lambda: one.abort(jobs[1]))
    clock.run()
    assert [job.finished for job in jobs] == [True, False, True]
    assert 0 < len(one.token_times(jobs[1])) < 100
    assert all(time <= 0.31 for time in one.token_times(jobs[1]))


def test_steps_laid_out_ahead_give_the_same_as_steps_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulator.engine.STEP_NOISE", 0.0)
    asks = [(0.11 * number, 300 + 37 * number % 900, 20 + 53 * number % 200) for number in range(40)]
    ahead = [(job.first, job.done) for job in run_jobs(*replica(slots=6), asks)]
    monkeypatch.setattr("tests.simulator.engine.RUN", 1)
    single = [(job.first, job.done) for job in run_jobs(*replica(slots=6), asks)]
    for (first, done), (first_single, done_single) in zip(ahead, single, strict=True):
        assert first == pytest.approx(first_single, abs=1e-6)
        assert done == pytest.approx(done_single, abs=1e-6)


# ---------------------------------------------------------------- the whole service


def test_in_a_light_load_arrivals_times_residence_is_the_number_in_the_system() -> None:
    world = base("little", 3, 800, Shape(setups=(A100_8B,), lengths=(CHAT,), tight=False, busy=(0.1, 0.2)))
    jobs = [one.job for one in simulate(world) if one.job and one.job.done is not None]
    spans = sorted((job.submitted, job.done or 0.0) for job in jobs)
    start, stop = spans[50][0], spans[-50][0]
    rate = sum(start <= begin < stop for begin, _ in spans) / (stop - start)
    residence = sum(end - begin for begin, end in spans) / len(spans)
    step = (stop - start) / 5000
    present = [sum(begin <= start + step * tick < end for begin, end in spans) for tick in range(0, 5000, 10)]
    assert sum(present) / len(present) == pytest.approx(rate * residence, rel=0.12)


def test_more_load_makes_tokens_slower_but_not_absurdly() -> None:
    shape = Shape(models=1, regions=1, setups=(A100_8B,), lengths=(CHAT,), tight=False, replicas=(2, 2))
    paces = []
    for rate in (0.2, 4.0):
        world = base("load", 5, 400, Shape(**{**vars(shape), "rate": (rate, rate), "busy": (0.5, 0.5)}))
        jobs = [one.job for one in simulate(world) if one.job and one.job.finished and one.job.answer > 50]
        pace = sorted(((job.done or 0) - (job.first or 0)) / (job.answer - 1) for job in jobs)
        paces.append(pace[len(pace) // 2])
    assert 1.2 < paces[1] / paces[0] < 5


@pytest.mark.parametrize(
    "name", ["healthy_light", "queueing", "bad_tenant", "bad_region", "fake_streaming", "cold_start"]
)
def test_the_parts_of_an_attempt_add_up_to_its_total(name: str) -> None:
    for one in case(name).attempts:
        job = one.job
        if one.outcome != "completed" or not job or job.done is None or job.first is None or one.ended is None:
            continue
        assert job.scheduled is not None
        queue, prefill, decode = job.scheduled - job.submitted, job.first - job.scheduled, job.done - job.first
        assert min(queue, prefill, decode) >= 0
        parts = one.setup_s + one.rtt_s + one.overhead_s + queue + prefill + decode
        played = one.ended - (job.done + one.rtt_s / 2)
        assert one.ended - one.sent == pytest.approx(parts + played, abs=1e-6)
        assert 0 <= played < (0.01 if name != "fake_streaming" else 60)


@pytest.mark.parametrize("name", ALL)
def test_every_scenario_gives_a_case_whose_attempts_all_ended(name: str) -> None:
    attempts = case(name).attempts
    assert attempts
    assert all(one.outcome is not None and one.ended is not None and one.ended >= one.sent for one in attempts)


@pytest.mark.parametrize("name", ["bad_instance", "bad_tenant", "server_errors", "proxy_buffering", "cold_start"])
def test_a_fault_leaves_arrivals_and_lengths_of_its_twin_alone(name: str) -> None:
    assert plan(case(name).well) == plan(case(name).world)


# ---------------------------------------------------------------- callers


def test_nested_layers_multiply() -> None:
    layers = (RetryLayer(2, 0.5, 2.0, 8.0, 0.0), RetryLayer(2, 5.0, 1.0, 30.0, 0.0))
    one = next(
        one for one in case("server_errors").attempts if one.outcome == "failed" and one.status in {500, 502, 503}
    )
    one.client = Client("nested", 1.0, layers=layers)
    waits = []
    for attempt in range(1, 10):
        one.number = attempt
        waits.append(retry_delay(one, random.Random(0)))
    assert [None if wait is None else round(wait, 1) for wait in waits] == [
        0.5,
        1.0,
        5.0,
        0.5,
        1.0,
        5.0,
        0.5,
        1.0,
        None,
    ]


@pytest.mark.parametrize("name", ["nested_retries", "retry_without_backoff", "rate_limiting", "client_timeout_short"])
def test_retries_share_the_task_and_the_prompt_and_come_one_after_another(name: str) -> None:
    tasks: dict[object, list[Row]] = {}
    for row in sorted(rows_of(name, "full"), key=lambda row: str(row["started_at"])):
        tasks.setdefault(row["task_id"], []).append(row)
    for rows in tasks.values():
        assert [row["attempt"] for row in rows] == list(range(1, len(rows) + 1))
        assert len({row["prompt_hash"] for row in rows}) == 1
        assert all(row["outcome"] != "completed" for row in rows[:-1])
        assert len({row["request_id"] for row in rows}) == len(rows)


def test_nested_retries_reach_the_product_of_the_layers() -> None:
    most = max(one.number for one in case("nested_retries").attempts)
    assert most in {6, 9}


def test_a_short_timeout_cuts_at_one_value_while_the_service_finishes() -> None:
    cut = [row for row in rows_of("client_timeout_short", "full") if row["outcome"] == "timeout"]
    assert cut
    for row in cut:
        assert 0 <= number(row["total_ms"]) - number(row["timeout_ms"]) < 12
        assert row["server_outcome"] == "completed"
        assert number(row["server_total_ms"]) > number(row["total_ms"]) - 300


def test_callers_wait_as_long_as_a_refusal_asks_for() -> None:
    rows = {(row["task_id"], row["attempt"]): row for row in rows_of("rate_limiting", "client")}
    refused = [row for row in rows.values() if row["outcome"] == "rate_limited"]
    assert refused
    assert all(row["http_status"] == 429 and number(row["retry_after_ms"]) >= 1000 for row in refused)


def test_cold_starts_come_only_after_silence() -> None:
    world, attempts = case("cold_start").world, case("cold_start").attempts
    cold = world.gateway.cold
    assert cold
    slow = [one for one in attempts if one.first_at and one.first_at - one.sent > 0.5 * cold.load_s]
    assert slow
    ends = [(one.sent, one.ended or one.sent) for one in attempts]
    for one in slow:
        before = [end for sent, end in ends if sent < one.sent - 2 * cold.load_s]
        assert one.sent - max(before, default=0.0) > 0.5 * cold.idle_s or not before


def test_parallel_samples_share_prompt_and_instant_and_succeed() -> None:
    groups: dict[object, list[Row]] = {}
    for row in rows_of("healthy_parallel_sampling", "client"):
        groups.setdefault(row["prompt_hash"], []).append(row)
    assert max(len(rows) for rows in groups.values()) >= 3
    assert all(row["outcome"] == "completed" for rows in groups.values() for row in rows)


# ---------------------------------------------------------------- the logs


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for place in ("a", "b"):
        save(make("rate_limiting", 7, 120), "two_sided", tmp_path / place)
    one, other = (sorted((tmp_path / place).rglob("*.json*")) for place in ("a", "b"))
    assert [path.name for path in one] == ["label.json", "client.jsonl", "server.jsonl"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_another_seed_gives_another_case() -> None:
    assert case("queueing", 1).attempts[0].request_id != case("queueing", 2).attempts[0].request_id


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ALL)
def test_no_field_is_invented(name: str, profile: str) -> None:
    named = {"table", "request_id", "attempt"}
    known = {name: columns(name) | named for name in ("chunks", "stages", "task_events", "engine_samples")}
    known["None"] = columns("attempts")
    for rows in logs(case(name), profile).values():
        assert all(set(row) <= known[str(row.get("table"))] for row in rows)


@pytest.mark.parametrize("name", ALL)
def test_what_is_not_known_is_absent_and_never_zero(name: str) -> None:
    for row in rows_of(name, "full"):
        assert row["total_ms"] is not None
        if not row["stream"]:
            assert row["ttft_ms"] is None
            assert row["chunks"] is None
        if row["outcome"] == "completed" and name != "usage_not_requested":
            assert number(row["output_tokens"]) >= 1
        if row["conn_reused"]:
            assert row["connect_ms"] is None
        if row["ttft_ms"] is not None:
            assert 0 < number(row["ttft_ms"]) <= number(row["total_ms"])


@pytest.mark.parametrize("name", ALL)
def test_a_caller_writes_down_only_what_a_caller_knows(name: str) -> None:
    for row in rows_of(name, "client"):
        assert set(row) <= set(CLIENT_KEYS)
        if row["outcome"] != "completed":
            assert row["output_tokens"] is None
            assert row["finish_reason"] is None


@pytest.mark.parametrize("name", ["client_timeout_short", "server_errors", "proxy_buffering"])
def test_both_sides_share_request_ids(name: str) -> None:
    files = logs(case(name), "two_sided")
    client = {row["request_id"] for row in files["client.jsonl"] if "table" not in row}
    server = {row["request_id"] for row in files["server.jsonl"]}
    assert server <= client
    assert len(server) > 0.8 * len(client)


def test_a_buffering_proxy_is_late_where_the_service_is_early() -> None:
    streams = [row for row in rows_of("proxy_buffering", "full") if row["stream"] and row["outcome"] == "completed"]
    late = [row for row in streams if number(row["ttft_ms"]) > number(row["server_ttft_ms"]) + 200]
    assert len(late) > 0.2 * len(streams)


def test_a_fake_stream_is_late_on_both_sides() -> None:
    streams = [row for row in rows_of("fake_streaming", "full") if row["stream"] and row["outcome"] == "completed"]
    late = [
        row for row in streams if number(row["server_ttft_ms"]) > number(row["prefill_ms"]) + number(row["decode_ms"])
    ]
    assert len(late) > 0.2 * len(streams)


# ---------------------------------------------------------------- faults of this corpus


def test_retries_after_a_refusal_that_named_a_wait_come_too_early_where_it_is_ignored() -> None:
    tasks: dict[object, list[Row]] = {}
    for row in rows_of("retry_after_ignored", "client"):
        tasks.setdefault(row["task_id"], []).append(row)
    early = 0
    for rows in tasks.values():
        rows.sort(key=lambda row: number(row["attempt"]))
        for before, after in pairwise(rows):
            if before["outcome"] == "rate_limited":
                gap = instant(after) - instant(before) - number(before["total_ms"]) / 1000
                early += gap < number(before["retry_after_ms"]) / 1000 - 0.05
    assert early > 10


def test_what_the_caller_did_wrong_is_refused_every_time() -> None:
    wrong = [row for row in rows_of("retry_of_unretryable", "client")
             if number(row["http_status"] or 0) in {400, 401, 403, 404, 422}]  # fmt: skip
    assert max(number(row["attempt"]) for row in wrong) >= 3
    tasks = {row["task_id"] for row in wrong}
    assert all(
        row["outcome"] == "failed" for row in rows_of("retry_of_unretryable", "client") if row["task_id"] in tasks
    )


def test_a_full_pool_keeps_requests_at_home_while_the_service_has_room() -> None:
    rows = [row for row in rows_of("connection_pool_limit", "full") if row["outcome"] == "completed"]
    lost = sorted(number(row["total_ms"]) - number(row["server_total_ms"]) for row in rows)
    assert lost[int(0.9 * len(lost))] > 500
    assert sorted(number(row["queue_ms"]) for row in rows)[int(0.9 * len(rows))] < 500


def test_a_second_run_of_a_batch_asks_for_the_same_prompts() -> None:
    rows = [row for row in rows_of("batch_replay", "client") if row.get("batch_id")]
    times: dict[object, int] = {}
    for row in rows:
        times[row["prompt_hash"]] = times.get(row["prompt_hash"], 0) + 1
    assert set(times.values()) == {2}
    assert len({row["request_id"] for row in rows}) == len(rows)


def test_a_gateways_timer_ends_calls_at_one_time_and_the_service_goes_on_or_stops() -> None:
    cut = [
        row for row in rows_of("gateway_timeout", "full") if row["http_status"] == 504 or row["outcome"] == "incomplete"
    ]
    limit = case("gateway_timeout").world.gateway.cut
    assert limit
    assert len(cut) >= 3
    assert all(0 <= number(row["total_ms"]) - 1000 * limit.limit_s < 400 for row in cut)
    assert {row["server_outcome"] for row in cut} <= {"completed", "cancelled"}


def test_everything_a_frozen_process_sends_waits_until_it_goes_on() -> None:
    found = case("event_loop_stall")
    frozen = next(one.frozen for one in found.attempts if one.frozen)
    for one in found.attempts:
        way = one.rtt_s / 2
        due = [at - way for at in one.received.times if one.frozen]
        assert not any(start <= at < stop - 1e-6 for at in due for start, stop in frozen)


def test_a_schema_costs_an_instance_its_compilation_once() -> None:
    found, seen = case("grammar_compile"), set()
    for one in sorted((one for one in found.attempts if one.job), key=lambda one: one.reached or 0.0):
        key = (one.replica.instance.name if one.replica else "", one.ask.schema)
        if one.ask.schema and key in seen and one.job and one.job.scheduled is not None:
            assert one.hidden_s == 0
        seen.add(key)
    assert len({schema for _, schema in seen}) > 5


def test_an_engine_is_loaded_anew_only_when_the_options_change() -> None:
    attempts = sorted((one for one in case("model_reload").attempts if one.job and one.job.scheduled is not None),
                      key=lambda one: (one.job.scheduled if one.job else None) or 0.0)  # fmt: skip
    loads = sum(before.ask.options != after.ask.options for before, after in pairwise(attempts))
    slow = [after for before, after in pairwise(attempts) if before.ask.options != after.ask.options and after.job
            and (after.job.scheduled or 0) - after.job.submitted > 2]  # fmt: skip
    assert loads >= 4
    assert len(slow) >= loads / 2


def test_a_lost_worker_leaves_tasks_without_an_end_and_calls_without_a_record() -> None:
    found = case("lost_worker")
    told = history(found.world, found.attempts)
    ended = {one.task for one in told.events if one.state in {"succeeded", "failed", "cancelled"}}
    assert len(told.broken) >= 3
    assert not told.broken & ended
    logged = {row["request_id"] for row in rows_of("lost_worker", "client") if "table" not in row}
    assert not told.lost & logged


@pytest.mark.parametrize(("name", "results"), [("premature_success", 0), ("duplicate_execution", 2)])
def test_tasks_end_without_a_result_or_with_two(name: str, results: int) -> None:
    found = case(name)
    told = history(found.world, found.attempts)
    ends: dict[str, list[str | None]] = {}
    for one in told.events:
        if one.state == "succeeded":
            ends.setdefault(one.task, []).append(one.result)
    counts = {task: sum(one is not None for one in ends.get(task, [])) for task in ends}
    assert any(counts.get(task) == results for task in told.broken)
    assert all(count == 1 for task, count in counts.items() if task not in told.broken)


def test_gauges_say_what_memory_does() -> None:
    rows = rows_of("kv_preemption", "full", "engine_samples")
    full = [number(row["value"]) for row in rows if row["name"] == "kv_usage"]
    assert max(full) > 0.9
    assert all(0 <= value <= 1.05 for value in full)
    assert max(number(row["value"]) for row in rows if row["name"] == "preemptions") > 0


def test_of_a_pair_users_felt_both() -> None:
    found = make("queueing+server_errors", 1, ROWS)
    assert found.causes == ("queueing", "server_errors")
    assert found.seen.failures > found.twin.failures
    assert found.seen.queue_p99 > found.twin.queue_p99


# ---------------------------------------------------------------- changed logs


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_changed_log_has_no_new_fields_and_the_same_requests(change: str) -> None:
    files = logs(case("bad_instance"), "client")
    changed = CHANGES[change](files, 1)
    before = {row["request_id"] for rows in files.values() for row in rows}
    assert {row["request_id"] for rows in changed.values() for row in rows} == before
    assert {key for rows in changed.values() for row in rows for key in row} <= {
        key for rows in files.values() for row in rows for key in row
    }
    assert [list(row) for rows in changed.values() for row in rows] != [
        list(row) for rows in files.values() for row in rows
    ] or changed != files


# ---------------------------------------------------------------- the scorer


def result(cause: str | None, *listed: tuple[str, float], fields: str = "full") -> Result:
    found = tuple(Listed(name, "all", score, score) for name, score in listed)
    return Result(cause or "healthy_light", 0, fields, (cause,) if cause else (), listed=found)


def test_the_scorer_counts_ranks_accepted_equals_and_alarms() -> None:
    listed = (Listed("cold_start", "all", 0.7, 0.7), Listed("overload", "all", 0.5, 0.5))
    hit = Result("queueing", 0, "full", ("queueing",), ("overload",), listed=listed, alarms=("high_ttft",))
    quiet = Result("healthy_light", 0, "full", (), verdict="healthy")
    assert (hit.rank(), hit.alarmed, quiet.alarmed) == (2, True, False)
    assert "cold_start 1" in table([hit, quiet])
    assert from_line(as_line(hit)) == hit


def test_the_macro_mean_weighs_causes_alike_and_leaves_out_what_cannot_be_told() -> None:
    results = [result("queueing", ("queueing", 0.9)), result("queueing", ("queueing", 0.9)), result("cold_start"),
               replace(result("cache_miss"), hidden=True)]  # fmt: skip
    assert macro(results, "full") == 0.5


def test_an_isotonic_table_ascends_and_averages_what_does_not() -> None:
    knots = isotonic([(0.3, 0.2, 10.0), (0.5, 0.8, 10.0), (0.6, 0.6, 10.0), (0.9, 0.95, 100.0)])
    shares = [share for _, share in knots]
    assert shares == sorted(shares)
    assert [score for score, share in knots if share == shares[1]] == [0.5, 0.6]
    assert 0 < min(shares) <= max(shares) < 1


def test_a_cause_that_is_wrong_more_often_gets_less_for_the_same_score() -> None:
    results = [result("queueing", ("queueing", 0.8)) for _ in range(30)]
    results += [result("queueing", ("cold_start", 0.8)) for _ in range(30)]
    table_of = tables([*results, *(replace(one, fields="client") for one in results)])["full"]
    assert confidence(table_of, "cold_start", 0.8) < 0.3
    assert confidence(table_of, "queueing", 0.8) > 0.7
    assert confidence(table_of, "never_seen", 0.8) == pytest.approx(0.5, abs=0.05)


def test_every_fault_of_the_corpus_is_a_cause_of_the_catalogue() -> None:
    assert len(SINGLE) >= 45
    assert all(one.causes == (name,) for name, one in SINGLE.items())
