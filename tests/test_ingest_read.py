"""One read, end to end: files, tables, notes, line numbers."""

import gzip
import io
import json
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from llmdoctor.errors import InputError, UsageError
from llmdoctor.ingest import ReadOptions, locate, read
from llmdoctor.store import Store

Record = dict[str, object]


def record(number: int, **more: object) -> Record:
    started = f"2026-01-05T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.5Z"
    base: Record = {
        "request_id": f"r{number}",
        "started_at": started,
        "total_ms": 100.0 + number,
        "outcome": "completed",
    }
    return base | more


def write(path: Path, records: list[Record]) -> str:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")
    return str(path)


def filled(*paths: str, threads: int | None = None, **options: object) -> tuple[Store, tuple[str, ...]]:
    store = Store(threads=threads)
    store.create()
    return store, read(store, paths, ReadOptions(**options))  # type: ignore[arg-type]


def test_a_plain_native_log_fills_attempts(tmp_path: Path) -> None:
    store, notes = filled(write(tmp_path / "a.jsonl", [record(n) for n in range(10)]))
    with store:
        assert notes == ()
        assert store.run("select count(*), min(attempt_id), max(attempt_id) from attempts") == [(10, 1, 10)]
        (row,) = store.rows("select * from attempts where attempt_id = 3")
        assert (row["request_id"], row["vantage"], row["total_ms"], row["time_basis"]) == (
            "r2",
            "client",
            102.0,
            "start",
        )
        assert list(store.columns("attempts"))[:3] == ["attempt_id", "input_id", "line"]


def test_a_key_that_first_appears_late_is_not_lost(tmp_path: Path) -> None:
    # Beyond the lines that are looked at to tell the format.
    records = [record(n) for n in range(3000)]
    records[2900]["conversation_id"] = "c"
    store, _ = filled(write(tmp_path / "a.jsonl", records))
    with store:
        assert store.run("select request_id, conversation_id from attempts where conversation_id is not null") == [
            ("r2900", "c")
        ]


def test_fields_that_appear_late_are_what_they_are_where_all_columns_are_stored(tmp_path: Path) -> None:
    records = [record(n) for n in range(3000)]
    records[2900] |= {"timeout_ms": 0.1, "priority": -3, "conn_reused": False, "caller": 'a "b" \u00e9'}
    records[2950] |= {"client_gone_at": "2026-01-05T00:00:00.123457+02:00", "retry_after_ms": 1e12 / 7}
    path = write(tmp_path / "a.jsonl", records)
    slim, _ = filled(path)
    wide, _ = filled(path, where="true")
    with slim, wide:
        assert "priority" in slim.columns("attempt_rows")
        assert "region" not in slim.columns("attempt_rows")
        every = "select * from attempts order by attempt_id"
        assert slim.run(every) == wide.run(every)


def test_a_line_of_another_table_that_appears_late_is_not_lost(tmp_path: Path) -> None:
    records = [record(n) for n in range(3000)]
    records[2900] = {"table": "facts", "request_id": "r7", "name": "via", "value": "1.1 proxy"}
    store, _ = filled(write(tmp_path / "a.jsonl", records))
    with store:
        assert store.run("select count(*) from attempts") == [(2999,)]
        assert store.run("select attempt_id, name from facts") == [(8, "via")]


def test_rows_are_the_same_whether_empty_columns_are_stored_or_not(tmp_path: Path) -> None:
    records = [record(n % 700, model=f"m{n % 3}", queue_ms=n / 7, http_status=200 + n % 300) for n in range(1000)]
    random.Random(3).shuffle(records)
    path = write(tmp_path / "a.jsonl", [*records, *({**one, "request_id": None} for one in records[:50])])
    slim, notes = filled(path)
    wide, more = filled(path, where="true")
    with slim, wide:
        assert [
            kind
            for (kind,) in slim.run("select table_type from information_schema.tables where table_name = 'attempts'")
        ] == ["VIEW"]
        assert slim.columns("attempts") == wide.columns("attempts")
        assert slim.run("select * from attempts order by attempt_id") == wide.run(
            "select * from attempts order by attempt_id"
        )
        assert slim.run("select * from inputs") == wide.run("select * from inputs")
        assert notes == more[:-1]


