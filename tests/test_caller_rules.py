"""What callers do to themselves, as it comes in real folders: both sides of a call in files of their own, and next to
nothing. The examples of the pages show the rest."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.ingest import read
from llmdoctor.store import Store
from tests.filled import filled

BOOK = rulebook.load()
Row = dict[str, Any]


def seen(found: Diagnosis) -> dict[str, tuple[float | None, int | None]]:
    """Present symptoms with what was observed and how many attempts are affected."""
    return {one.id: (one.observed, one.affected) for one in found.present}


def causes(found: Diagnosis) -> dict[str, float]:
    return {one.id: one.confidence for one in found.causes}


def diagnosed(rows: Sequence[Row]) -> Diagnosis:
    with filled(rows) as store:
        return diagnose(store, BOOK)


def read_files(folder: Path, files: Mapping[str, Sequence[Row]]) -> Diagnosis:
    """The diagnosis of real files: each a list of records, written one a line."""
    for name, rows in files.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Store() as store:
        store.create()
        read(store, [str(folder / name) for name in files])
        return diagnose(store, BOOK)


# --- two layers that retry


def outage(waits_ms: Sequence[float]) -> list[Row]:
    """Eighteen tasks fail until their last try, each wait up to 15 % longer or shorter; ninety succeed at once."""
    rows: list[Row] = [{"at_s": 3 + 4.7 * number, "task_id": f"u{number}", "total_ms": 1500.0} for number in range(90)]
    for task in range(18):
        at_s = 23.0 * task
        for attempt in range(len(waits_ms) + 1):
            row = {"at_s": at_s, "task_id": f"t{task}", "attempt": attempt + 1}
            if attempt < len(waits_ms):
                row |= {"outcome": "failed", "http_status": 503, "error_type": "overloaded", "total_ms": 40.0}
                at_s += 0.04 + waits_ms[attempt] * (0.85 + (task * 7 + attempt * 5) % 16 / 50) / 1e3
            rows.append({"outcome": "completed", "http_status": 200, "total_ms": 2100.0} | row)
    return rows


@pytest.mark.parametrize(
    ("waits_ms", "nested"),
    [
        ((300, 550, 5600), True),
        ((300, 550, 5600, 300), True),
        ((300, 550, 1100), False),
        ((300, 1200, 4800), False),
        ((300, 300, 300), False),
    ],
)
def test_the_outer_layer_shows_in_its_first_wait_where_few_calls_need_a_second_one(
    waits_ms: tuple[float, ...], nested: bool
) -> None:
    assert ("nested_retries" in causes(diagnosed(outage(waits_ms)))) is nested


# --- batch work all along


@pytest.mark.parametrize(("operation", "named"), [("batch", True), ("chat", False)])
def test_batch_work_that_never_stops_is_a_hint_where_most_of_the_work_is_its_own(operation: str, named: bool) -> None:
    rows: list[Row] = []
    for number in range(400):
        wait_ms = 300.0 if number < 60 else 300.0 + 40 * (number - 60)
        tokens = 40 + number * 7 % 30 if number % 2 else 160 + number * 11 % 60
        row = {"at_s": 1.5 * number, "stream": True, "output_tokens": tokens, "input_tokens": 400, "model": "m"}
        row |= {"ttft_ms": wait_ms, "total_ms": wait_ms + 20 * tokens}
        rows.append(row | {"operation": "chat" if number % 2 else operation})
    assert ("batch_crowds_out_online" in causes(diagnosed(rows))) is named


# --- submitted again after a timeout


def given_up(finishes: bool) -> tuple[list[Row], list[Row]]:
    """Long jobs, given up after 60 s and submitted again, among quick ones: the caller's rows, the gateway's."""
    client: list[Row] = []
    gateway: list[Row] = []
    for job in range(5):
        for number in range(4):
            start, name = 400.0 * job + (0, 61.2, 123.4, 187.6)[number], f"j{job}-{number}"
            client.append(
                {
                    "at_s": start,
                    "request_id": name,
                    "task_id": f"j{job}",
                    "attempt": number + 1,
                    "prompt_hash": f"j{job}",
                    "total_ms": 60100.0 + number,
                    "outcome": "timeout",
                }
            )
            gateway.append(
                {
                    "at_s": start + 0.01,
                    "request_id": name,
                    "vantage": "gateway",
                    "outcome": "completed" if finishes else "cancelled",
                    "total_ms": 85000.0 + 13 * job if finishes else 60200.0,
                    "output_tokens": 2000 if finishes else 40,
                }
            )
    for quick in range(120):
        took = 8000.0 + 70 * (quick * 37 % 97)
        client.append(
            {
                "at_s": 16.0 * quick,
                "request_id": f"q{quick}",
                "task_id": f"q{quick}",
                "attempt": 1,
                "prompt_hash": f"q{quick}",
                "total_ms": took,
            }
        )
        gateway.append(
            {
                "at_s": 16.0 * quick + 0.01,
                "request_id": f"q{quick}",
                "vantage": "gateway",
                "total_ms": took - 30,
                "output_tokens": 200,
            }
        )
    return client, gateway


def test_jobs_that_time_out_and_come_again_are_paid_each_time_though_the_caller_logs_no_tokens() -> None:
    client, gateway = given_up(finishes=True)
    found = diagnosed([*client, *gateway])
    share, affected = seen(found)["wasted_spend"]
    assert affected == 20
    assert share == pytest.approx(20 * 2000 / (20 * 2000 + 120 * 200), rel=1e-5)
    assert seen(found)["duplicate_work"][1] == 15
    assert causes(found)["timeout_resubmission"] >= 0.7
    assert found.causes[0].id == "timeout_resubmission"


def test_streams_that_are_cut_on_their_way_and_asked_again_are_a_limit_too_short() -> None:
    client, gateway = given_up(finishes=True)
    whole = diagnosed([row | {"stream": False} for row in client] + gateway)
    streamed = diagnosed([row | {"stream": True, "ttft_ms": 900.0} for row in client] + gateway)
    assert (whole.causes[0].id, streamed.causes[0].id) == ("timeout_resubmission", "client_timeout_short")


def test_where_the_server_stops_the_resubmission_wastes_little() -> None:
    client, gateway = given_up(finishes=False)
    found = diagnosed([*client, *gateway])
    assert seen(found)["wasted_spend"][0] == pytest.approx(20 * 40 / (20 * 40 + 120 * 200), rel=1e-5)
    assert "duplicate_work" not in seen(found)
    assert causes(found).get("timeout_resubmission", 0) < 0.5
    assert "cancel_not_propagated" not in causes(found)


def test_what_calls_cost_that_were_given_up_is_unknown_without_the_other_side() -> None:
    client, _ = given_up(finishes=True)
    rows = [row | {"output_tokens": 200} if row.get("outcome") != "timeout" else row for row in client]
    wasted = next(one for one in diagnosed(rows).symptoms if one.id == "wasted_spend")
    assert (wasted.state, wasted.reason) == ("unknown", "not decidable")


# --- one call, several upstream


def nginx(number: int, tries: int) -> Row:
    """A line of nginx in JSON, with lists where several servers were tried."""
    addresses = ", ".join(f"10.0.7.{place}:8000" for place in range(11, 11 + tries))
    states = ", ".join([*["504"] * (tries - 1), "200"])
    times = ", ".join([*["5.001"] * (tries - 1), "1.402"])
    return {
        "time_iso8601": f"2026-03-01T10:{number // 6:02d}:{number % 6 * 10:02d}+00:00",
        "request_id": f"r{number}",
        "uri": "/v1/chat/completions",
        "status": 200,
        "request_time": f"{5.001 * (tries - 1) + 1.403:.3f}",
        "upstream_addr": addresses,
        "upstream_status": states,
        "upstream_response_time": times,
        "completion": "OK",
    }


def test_a_proxy_that_tries_again_is_named_behind_a_caller_that_sent_one_call(tmp_path: Path) -> None:
    tries = [3 if number % 2 else 1 for number in range(40)]
    proxy = [nginx(number, tries[number]) for number in range(40)]
    client = [
        {
            "request_id": f"r{number}",
            "task_id": f"t{number}",
            "attempt": 1,
            "vantage": "client",
            "outcome": "completed",
            "started_at": f"2026-03-01T09:{59 if number == 0 else number // 6:02d}:{number % 6 * 10:02d}Z",
            "total_ms": 5001.0 * (tries[number] - 1) + 1420,
        }
        for number in range(40)
    ]
    found = read_files(tmp_path, {"client.jsonl": client, "nginx.log": proxy})
    assert seen(found)["retry_storm"] == (1.0, 28)
    assert causes(found)["proxy_retry"] >= 0.7
    assert found.causes[0].id == "proxy_retry"


def test_a_proxy_with_single_tries_is_not_blamed_for_its_callers_retries(tmp_path: Path) -> None:
    client = [
        {
            "request_id": f"r{number}",
            "task_id": f"t{number // 2}",
            "attempt": number % 2 + 1,
            "vantage": "client",
            "started_at": f"2026-03-01T10:{number // 6:02d}:{number % 6 * 10:02d}Z",
            "total_ms": 1420.0,
            "outcome": "completed" if number % 2 else "failed",
        }
        for number in range(40)
    ]
    found = read_files(tmp_path, {"client.jsonl": client, "nginx.log": [nginx(number, 1) for number in range(40)]})
    assert "retry_storm" in seen(found)
    assert "proxy_retry" not in causes(found)


# --- the same request again


def asked(prompts: Sequence[str], every_s: float, **columns: Any) -> list[Row]:
    return [
        {"at_s": every_s * place, "prompt_hash": prompt, "caller": "web", "total_ms": 900.0, **columns}
        for place, prompt in enumerate(prompts)
    ]


def test_samples_that_a_pool_of_two_takes_in_turn_are_no_repeats() -> None:
    rows = [
        {
            "at_s": 20.0 * group + 0.9 * (sample // 2) + 0.4 * (sample % 2),
            "prompt_hash": f"p{group}",
            "caller": "web",
            "total_ms": 850.0,
        }
        for group in range(20)
        for sample in range(6)
    ]
    assert "duplicate_work" not in seen(diagnosed(rows))


def test_a_question_that_many_people_ask_is_no_duplicate() -> None:
    prompts = ["hello" if place % 6 == 0 else f"p{place}" for place in range(120)]
    assert "duplicate_work" not in seen(diagnosed(asked(prompts, 20.0)))


def test_a_list_that_is_run_twice_is_one_even_without_a_batch_id() -> None:
    prompts = [f"p{place}" for place in range(30)]
    first = [
        row | {"outcome": "failed", "http_status": 500} if place % 9 == 4 else row
        for place, row in enumerate(asked(prompts, 3.0))
    ]
    second = [row | {"at_s": row["at_s"] + 3600} for row in asked(prompts, 3.0)]
    found = diagnosed([*first, *second])
    assert seen(found)["duplicate_work"][1] == 27
    assert causes(found)["batch_replay"] >= 0.8
    assert "retry_of_success" not in causes(found)


def test_answers_of_a_cache_and_embeddings_are_not_paid_twice() -> None:
    prompts = [f"p{place // 2}" for place in range(40)]
    for columns in ({"cache_hit": True}, {"operation": "embeddings"}):
        assert "duplicate_work" not in seen(diagnosed(asked(prompts, 3.0, **columns)))


# --- callers who leave


def left(went_on_ms: float, stream: bool) -> list[Row]:
    """Users who leave after two seconds, in the server's own log: it notes when they were gone."""
    return [
        {
            "at_s": 5.0 * place,
            "vantage": "engine",
            "stream": stream,
            "outcome": "completed" if went_on_ms > 1000 else "cancelled",
            "client_gone_at": f"2026-01-05T00:00:{5 * place % 60 + 2:02d}+00:00" if place < 12 else None,
            "total_ms": 2000 + went_on_ms,
            "output_tokens": 200 if went_on_ms > 1000 else 60,
        }
        if place % 2 and place < 12
        else {"at_s": 5.0 * place, "vantage": "engine", "stream": stream, "total_ms": 6000.0, "output_tokens": 200}
        for place in range(24)
    ]


