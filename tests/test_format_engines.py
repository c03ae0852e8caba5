"""Logs of inference servers: what the examples of their pages cannot show, since it needs a file's time, several files,
or the rest of the program."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from llmdoctor.diagnose.answers import window
from llmdoctor.ingest import ReadOptions, detect, locate, read
from llmdoctor.ingest.recipe import Found, Join, Recipe, applied
from llmdoctor.stats import prepare
from llmdoctor.store import Store

WRITTEN = datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp()


@contextmanager
def reading(*paths: Path, timezone: str = "UTC") -> Iterator[tuple[Store, tuple[str, ...]]]:
    with Store() as store:
        store.create()
        yield store, read(store, [str(path) for path in paths], ReadOptions(timezone=timezone))


def written(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    os.utime(path, (WRITTEN, WRITTEN))
    return path


def received(name: str, at: str, more: str = "") -> str:
    head = f"(APIServer pid=1) INFO {at} [logger.py:47] Received request {name}: "
    return f"{head}{more}params: SamplingParams(n=1, max_tokens=9), lora_request: None."


def generated(name: str, at: str) -> str:
    return f"(APIServer pid=1) INFO {at} [logger.py:78] Generated response {name}: output: 'x', finish_reason: stop"


def launched(task: int, at: str, slot: int = 0) -> str:
    return f"{at} I slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0"


def timed(task: int, at: str, total: float, slot: int = 0) -> tuple[str, ...]:
    head = f"{at} I slot print_timing: id  {slot} | task {task} |"
    return (
        f"{head} prompt eval time =     100.00 ms /    50 tokens (    2.00 ms per token,   500.00 tokens per second)",
        f"{head}        eval time =    {total - 100:.2f} ms /    40 tokens (   30.00 ms per token)",
        f"{head}       total time =    {total:.2f} ms /    90 tokens",
        f"{head}    graphs reused =         38",
    )


def released(task: int, at: str, slot: int = 0) -> str:
    return f"{at} I slot      release: id  {slot} | task {task} | stop processing: n_tokens = 95, truncated = 0"


def of_client(path: Path, names: Sequence[str], started: str) -> Path:
    rows = [
        {"request_id": n, "vantage": "client", "started_at": started, "total_ms": 900, "outcome": "completed"}
        for n in names
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# --- vLLM


def test_a_time_without_a_year_takes_it_from_the_file_also_over_new_year(tmp_path: Path) -> None:
    log = written(
        tmp_path / "v.log", received("chatcmpl-a", "12-31 23:59:58"), generated("chatcmpl-a", "01-01 00:00:03")
    )
    with reading(log) as (store, _):
        (row,) = store.rows("select started_at, ended_at, total_ms from attempts")
        assert row["started_at"] == datetime(2025, 12, 31, 23, 59, 58, tzinfo=UTC)
        assert row["ended_at"] == datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)
        assert row["total_ms"] == 5000
    with reading(log, timezone="Europe/Berlin") as (store, _):
        assert store.run("select epoch(started_at) from attempts") == [
            (datetime(2025, 12, 31, 22, 59, 58, tzinfo=UTC).timestamp(),)
        ]


def test_an_id_that_the_caller_gave_joins_client_and_vllm(tmp_path: Path) -> None:
    names = [f"12109-{n}" for n in range(6)]
    client = of_client(tmp_path / "client.jsonl", names, "2026-01-02T11:00:00.1Z")
    lines = [received(f"chatcmpl-{name}", "01-02 11:00:00") for name in names]
    log = written(tmp_path / "vllm.log", *lines, *(generated(f"chatcmpl-{name}", "01-02 11:00:01") for name in names))
    with reading(client, log) as (store, _):
        prepare(store)
        found = store.run(
            "select a.request_id, b.request_id, joined_by from pairs p join attempts a using (attempt_id) "
            "join attempts b on b.attempt_id = p.partner_id order by 1"
        )
        assert found == [(name, f"chatcmpl-{name}", "id") for name in names]


def test_a_vllm_request_cut_by_rotation_counts_once(tmp_path: Path) -> None:
    first = written(
        tmp_path / "a.log", received("chatcmpl-a", "01-02 11:00:00"), received("chatcmpl-b", "01-02 11:00:01")
    )
    second = written(
        tmp_path / "b.log", generated("chatcmpl-a", "01-02 11:00:02"), received("chatcmpl-c", "01-02 11:00:03"),
        generated("chatcmpl-c", "01-02 11:00:04"),
    )  # fmt: skip
    with reading(first, second) as (store, _):
        assert store.run("select request_id, outcome from attempts order by attempt_id") == [
            ("chatcmpl-a", "unknown"),
            ("chatcmpl-b", "unknown"),
            ("chatcmpl-c", "completed"),
        ]
        assert store.run("select lines, rows, rejected, blank, foreign_lines from inputs order by path") == [
            (2, 2, 0, 0, 0),
            (3, 1, 0, 0, 2),
        ]


def test_calls_of_the_http_server_count_only_where_vllm_logs_no_requests(tmp_path: Path) -> None:
    stats = (
        "INFO 01-02 11:00:00 [loggers.py:271] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
        "Avg generation throughput: 1.0 tokens/s, Running: 2 reqs, "
        "Waiting: 14 reqs, CPU KV cache usage: 50.0%, Prefix cache hit rate: 0.0%"
    )
    calls = [f'INFO:     10.0.0.1:{n} - "POST /v1/chat/completions HTTP/1.1" {n} X' for n in (200, 200, 500, 404)]
    silent = written(
        tmp_path / "silent" / "v.log", stats, *calls, 'INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'
    )
    talking = written(tmp_path / "talking" / "v.log", stats, received("chatcmpl-a", "01-02 11:00:00"), *calls)
    with reading(silent) as (store, _):
        assert store.run("select http_status from attempts order by 1") == [(200,), (200,), (404,), (500,)]
        assert store.run("select value from engine_samples where name = 'waiting'") == [(14.0,)]
        assert store.run("select lines, rows, foreign_lines from inputs") == [(6, 5, 1)]
    with reading(talking) as (store, _):
        assert store.run("select request_id, http_status from attempts order by 2") == [
            (None, 404),
            ("chatcmpl-a", None),
        ]


def test_a_prompt_in_the_log_is_nowhere_in_the_store(tmp_path: Path) -> None:
    secret = "prompt: 'the merger, max_tokens=7777', "
    log = written(tmp_path / "v.log", received("cmpl-a-0", "01-02 11:00:00", secret), "noise: the merger")
    with reading(log) as (store, notes):
        assert store.run("select max_tokens from attempts") == [(9,)]
        for table in ("attempts", "inputs", "rejects", "facts"):
            assert "merger" not in str(store.run(f"select * from {table}"))
        assert "merger" not in str(notes)


def test_many_streaming_deltas_are_one_request(tmp_path: Path) -> None:
    head = "(APIServer pid=1) INFO 01-02 11:00:0{} [logger.py:78] Generated response chatcmpl-a "
    delta = head + "(streaming delta): output: 'x', finish_reason: {}"
    lines = [delta.format(n, "None") for n in range(1, 5)] + [delta.format(5, "length")]
    end = head.format(6) + "(streaming complete): output: 'x', finish_reason: streaming_complete"
    with reading(written(tmp_path / "v.log", received("chatcmpl-a", "01-02 11:00:00"), *lines, end)) as (store, _):
        (row,) = store.rows("select stream, total_ms, finish_reason, outcome, ttft_ms from attempts")
        assert list(row.values()) == [True, 6000, "length", "completed", None]
        assert store.run("select lines, rows, foreign_lines from inputs") == [(7, 1, 6)]


# --- llama.cpp


def test_tasks_on_several_slots_do_not_mix(tmp_path: Path) -> None:
    log = written(
        tmp_path / "l.log",
        "0.00.050.073 I srv  llama_server: initializing ...",
        launched(1, "0.01.000.000"), launched(2, "0.01.500.000", 1),
        *timed(1, "0.02.000.000", 1000.0), *timed(2, "0.03.000.000", 1500.0, 1),
        released(2, "0.03.000.010", 1), released(1, "0.03.000.020"), launched(3, "0.03.100.000"),
        "0.03.200.000 W srv          stop: cancel task, id_task = 4",
        "0.03.300.000 W srv          stop: cancel task, id_task = 3",
        released(3, "0.03.300.010"),
    )  # fmt: skip
    with reading(log) as (store, _):
        assert store.run(
            "select request_id, outcome, total_ms, input_tokens, cached_tokens from attempts order by 1"
        ) == [
            ("task 1", "completed", 1000.0, 56, 6),
            ("task 2", "completed", 1500.0, 56, 6),
            ("task 3", "cancelled", 200.0, None, None),
            ("task 4", "cancelled", None, None, None),
        ]
        assert store.run("select lines, rows, rejected, blank, foreign_lines from inputs") == [(17, 4, 0, 0, 13)]
        assert store.run("select min(time_basis), max(time_basis) from attempts") == [("relative", "relative")]


def test_a_server_that_starts_again_uses_its_task_numbers_again(tmp_path: Path) -> None:
    run = (launched(1, "0.01.000.000"), *timed(1, "0.02.000.000", 1000.0), released(1, "0.02.000.010"))
    again = (launched(1, "0.01.100.000"), *timed(1, "0.02.100.000", 900.0), released(1, "0.02.100.010"))
    killed = (launched(2, "0.03.000.000"),)
    with reading(written(tmp_path / "l.log", *run, *killed, *again, launched(2, "0.04.000.000"))) as (store, _):
        assert store.run("select request_id, total_ms from attempts order by 1, 2 nulls last") == [
            ("task 1", 900.0),
            ("task 1", 1000.0),
            ("task 2", None),
            ("task 2", None),
        ]


def test_the_same_llama_log_twice_counts_once_and_two_replicas_count_twice(tmp_path: Path) -> None:
    run = (launched(1, "0.01.000.000"), *timed(1, "0.02.000.000", 1000.0), released(1, "0.02.000.010"))
    other = (launched(1, "0.01.000.007"), *timed(1, "0.02.100.000", 1001.0), released(1, "0.02.100.010"))
    paths = [written(tmp_path / f"{n}.log", *lines) for n, lines in enumerate((run, run, other))]
    with reading(*paths) as (store, _):
        assert store.run("select count(*), count(distinct total_ms) from attempts") == [(2, 2)]
        assert store.run("select sum(doubled) from inputs") == [(1,)]


def test_times_since_the_start_of_a_server_do_not_stretch_the_window(tmp_path: Path) -> None:
    client = of_client(tmp_path / "client.jsonl", ["a", "b"], "2026-01-02T11:00:00Z")
    log = written(
        tmp_path / "l.log", launched(1, "0.01.000.000"), *timed(1, "0.02.000.000", 1000.0), released(1, "0.02.1")
    )
    with reading(client, log) as (store, notes):
        assert not any("clock" in note for note in notes)
        assert window(store) == ("2026-01-02T11:00:00.000Z", "2026-01-02T11:00:00.900Z")


def test_a_dated_envelope_gives_llama_cpp_its_instants(tmp_path: Path) -> None:
    run = (launched(1, "0.01.000.000"), *timed(1, "0.02.000.000", 1000.0), released(1, "0.02.000.010"))
    lines = [f"2026-01-02T11:00:0{n}.250000000+01:00 stderr F {line}" for n, line in enumerate(run)]
    with reading(written(tmp_path / "l.log", *lines)) as (store, _):
        (row,) = store.rows("select started_at, time_basis, total_ms, outcome from attempts")
        assert list(row.values()) == [datetime(2026, 1, 2, 10, 0, 0, 250000, tzinfo=UTC), "both", 1000, "completed"]


def test_lines_of_a_joined_record_are_found_again(tmp_path: Path) -> None:
    log = written(
        tmp_path / "l.log", "0.00.1 I srv  llama_server: initializing ...", launched(7, "0.01.000.000"),
        *timed(7, "0.02.000.000", 1000.0), released(7, "0.02.000.010"),
    )  # fmt: skip
    with reading(log) as (store, _):
        assert locate(store, [1]) == {1: 2}


def test_the_journal_dates_both_kinds_of_text(tmp_path: Path) -> None:
    run = (launched(1, "0.01.000.000"), *timed(1, "0.02.000.000", 1000.0), released(1, "0.02.000.010"))
    vllm = (received("chatcmpl-a", "01-02 11:00:00"), generated("chatcmpl-a", "01-02 11:00:04"))
    for name, lines in (("llama-server", run), ("vllm", vllm)):
        noted = [f"Jan  2 11:00:0{n} gpu1 {name}[77]: {line}" for n, line in enumerate(lines)]
        with reading(written(tmp_path / f"{name}.log", *noted)) as (store, _):
            assert store.run("select epoch(started_at), outcome from attempts") == [
                (datetime(2026, 1, 2, 11, tzinfo=UTC).timestamp(), "completed")
            ]


# --- SGLang


def finished(name: str, started: float, total: float, queue: float = 0.1) -> str:
    return json.dumps(
        {
            "request_parameters": json.dumps({"rid": name, "stream": True, "text": "the merger"}),
            "id": name,
            "finish_reason": {"type": "stop"},
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "cached_tokens": 0,
            "queue_time": queue,
            "e2e_latency": total,
            "request_received_ts": started,
            "response_sent_to_client_ts": started + 0.2,
            "request_finished_ts": started + total,
        }
    )


def test_hourly_files_of_sglang_are_one_log(tmp_path: Path) -> None:
    hours = [
        written(
            tmp_path / f"sglang-request-metrics-20260102_{hour}.log",
            *(finished(f"{hour}-{n}", 1767348000 + hour * 3600 + n, 1.5) for n in range(20)),
        )
        for hour in (9, 10)
    ]
    with reading(*hours, hours[0]) as (store, _):
        assert store.run("select count(*), min(queue_ms), max(ttft_ms), min(outcome) from attempts") == [
            (40, 100.0, 200.0, "completed")
        ]
        assert store.run("select distinct format from inputs") == [("sglang_metrics",)]
        assert "merger" not in str(store.run("select * from attempts"))


def test_the_file_metrics_and_the_request_log_of_sglang_join_by_their_id_and_count_once(tmp_path: Path) -> None:
    meta = json.loads(finished("r1", 1767348000.0, 1.5))
    one = {"rid": "r1", "timestamp": "2026-01-02T10:00:00.1"}
    lines = [
        one | {"event": "request.received", "obj": {"rid": "r1", "stream": True}},
        one | {"event": "request.finished", "obj": {}, "out": {"meta_info": meta}},
    ]
    log = written(tmp_path / "requests.log", *(json.dumps(line) for line in lines))
    files = written(tmp_path / "sglang-request-metrics-20260102_10.log", finished("r1", 1767348000.0, 1.5))
    with reading(log, files) as (store, _):
        assert store.run("select request_id, total_ms, queue_ms, ttft_ms from attempts") == [
            ("r1", 1500.0, 100.0, 200.0)
        ]
        assert store.run("select sum(doubled), sum(rows) from inputs") == [(1, 2)]


# --- TGI and Ollama


def test_colours_of_a_terminal_do_not_hide_a_line(tmp_path: Path) -> None:
    line = (
        "\x1b[2m2026-01-02T09:12:08.306020Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mgenerate\x1b[0m\x1b[1m{\x1b[0m"
        '\x1b[3mtotal_time\x1b[0m="5.2s" \x1b[3mvalidation_time\x1b[0m="1.4ms" \x1b[3mqueue_time\x1b[0m="4ms" '
        '\x1b[3minference_time\x1b[0m="5s" \x1b[3mtime_per_token\x1b[0m="25ms"\x1b[1m}\x1b[0m: '
        "\x1b[2mtext_generation_router::server\x1b[0m\x1b[2m:\x1b[0m router/src/server.rs:637: Success"
    )
    with reading(written(tmp_path / "tgi.log", line, line.replace("5.2s", "6.2s"))) as (store, _):
        assert store.run("select total_ms, queue_ms, output_tokens, stream from attempts order by 1") == [
            (5200.0, 4.0, 200, False),
            (6200.0, 4.0, 200, False),
        ]


def test_an_ollama_log_stays_one_where_its_runner_writes_more_than_itself(tmp_path: Path) -> None:
    runner = [
        line.split(" I ", 1)[1]
        for n in range(20)
        for line in (launched(n, "0"), *timed(n, "0", 900.0), released(n, "0"))
    ]
    call = '[GIN] 2026/01/02 - 09:12:08 | 200 |  5.201734112s |        10.4.1.7 | POST     "/api/chat"'
    log = written(tmp_path / "server.log", *runner, call)
    assert detect(log).candidates[0].format.id == "ollama_log"
    with reading(log) as (store, _):
        assert store.run("select total_ms from attempts") == [(5201.734112,)]


def test_another_program_that_logs_with_gin_is_not_ollama(tmp_path: Path) -> None:
    call = '[GIN] 2026/01/02 - 09:12:08 | 200 |  5.2ms |        10.4.1.7 | POST     "/bookings"'
    assert detect(written(tmp_path / "gin.log", call, call)).format is None


# --- metrics


def test_the_answer_of_a_prometheus_server_is_read_series_by_series(tmp_path: Path) -> None:
    kinds: tuple[tuple[str, int, dict[str, str]], ...] = (
        ("vllm:num_requests_waiting", 1, {}),
        ("vllm:num_requests_waiting", 2, {}),
        ("sglang:num_queue_reqs", 3, {"tp_rank": "1"}),
        ("go_threads", 4, {}),
    )
    points = [[1767348000 + 15 * i, str(i)] for i in range(4)]
    series: list[dict[str, object]] = [
        {"metric": {"__name__": name, "instance": f"10.0.0.{n}:8000"} | more, "values": points}
        for name, n, more in kinds
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    for name, text in (("one.json", json.dumps(answer)), ("pretty.json", json.dumps(answer, indent=2))):
        with reading(written(tmp_path / name, text)) as (store, _):
            found = store.run(
                'select instance, count(*), max(value), epoch(min("at")) from engine_samples group by 1 order by 1'
            )
            assert found == [("10.0.0.1:8000", 4, 3.0, 1767348000.0), ("10.0.0.2:8000", 4, 3.0, 1767348000.0)]
            assert store.run("select lines, rows, rejected, blank, foreign_lines from inputs") == [(4, 2, 0, 0, 2)]


# --- lines put together


@pytest.mark.parametrize("kinds", [("total", "release"), ("release", "total")])
def test_a_request_is_complete_when_all_its_kinds_of_lines_have_come_in_any_order(kinds: tuple[str, str]) -> None:
    join = Join(by=("task",), kind="kind", begins=frozenset({"launch"}), complete=frozenset(kinds))
    lines = [{"kind": kind, "task": 1, kind: True} for kind in ("launch", *kinds)]
    later = [{"kind": "launch", "task": 1, "launch": True}]
    found = list(applied((Found(n, dict(line)) for n, line in enumerate(lines + later, 1)), Recipe(join=join), 0))
    assert [(one.line, one.extra, one.values.get("_open")) for one in found] == [(1, 2, None), (4, 0, True)]
    assert found[0].values["total"]
    assert found[0].values["release"]


def test_a_line_that_follows_goes_by_its_own_id_where_it_has_one() -> None:
    join = Join(by=("task",), kind="kind", begins=frozenset({"launch"}), follows=frozenset({"time"}))
    lines = [
        {"kind": "launch", "task": 1},
        {"kind": "launch", "task": 2},
        {"kind": "time", "task": 1, "ms": 10},
        {"kind": "launch", "task": 3},
        {"kind": "time", "ms": 30},
    ]
    found = applied((Found(n, dict(line)) for n, line in enumerate(lines, 1)), Recipe(join=join), 0)
    assert {one.values["task"]: one.values.get("ms") for one in found} == {1: 10, 2: None, 3: 30}