def test_the_tables_keep_their_shape_whatever_the_road(tmp_path: Path) -> None:
    with Store() as empty:
        empty.create()
        shape = empty.columns("attempts")
    store, _ = filled(write(tmp_path / "a.jsonl", [record(n) for n in range(3)]))
    with store:
        assert store.columns("attempts") == shape


@pytest.mark.parametrize("threads", [1, 2])
def test_shuffled_lines_and_threads_give_the_same_tables(tmp_path: Path, threads: int) -> None:
    records = [record(n // 3, request_id=None if n % 5 == 0 else f"r{n}", model=f"m{n % 7}") for n in range(3000)]
    store, _ = filled(write(tmp_path / "a.jsonl", records))
    random.Random(threads).shuffle(records)
    write(tmp_path / "a.jsonl", records)
    other, _ = filled(str(tmp_path / "a.jsonl"), threads=threads)
    with store, other:
        asked = "select * exclude (line) from attempts order by attempt_id"
        assert store.run(asked) == other.run(asked)


def test_rows_of_other_tables_find_their_attempt(tmp_path: Path) -> None:
    attempt = record(1, stream=True)
    pieces: list[Record] = [
        {"table": "chunks", "request_id": "r1", "attempt": 1, "seq": n, "at_ms": at, "kind": kind}
        for n, (at, kind) in enumerate(
            [(20.0, "role"), (50.0, "text"), (60.0, "text"), (90.0, "text"), (91.0, "terminal")], 1
        )
    ]
    others: list[Record] = [
        {"table": "facts", "request_id": "r1", "name": "via", "value": "1.1 proxy"},
        {"table": "engine_samples", "at": "2026-01-05T00:00:00Z", "name": "waiting", "value": 3},
        {"table": "task_events", "task_id": "t", "at": "2026-01-05T00:00:00Z", "state": "queued"},
        {"table": "stages", "request_id": "r1", "name": "queue", "duration_ms": 12},
        {"table": "chunks", "request_id": "nobody", "seq": 1},
    ]
    store, notes = filled(write(tmp_path / "a.jsonl", [*pieces, attempt, *others]))
    with store:
        assert store.run("select attempt_id, count(*) from chunks group by all") == [(1, 5)]
        assert store.run("select ttft_ms, chunks, max_gap_ms, terminal_seen from attempts") == [(50.0, 3, 30.0, True)]
        assert store.run("select attempt_id, name, value from facts") == [(1, "via", "1.1 proxy")]
        assert store.run("select name, value, input_id from engine_samples") == [("waiting", 3.0, 1)]
        assert store.run('select state, t."at" is not null from task_events as t') == [("queued", True)]
        assert store.run("select attempt_id, duration_ms from stages") == [(1, 12.0)]
        assert store.run("select lines, rows, foreign_lines from inputs") == [(11, 11, 0)]
        assert any("name no attempt" in note for note in notes)


def test_doubled_rows_count_once_and_only_with_a_request_id(tmp_path: Path) -> None:
    one = write(tmp_path / "a.jsonl", [record(1), record(2), record(3, request_id=None)])
    two = write(tmp_path / "b.jsonl", [record(1), record(2, attempt=2), record(3, request_id=None)])
    store, notes = filled(one, two)
    with store:
        assert store.run("select count(*) from attempts") == [(5,)]
        assert store.run("select input_id, rows, doubled from inputs order by 1") == [(1, 3, 0), (2, 3, 1)]
        assert any(note.startswith("1 doubled row") for note in notes)


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [record(1)])
    (tmp_path / "link.jsonl").symlink_to(path)
    store, notes = filled(path, path, str(tmp_path / "link.jsonl"))
    with store:
        assert store.run("select count(*) from inputs") == [(1,)]
        assert any("same file" in note for note in notes)


def test_filters_leave_rows_out_and_say_how_many(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [record(n, model="m" if n % 2 else "n") for n in range(100)])
    store, notes = filled(path, since="2026-01-05T00:00:10Z", until="2026-01-05T00:01:00Z", where="model = 'm'")
    with store:
        assert store.run("select count(*) from attempts") == [(25,)]
        assert [note.split(": ")[1] for note in notes] == ["10 rows removed.", "40 rows removed.", "25 rows removed."]
        assert store.run("select rows from inputs") == [(100,)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"since": "soon"}, "--since"),
        ({"where": "no_column = 1"}, "--where"),
        ({"timezone": "Mars/Olympus"}, "--tz"),
        ({"format": "llmdocter"}, "no format is called"),
    ],
)
def test_a_wrong_option_is_one_sentence(tmp_path: Path, options: dict[str, str], words: str) -> None:
    path = write(tmp_path / "a.jsonl", [record(1)])
    with pytest.raises(UsageError, match=words) as error:
        filled(path, **options)  # type: ignore[arg-type]  # threads is none of them
    assert "\n" not in str(error.value)


