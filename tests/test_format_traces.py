"""Traces, clients' own logs and benchmark results: what single examples on the pages cannot show."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llmdoctor.ingest import ReadOptions, locate, read
from llmdoctor.ingest.detect import detect
from llmdoctor.store import Row, Store

T0 = 1_795_597_923_000_000_000


def filled(*paths: Path, **options: Any) -> Store:
    store = Store()
    store.create()
    read(store, [str(path) for path in paths], ReadOptions(**options))
    assert store.run("select count(*) from inputs where lines <> rows + rejected + blank + foreign_lines") == [(0,)]
    return store


def counts(store: Store) -> list[tuple[Any, ...]]:
    return store.run("select lines, rows, rejected, blank, foreign_lines from inputs order by input_id")


def everything(store: Store) -> str:
    tables = ("attempts", "chunks", "stages", "facts", "inputs", "rejects")
    return " ".join(str(store.rows(f"select * from {table}")) for table in tables)


# --- OpenTelemetry


def span(number: int, trace: int = 1, parent: int | None = None, **more: Any) -> dict[str, Any]:
    start = T0 + number * 1_000_000_000
    attributes = more.pop("attributes", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": "chat m",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 500_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        **more,
    }


def export(*spans: Mapping[str, Any], service: str = "app") -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "s"}, "spans": list(spans)}]}]}


def lines(path: Path, *records: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


HTTP = {"http.request.method": "POST", "http.response.status_code": "503"}


def test_spans_of_one_trace_in_rotated_files_are_one_call_with_its_stages(tmp_path: Path) -> None:
    first = lines(tmp_path / "traces.jsonl", export(span(1), span(2, parent=9, attributes={"x": "y"}, name="plan")))
    old = tmp_path / "traces-2026-11-25T05-02-14.173.jsonl.gz"
    failed = span(3, parent=1, attributes=HTTP, name="POST")
    root = span(9, attributes={"gen_ai.operation.name": "invoke_agent"}, name="agent")
    old.write_bytes(gzip.compress((json.dumps(export(failed)) + "\n" + json.dumps(export(root)) + "\n").encode()))
    with filled(first, old) as store:
        assert store.run("select request_id, upstream_attempts from attempts") == [("0" * 15 + "1", 1)]
        found = store.run("select name, parent, attempt_id, task_id = ? from stages order by name", [f"{1:032x}"])
        assert found == [("POST", "chat m", 1, True), ("agent", None, None, True), ("plan", "agent", None, True)]
        assert sorted(counts(store)) == [(2, 2, 0, 0, 0), (2, 2, 0, 0, 0)]


def test_an_llm_span_around_one_of_another_service_is_a_call_of_its_own(tmp_path: Path) -> None:
    around = lines(tmp_path / "app.jsonl", export(span(1), span(2, parent=1)))
    gateway = lines(tmp_path / "gateway.jsonl", export(span(3, parent=2), service="litellm-proxy"))
    with filled(around, gateway) as store:
        found = store.run("select vantage, right(span_id, 1) from attempts order by span_id")
        assert found == [("client", "2"), ("gateway", "3")]
        assert store.run("select name from stages") == [("chat m",)]


def test_an_engine_span_below_a_client_span_leaves_both(tmp_path: Path) -> None:
    engine = span(2, parent=1, name="llm_request", attributes={"gen_ai.request.id": "chatcmpl-1"})
    log = lines(tmp_path / "t.jsonl", export(span(1), engine))
    with filled(log) as store:
        found = store.run("select vantage, request_id, trace_id from attempts order by vantage")
        assert found == [("client", f"{1:016x}", f"{1:032x}"), ("engine", "chatcmpl-1", f"{1:032x}")]


def test_traces_without_an_llm_call_are_foreign_and_are_no_stages(tmp_path: Path) -> None:
    log = lines(
        tmp_path / "t.jsonl",
        export(span(1), span(2, trace=2, attributes={"db.system": "postgres"}, name="select")),
        export(span(3, trace=3, attributes=HTTP, name="GET /healthz")),
    )
    with filled(log) as store:
        assert counts(store) == [(3, 1, 0, 0, 2)]
        assert store.run("select count(*) from stages") == [(0,)]


def test_a_span_that_was_exported_twice_counts_once(tmp_path: Path) -> None:
    one = lines(tmp_path / "a.jsonl", export(span(1), span(2)))
    again = lines(tmp_path / "b.jsonl", export(span(2), span(3)))
    with filled(one, again) as store:
        assert store.run("select count(*) from attempts") == [(3,)]
        assert store.run("select doubled from inputs order by input_id") == [(0,), (1,)]


def test_nanoseconds_as_text_are_read_to_the_microsecond(tmp_path: Path) -> None:
    odd = span(1, startTimeUnixNano="1795597923104001999", endTimeUnixNano="1795597928311000001")
    with filled(lines(tmp_path / "t.jsonl", export(odd))) as store:
        found = store.run("select epoch_us(started_at), epoch_us(ended_at), total_ms from attempts")
        assert found == [(1795597923104001, 1795597928311000, 5206.999)]


@pytest.mark.parametrize("events", ['"none"', "[1, 2]", '{"name": "x"}', '[{"name": 5}]', "[]"])
def test_events_of_another_shape_cost_no_call(events: str, tmp_path: Path) -> None:
    good = lines(tmp_path / "t.jsonl", export({**span(1), "events": json.loads(events)}, span(2)))
    with filled(good) as store:
        assert store.run("select count(*), count(ttft_ms) from attempts") == [(2, 0)]


@pytest.mark.parametrize("layout", ["array", "pretty", "one line", "tempo", "spans"])
def test_the_layouts_of_an_export(layout: str, tmp_path: Path) -> None:
    log = tmp_path / "t.json"
    whole = export(span(1), span(2))
    if layout == "array":
        log.write_text(json.dumps([whole, export(span(3))]))
    elif layout == "pretty":
        log.write_text(json.dumps(whole, indent=2) + json.dumps(export(span(3)), indent=2))
    elif layout == "one line":
        log.write_text(json.dumps(export(span(1), span(2), span(3))))
    elif layout == "tempo":
        log.write_text(json.dumps({"trace": export(span(1), span(2), span(3))}))
    else:
        lines(log, span(1), span(2), span(3))
    with filled(log) as store:
        assert counts(store) == [(3, 3, 0, 0, 0)]
        assert store.run("select count(model), count(started_at) from attempts") == [(3, 3)]


def test_an_export_without_the_arrays_is_counted_and_not_lost(tmp_path: Path) -> None:
    log = lines(tmp_path / "t.jsonl", export(span(1)), {"resourceLogs": []}, {"resourceSpans": []}, {"other": 1})
    with filled(log) as store:
        assert counts(store) == [(3, 1, 0, 0, 2)]


def test_an_export_in_one_object_may_be_larger_than_the_longest_line(tmp_path: Path) -> None:
    log = tmp_path / "t.json"
    log.write_text(json.dumps(export(*(span(n, trace=n, note="x" * 200_000) for n in range(1, 101)))))
    assert log.stat().st_size > 16 << 20
    with filled(log) as store:
        assert counts(store) == [(100, 100, 0, 0, 0)]


def test_the_line_of_a_span_is_found_again(tmp_path: Path) -> None:
    exports = [export(span(n, trace=n), span(n + 50, trace=n, parent=n, attributes=HTTP)) for n in (1, 2, 3)]
    log = lines(tmp_path / "t.jsonl", *exports)
    with filled(log) as store:
        assert locate(store, [1, 2, 3]) == {1: 1, 2: 2, 3: 3}


def test_input_without_cached_tokens_is_judged_by_the_instrumentation_not_by_the_span(tmp_path: Path) -> None:
    def used(number: int, tokens: int, cached: int) -> dict[str, Any]:
        told = {"gen_ai.system": "anthropic", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": str(tokens)}
        return span(number, attributes={**told, "gen_ai.usage.cache_read_input_tokens": str(cached)})

    with filled(lines(tmp_path / "t.jsonl", export(used(1, 300, 1500), used(2, 900, 100)))) as store:
        assert store.run("select input_tokens from attempts order by attempt_id") == [(1800,), (1000,)]


def test_texts_of_spans_stay_out_of_the_tables(tmp_path: Path) -> None:
    told = {"gen_ai.request.model": "m", "gen_ai.system": "x", "gen_ai.prompt.0.content": "private", "user.id": "ann"}
    failed = {"code": 2, "message": "private words: 401"}
    with filled(lines(tmp_path / "t.jsonl", export(span(1, attributes=told, status=failed)))) as store:
        assert store.run("select outcome, caller is not null from attempts") == [("failed", True)]
        assert "private" not in everything(store)
        assert "'ann'" not in everything(store)


# --- benchmarks


def bench(date: str, **more: Any) -> dict[str, Any]:
    return {
        "date": date,
        "model_id": "m",
        "duration": 10.0,
        "input_lens": [10, 10],
        "output_lens": [2, 0],
        "ttfts": [0.1, 0.0],
        "itls": [[0.02], []],
        "start_times": [5.0, 6.0],
        "errors": ["", "Traceback ...\nTimeoutError: private words"],
        "generated_texts": ["private words", ""],
        **more,
    }


def test_two_results_with_the_same_places_keep_their_own_chunks(tmp_path: Path) -> None:
    one = lines(tmp_path / "a.json", bench("20261125-091213"))
    two = lines(tmp_path / "b.json", bench("20261125-101213", ttfts=[0.3, 0.0]), bench("20261125-111213"))
    with filled(one, two) as store:
        assert counts(store) == [(2, 2, 0, 0, 0), (4, 4, 0, 0, 0)]
        found = store.run(
            "select attempt_id, list(at_ms order by seq) from chunks group by attempt_id order by attempt_id"
        )
        assert [pieces for _, pieces in found] == [[100.0, 120.0], [300.0, 320.0], [100.0, 120.0]]
        failed = store.run("select distinct outcome, error_type from attempts where ttft_ms is null")
        assert failed == [("timeout", "timeout")]
        assert "private" not in everything(store)


def test_the_zone_of_the_machine_that_ran_the_benchmark_can_be_given(tmp_path: Path) -> None:
    with filled(lines(tmp_path / "a.json", bench("20261125-091213")), timezone="Europe/Berlin") as store:
        assert store.run("select min(started_at) = timestamptz '2026-11-25T08:12:03Z' from attempts") == [(True,)]


def test_arrays_are_opened_without_what_no_field_names(tmp_path: Path) -> None:
    log = tmp_path / "benchmarks.json"
    request = {"info": {"status": "completed"}, "request_latency": 1.0, "output": "private words"}
    requests = {"successful": [{**request, "request_id": f"g{n}"} for n in range(50)], "incomplete": None}
    benchmark = {"metrics": {"m": "x" * 10_000}, "config": {"id_": "b"}, "requests": requests}
    log.write_text(json.dumps({"benchmarks": [benchmark]}))
    content = detect(log).content
    records = [record.text.decode() for record in content.records()]
    assert len(records) == 50
    assert not any("xxx" in text or "private" in text for text in records)
    assert all('"id_": "b"' in text for text in records)


def test_a_failed_and_a_cut_request_of_guidellm_are_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "benchmarks.json"
    times = {"request_start": 1795597923.0, "request_end": 1795597924.0}
    faults = {"successful": None, "incomplete": None, "errored": "ConnectError: refused"}
    requests = {
        name: [{"request_id": name, "info": {"timings": times, "error": fault}}] for name, fault in faults.items()
    }
    log.write_text(json.dumps({"benchmarks": [{"requests": requests}]}))
    with filled(log) as store:
        found = dict(store.run("select request_id, outcome || ' ' || coalesce(error_type, '-') from attempts"))
        assert found["incomplete"] == "cancelled -"
        assert found["errored"] == "failed connection_reset"


# --- lines of an SDK

ANSWER = 'HTTP Request: POST https://llm.example/v1/chat/completions "HTTP/1.1 {}"'


@pytest.mark.parametrize(
    "layout",
    [
        "2026-11-25 09:12:03,104 httpx INFO {}",
        "2026-11-25 09:12:03,104 - httpx - INFO - {}",
        "[2026-11-25 09:12:03,104 - httpx:1013 - INFO] {}",
        "[2026-11-25 09:12:03,104][INFO][httpx] {}",
        "2026-11-25 09:12:03.104 | INFO     | httpx._client:_send_single_request:1013 - {}",
        "2026-11-25T09:12:03.104Z INFO httpx: {}",
        "INFO 2026-11-25 09:12:03,104 _client 41 140012 {}",
        "web-1  | 2026-11-25 09:12:03,104 INFO httpx {}",
        "2026-11-25T09:12:03.104000000Z stdout F INFO:httpx:{}",
    ],
)
def test_the_layouts_of_logging_libraries(layout: str, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    texts = (ANSWER.format("200 OK"), "cache warmed", ANSWER.format("502 Bad Gateway"))
    log.write_text("".join(layout.format(text) + "\n" for text in texts))
    with filled(log) as store:
        assert counts(store) == [(3, 2, 0, 0, 1)]
        found = store.run("select http_status, epoch_ms(started_at) from attempts order by http_status")
        assert found == [(200, 1795597923104), (502, 1795597923104)]


def stamped(*told: str, step_ms: int = 10) -> str:
    out = []
    for number, text in enumerate(told):
        seconds, ms = divmod(number * step_ms, 1000)
        out.append(f"2026-11-25 09:12:{seconds:02d},{ms:03d} INFO x {text}\n")
    return "".join(out)


def retry(number: int) -> str:
    return f"Retrying request in 0.4 seconds (retry {number} of 2)"


def test_each_refused_answer_explains_one_retry_however_they_are_mixed(tmp_path: Path) -> None:
    log = tmp_path / "sdk.log"
    refused = ANSWER.format("429 Too Many Requests")
    log.write_text(stamped(refused, refused, retry(1), refused, retry(1), retry(1), retry(1), ANSWER.format("200 OK")))
    with filled(log) as store:
        # Four retries, three refused answers: one attempt had no answer at all.
        found = store.run("select coalesce(http_status, 0), count(*) from attempts group by all order by 1")
        assert found == [(0, 1), (200, 1), (429, 3)]
        assert counts(store) == [(8, 5, 0, 0, 3)]


def test_a_last_refusal_without_a_retry_does_not_explain_a_much_later_one(tmp_path: Path) -> None:
    log = tmp_path / "sdk.log"
    log.write_text(stamped(ANSWER.format("503 Service Unavailable"), retry(1), step_ms=5000))
    with filled(log) as store:
        assert store.run("select http_status, outcome, attempt from attempts order by started_at") == [
            (503, "failed", None),
            (None, "failed", 1),
        ]


def test_with_several_requests_at_once_no_start_and_no_number_is_made_up(tmp_path: Path) -> None:
    log = tmp_path / "sdk.log"
    sending = "Sending HTTP Request: POST"
    two = (sending, sending, "HTTP Response: POST 200", "request_id: a", "HTTP Response: POST 200", "request_id: b")
    one = ("Building HTTP request: method=POST retries_taken=1", sending, "HTTP Response: POST 200", "request_id: c")
    log.write_text(stamped(*two, *one, *two))
    with filled(log) as store:
        found = store.run("select request_id, header_ms, attempt from attempts order by started_at, request_id")
        assert found == [("a", None, None), ("b", None, None), ("c", 10.0, 2), ("a", None, None), ("b", None, None)]


def test_request_options_are_never_kept(tmp_path: Path) -> None:
    log = tmp_path / "sdk.log"
    options = "Request options: {'json_data': {'messages': [{'content': 'private words'}]}}"
    log.write_text(stamped(options, ANSWER.format("200 OK"), "ValueError: private words", ANSWER.format("500 Oops")))
    with filled(log) as store:
        assert counts(store) == [(4, 2, 0, 0, 2)]
        assert "private" not in everything(store)


def test_lines_about_other_services_are_no_calls(tmp_path: Path) -> None:
    log = tmp_path / "sdk.log"
    other = 'HTTP Request: POST https://search.example/query "HTTP/1.1 200 OK"'
    log.write_text(stamped(other, ANSWER.format("200 OK"), ANSWER.format("200 OK").replace("POST", "GET")))
    with filled(log) as store:
        assert counts(store) == [(3, 1, 0, 0, 2)]


# --- HAR


def test_an_archive_gives_calls_and_keeps_nothing_of_headers_and_bodies(tmp_path: Path) -> None:
    def entry(url: str, **answer: Any) -> Row:
        secret = [{"name": "authorization", "value": "Bearer private"}]
        return {
            "startedDateTime": "2026-11-25T09:12:03.104Z",
            "time": 100,
            "request": {"method": "POST", "url": url, "headers": secret, "postData": {"text": "private words"}},
            "response": {"status": 200, "headers": secret, "content": {"text": "private words", "size": 9}, **answer},
            "timings": {"send": 1, "wait": 50, "receive": 49},
        }

    log = tmp_path / "session.har"
    entries = [entry("https://a.example/v1/messages?key=private"), entry("https://a.example/api/login")]
    log.write_text(json.dumps({"log": {"entries": entries, "pages": [{"title": "private"}]}}, indent=2))
    with filled(log) as store:
        assert counts(store) == [(2, 1, 0, 0, 1)]
        assert store.run("select route, header_ms, outcome from attempts") == [("/v1/messages", 51.0, "unknown")]
        assert "private" not in everything(store)


# --- exports of observability products


def test_a_generation_around_another_one_is_the_same_call(tmp_path: Path) -> None:
    def observation(number: int, kind: str, parent: str | None, name: str) -> dict[str, Any]:
        times = {"start_time": "2026-11-25 09:12:03.1", "end_time": "2026-11-25 09:12:04.1"}
        ids = {"id": f"o{number}", "trace_id": "t", "parent_observation_id": parent, "type": kind, "name": name}
        return {**ids, **times, "provided_model_name": "m", "usage_details": {"input": 3, "output": 1}}

    log = lines(
        tmp_path / "observations.jsonl",
        observation(1, "GENERATION", None, "framework"),
        observation(2, "GENERATION", "o1", "sdk"),
        observation(3, "TOOL", "o1", "search"),
        {**observation(4, "SPAN", None, "elsewhere"), "trace_id": "u"},
    )
    with filled(log) as store:
        assert store.run("select request_id, input_tokens from attempts") == [("o2", 3)]
        assert store.run("select name, parent from stages order by name") == [
            ("framework", None),
            ("tool", "framework"),
        ]
        assert counts(store) == [(4, 3, 0, 0, 1)]


def test_cells_of_a_csv_export_that_hold_json_are_read(tmp_path: Path) -> None:
    log = tmp_path / "observations.csv"
    log.write_text(
        "id,trace_id,type,start_time,end_time,provided_model_name,usage_details\n"
        'o1,t,GENERATION,2026-11-25 09:12:03.1,2026-11-25 09:12:04.1,m,"{""input"": 3, ""input_cached_tokens"": 4}"\n'
    )
    with filled(log) as store:
        assert detect(log).format is not None
        assert store.run("select input_tokens, cached_tokens, total_ms from attempts") == [(7, 4, 1000.0)]


def test_tokens_summed_up_on_a_chain_are_not_counted(tmp_path: Path) -> None:
    base = {
        "trace_id": "t",
        "dotted_order": "x",
        "start_time": "2026-11-25T09:12:03",
        "end_time": "2026-11-25T09:12:04",
    }
    told = {**base, "status": "success", "prompt_tokens": 5, "completion_tokens": 2}
    chain = {**told, "id": "c", "run_type": "chain", "parent_run_id": None, "name": "chain"}
    call = {**told, "id": "l", "run_type": "llm", "parent_run_id": "c", "name": "model"}
    with filled(lines(tmp_path / "runs.jsonl", chain, call)) as store:
        assert store.run("select request_id, input_tokens from attempts") == [("l", 5)]
        assert store.run("select name, duration_ms from stages") == [("chain", 1000.0)]