def test_a_server_that_writes_on_for_callers_who_left_is_named() -> None:
    found = diagnosed(left(went_on_ms=4000, stream=True))
    assert seen(found)["wasted_spend"][1] == 6
    assert found.causes[0].id == "cancel_not_propagated"


def test_a_server_that_stops_when_its_caller_leaves_wastes_nothing() -> None:
    assert "wasted_spend" not in seen(diagnosed(left(went_on_ms=30, stream=True)))


# --- usage and emptiness


def test_streams_without_usage_beside_plain_calls_with_it_did_not_ask() -> None:
    rows = [
        {
            "at_s": 4.0 * place,
            "stream": place % 2 == 0,
            "ttft_ms": 300.0 if place % 2 == 0 else None,
            "total_ms": 2000.0,
            "output_tokens": None if place % 2 == 0 else 90,
        }
        for place in range(12)
    ]
    found = diagnosed(rows)
    assert seen(found)["missing_usage"] == (1.0, 6)
    assert found.causes[0].id == "usage_not_requested"
    assert found.verdict.level == "attention"


def test_a_budget_that_is_used_up_by_reasoning_leaves_an_empty_answer() -> None:
    rows = [
        {
            "at_s": 9.0 * place,
            "total_ms": 6000.0,
            "output_tokens": 1024,
            "reasoning_tokens": 1024 if place % 4 == 0 else 500,
            "finish_reason": "length" if place % 4 == 0 else "stop",
        }
        for place in range(16)
    ]
    assert seen(diagnosed(rows))["empty_output"] == (0.25, 4)