def test_instants_without_a_zone_take_that_of_the_options(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        [record(1, started_at="2026-07-05 12:00:00"), record(2, started_at="2026-07-05T12:00:00Z")],
    )
    store, _ = filled(path, timezone="Asia/Shanghai")
    with store:
        found = store.run("select request_id, cast(started_at as varchar) from attempts order by 1")
        assert found == [("r1", "2026-07-05 04:00:00+00"), ("r2", "2026-07-05 12:00:00+00")]


def test_folders_globs_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / ".git").mkdir()
    write(tmp_path / "in" / ".hidden.jsonl", [record(9)])
    write(tmp_path / "in" / ".git" / "x.jsonl", [record(9)])
    write(tmp_path / "in" / "strange [1] *?'\" 名.jsonl", [record(1)])
    write(tmp_path / "b1.jsonl", [record(2)])
    data = gzip.compress(json.dumps(record(3)).encode())
    with Store() as store:
        store.create()
        notes = read(store, [str(tmp_path / "in"), str(tmp_path / "b*.jsonl"), "-"], ReadOptions(), io.BytesIO(data))
        assert store.run("select count(*) from attempts") == [(3,)]
        assert store.run("select path from inputs where path = '-'") == [("-",)]
        assert any("2 hidden entries" in note for note in notes)
        store.seal()
        assert set(locate(store, [1, 2, 3]).values()) == {1}


def test_pipes_sockets_and_closed_files_are_listed_and_not_opened(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [record(1)])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        store, _ = filled(str(tmp_path))
    with store:
        found = {Path(str(path)).name: str(reason) for path, reason in store.run("select path, reason from inputs")}
    assert "named pipe" in found["pipe"]
    assert "socket" in found["s"]
    assert "cannot be read" in found["gone"]


def test_a_path_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        filled(str(tmp_path / "nothing.log"))


def test_lines_are_located_in_a_sealed_store(tmp_path: Path) -> None:
    plain = [record(n) for n in range(50)]
    random.Random(1).shuffle(plain)
    anonymous = [record(n, request_id=None) for n in range(100, 140)]
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    write(one, plain)
    two.write_bytes(gzip.compress(b"\n" + "".join(json.dumps(r) + "\n" for r in anonymous).encode()))
    store, _ = filled(str(one), str(two))
    with store:
        rows = store.run("select attempt_id, input_id, started_at from attempts")
        store.seal()
        lines = locate(store, [row[0] for row in rows])
    assert len(lines) == 90
    for attempt_id, input_id, started_at in rows:
        records = plain if input_id == 1 else anonymous
        stamp = started_at.strftime("%Y-%m-%dT%H:%M:%S.5Z")
        expected = next(n for n, one_record in enumerate(records, 1) if one_record["started_at"] == stamp)
        assert lines[attempt_id] == expected + (input_id == 2)


@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf", b"\xff is no text\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_lines_are_located_whatever_else_the_file_holds(
    tmp_path: Path, begin: bytes, pack: Callable[[bytes], bytes]
) -> None:
    lines = [json.dumps(record(n, task_id="the same everywhere")).encode() for n in range(30)]
    lines.insert(7, b"")
    (tmp_path / "a [1] *.jsonl").write_bytes(pack(begin + b"\r\n".join(lines)))
    store, _ = filled(str(tmp_path))
    with store:
        rows = store.run("select attempt_id, request_id from attempts")
        store.seal()
        found = locate(store, [row[0] for row in rows])
    above = begin.count(b"\n")
    expected = {json.loads(line)["request_id"]: above + n for n, line in enumerate(lines, 1) if line}
    assert {request: found[number] for number, request in rows} == expected


def test_outcomes_and_errors_have_one_vocabulary(tmp_path: Path) -> None:
    cases: list[tuple[Record, tuple[str, str | None]]] = [
        ({"outcome": None, "http_status": 200}, ("unknown", None)),
        ({"outcome": None, "http_status": 200, "finish_reason": "stop"}, ("completed", None)),
        ({"outcome": None, "http_status": 200, "terminal_seen": True}, ("completed", None)),
        ({"outcome": None, "stream": True, "terminal_seen": False}, ("incomplete", None)),
        ({"outcome": "ok"}, ("completed", None)),
        ({"outcome": None, "http_status": 429}, ("rate_limited", "rate_limit")),
        ({"outcome": "failed", "http_status": 429}, ("rate_limited", "rate_limit")),
        ({"outcome": None, "http_status": 504}, ("failed", "timeout")),
        ({"outcome": None, "error_type": "APITimeoutError"}, ("timeout", "timeout")),
        ({"outcome": "error", "error_type": "openai.RateLimitError"}, ("rate_limited", "rate_limit")),
        ({"outcome": None, "http_status": 499}, ("cancelled", "cancelled")),
        ({"outcome": None, "http_status": 503}, ("failed", "overloaded")),
        ({"outcome": None, "error_type": "APIConnectionError"}, ("failed", "connection_reset")),
        ({"outcome": None, "error_type": "something odd"}, ("failed", "other")),
        ({"outcome": None, "http_status": 0}, ("unknown", None)),
        ({"outcome": "empty"}, ("empty", None)),
    ]
    store, _ = filled(write(tmp_path / "a.jsonl", [record(n, **fields) for n, (fields, _) in enumerate(cases)]))
    with store:
        found = store.run("select outcome, error_type from attempts order by attempt_id")
    assert found == [expected for _, expected in cases]


def test_times_are_filled_from_each_other(tmp_path: Path) -> None:
    rows: list[Record] = [
        {
            "request_id": "a",
            "started_at": "2026-01-05T00:00:00Z",
            "ended_at": "2026-01-05T00:00:01.5Z",
            "outcome": "completed",
        },
        {"request_id": "b", "ended_at": "2026-01-05T00:00:10Z", "total_ms": 2500, "outcome": "completed"},
        {"request_id": "c", "started_at": "2026-01-05T00:00:20Z", "total_ms": 10, "ttft_ms": 5, "stream": False},
    ]
    store, _ = filled(write(tmp_path / "a.jsonl", rows))
    with store:
        found = store.run(
            "select request_id, time_basis, total_ms, ttft_ms, epoch_ms(ended_at) - epoch_ms(started_at) "
            "from attempts order by 1"
        )
    assert found == [
        ("a", "both", 1500.0, None, 1500),
        ("b", "end", 2500.0, None, 2500),
        ("c", "start", 10.0, None, 10),
    ]


def test_several_formats_in_one_folder_come_together(tmp_path: Path) -> None:
    write(tmp_path / "app.jsonl", [record(1)])
    write(
        tmp_path / "home.jsonl", [{"timestamp": "2026-01-05T00:00:03Z", "model": "m", "latency": 1.5, "status": "ok"}]
    )
    write(
        tmp_path / "nginx.log",
        [{"msec": 1795597928.3, "request_id": "n", "uri": "/v1/messages", "status": 200, "request_time": 0.5}],
    )
    (tmp_path / "m.prom").write_text('vllm:num_requests_waiting{engine="0"} 3\n')
    store, _ = filled(str(tmp_path))
    with store:
        assert store.run("select vantage, total_ms from attempts order by all") == [
            ("client", 101.0),
            ("client", 1500.0),
            ("proxy", 500.0),
        ]
        assert store.run("select name, value from engine_samples") == [("waiting", 3.0)]
        notes = dict(store.run("select format, note from inputs"))
    assert "latency in s" in notes["json_app"]
    assert "the file's own time" in notes["prometheus_vllm"]
    assert "not a first token" in notes["nginx_json"]