def test_a_log_that_never_says_what_came_cannot_show_empty_answers() -> None:
    found = diagnosed([{"at_s": 9.0 * place, "total_ms": 6000.0} for place in range(16)])
    empty = next(one for one in found.symptoms if one.id == "empty_output")
    assert empty.state == "unknown"


# --- the wait that a refusal asks for


@pytest.mark.parametrize(("waits_s", "named"), [((0.6, 1.3), True), ((8.01, 8.2), False)])
def test_a_wait_that_was_asked_for_is_kept_or_not(waits_s: tuple[float, float], named: bool) -> None:
    rows: list[Row] = []
    for task in range(12):
        start = 20.0 * task
        for number in range(3):
            refused = number < 2
            rows.append(
                {
                    "at_s": start,
                    "task_id": f"t{task}",
                    "attempt": number + 1,
                    "total_ms": 15.0 if refused else 1800.0,
                    "outcome": "rate_limited" if refused else "completed",
                    "http_status": 429 if refused else 200,
                    "error_type": "rate_limit" if refused else None,
                    "retry_after_ms": 8000.0 if refused else None,
                }
            )
            start += 0.015 + waits_s[number % 2]
    found = causes(diagnosed(rows))
    assert ("retry_after_ignored" in found) is named
    assert "retry_without_backoff" not in found or named