def test_implausible_guesses_are_warned_about(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"ts": 1795597928.3 + n, "model": "m", "latency": 4000 + n} for n in range(9)])
    store, _ = filled(path)
    with store:
        ((note,),) = store.run("select note from inputs")
    assert "latency in s" in note
    assert "probably milliseconds" in note


def test_prompts_and_answers_are_nowhere_in_the_store(tmp_path: Path) -> None:
    texts: Record = {"prompt": "HUSH", "messages": [{"content": "HUSH"}], "response": "HUSH", "error": "oops HUSH"}
    native = write(tmp_path / "a.jsonl", [record(1, **texts), record(2, total_ms="x", **texts)])
    home = write(tmp_path / "b.jsonl", [{"ts": 1795597928.3, "model": "m", "latency": 1.5, "text": "HUSH", **texts}])
    store, _ = filled(native, home)
    with store:
        for (table,) in store.run("select table_name from information_schema.tables"):
            assert "HUSH" not in str(store.run(f"select * from {table}"))


def test_a_clean_file_and_the_same_beside_a_broken_line_give_the_same_rows(tmp_path: Path) -> None:
    records = [record(n, stream=n % 2 == 0, input_tokens=n, cost_usd=0.5 * n, ttft_ms=n / 3) for n in range(500)]
    strict, _ = filled(write(tmp_path / "a.jsonl", records))
    with (tmp_path / "a.jsonl").open("a") as log:
        log.write("{broken\n")
    tolerant, _ = filled(str(tmp_path / "a.jsonl"))
    with strict, tolerant:
        asked = "select * exclude (line) from attempts order by attempt_id"
        assert strict.run(asked) == tolerant.run(asked)
        assert tolerant.run("select rejected from inputs") == [(1,)]


def test_a_count_below_zero_or_a_year_that_no_calendar_has_costs_the_field_and_not_the_row(tmp_path: Path) -> None:
    records = [record(n, input_tokens=10) for n in range(5)]
    records[1]["input_tokens"] = -5
    records[3]["started_at"] = "99999-01-01T00:00:00Z"
    store, _ = filled(write(tmp_path / "a.jsonl", records))
    with store:
        assert store.run("select count(*), count(input_tokens), count(started_at) from attempts") == [(5, 4, 4)]
        bad = dict(store.run("select field, bad_values from bad_fields"))
    assert bad == {"input_tokens": 1, "started_at": 1, "ended_at": 1}


def test_a_condition_that_is_whole_only_inside_our_brackets_is_refused(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", [record(n) for n in range(5)])
    with pytest.raises(UsageError, match="no condition"):
        filled(log, where="1=1) or (1=1")
    store, _ = filled(log, where="total_ms > 101 -- a comment")
    with store:
        assert store.run("select count(*) from attempts") == [(3,)]


def test_filters_that_leave_no_row_are_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the filters left no row"):
        filled(write(tmp_path / "a.jsonl", [record(1)]), since="2030-01-01")


def test_a_report_of_our_own_in_the_folder_is_no_log(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [record(n) for n in range(5)])
    (tmp_path / "r.json").write_text('{\n  "schema": "llmdoctor.report/1",\n  "command": "analyze"\n}\n')
    (tmp_path / "r.html").write_text("<!doctype html>\n<title>llmdoctor</title>\n")
    store, notes = filled(str(tmp_path))
    with store:
        assert store.run("select count(*) from inputs") == [(1,)]
    assert sum("is a report of llmdoctor and was not read" in note for note in notes) == 2


def test_a_row_of_another_century_is_told_of(tmp_path: Path) -> None:
    records = [record(n) for n in range(9)]
    records[4]["started_at"] = "1970-01-01T00:00:10Z"
    store, notes = filled(write(tmp_path / "a.jsonl", records))
    store.close()
    assert [note for note in notes if "more than a year away" in note]