# --- a pool at the caller, or a queue at a proxy


def held(where: str) -> list[Row]:
    """Bursts of 16 calls of which 4 run at a time: the others wait at the caller, or in a proxy whose log is there."""
    rows: list[Row] = []
    for number in range(160):
        burst, place = divmod(number, 16)
        took_s = 2.0 + 0.13 * (place % 4)
        at_s, wait_s = 40.0 * burst + 0.003 * place, place // 4 * (took_s + 0.003)
        rows.append(
            {
                "at_s": at_s,
                "request_id": f"r{number}",
                "stream": True,
                "ttft_ms": 1000 * wait_s + 310,
                "total_ms": 1000 * (wait_s + took_s) + 20,
                "output_tokens": 90,
                "input_tokens": 300,
            }
        )
        rows.append(
            {
                "at_s": at_s + wait_s + 0.01,
                "request_id": f"r{number}",
                "vantage": "engine",
                "stream": True,
                "ttft_ms": 300.0,
                "total_ms": 1000 * took_s,
                "output_tokens": 90,
                "input_tokens": 300,
            }
        )
        if where == "proxy":
            rows.append(
                {
                    "at_s": at_s + 0.005,
                    "request_id": f"r{number}",
                    "vantage": "proxy",
                    "total_ms": 1000 * (wait_s + took_s) + 10,
                    "queue_ms": 1000 * wait_s,
                    "http_status": 200,
                }
            )
    for number in range(60):
        for vantage, took in (("client", 2110.0), ("engine", 2090.0)):
            rows.append(
                {
                    "at_s": 500 + 4.0 * number,
                    "request_id": f"s{number}",
                    "vantage": vantage,
                    "stream": True,
                    "ttft_ms": 300.0,
                    "total_ms": took,
                    "output_tokens": 90,
                    "input_tokens": 300,
                }
            )
    return rows


def test_calls_that_wait_inside_their_caller_show_a_pool() -> None:
    found = diagnosed(held("caller"))
    assert "high_ttft" in seen(found)
    assert found.causes[0].id == "connection_pool_limit"


def test_calls_that_wait_in_a_proxy_show_none() -> None:
    found = diagnosed(held("proxy"))
    assert "high_ttft" in seen(found)
    assert "connection_pool_limit" not in causes(found)


def test_what_is_shown_of_a_storm_and_how_many_it_hits_are_of_the_same_stretch() -> None:
    """80 tasks, the last 20 of which are tried twice: 0.25 retries each over the log, one each in its worst stretch."""

    def storm(every: int) -> list[Row]:
        return [
            {"at_s": 2 * task + number, "task_id": f"t{task}", "attempt": number + 1, "total_ms": 500,
             "outcome": "failed" if number < again(task, every) else "completed"}
            for task in range(80)
            for number in range(again(task, every) + 1)
        ]  # fmt: skip

    def again(task: int, every: int) -> int:
        return int(task >= 60 or task % every == 0)

    assert seen(diagnosed(storm(1000)))["retry_storm"] == (1.0, 10)
    assert seen(diagnosed(storm(5)))["retry_storm"] == (0.4, 8)
