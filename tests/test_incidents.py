"""Small incidents as they really come: two vantages, gauges beside the log, callers who leave; some dozen rows each."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from tests.filled import START, filled

BOOK = rulebook.load()
Row = Mapping[str, Any]


def seen(found: Diagnosis) -> set[str]:
    return {one.id for one in found.present}


def causes(found: Diagnosis) -> dict[str, str]:
    """Each listed cause with the symptom under which it is shown, by rank."""
    return {one.id: one.symptom for one in found.causes}


def diagnosed(rows: Sequence[Row], gauges: Sequence[tuple[float, str, float]] = ()) -> Diagnosis:
    """`gauges` are (seconds since the start, name, value)."""
    with filled(rows) as store:
        store.insert(
            "engine_samples",
            ["input_id", "at", "name", "value"],
            [[1, START + timedelta(seconds=at_s), name, value] for at_s, name, value in gauges],
        )
        return diagnose(store, BOOK)


def cut_at_15_s(vantage: str) -> list[Row]:
    """Six answers that a proxy ended in the middle: the client sees a broken body, the proxy knows why."""
    told: Row = (
        {"outcome": "failed", "error_type": "connection_reset", "stream": True, "ttft_ms": 300.0}
        if vantage == "client"
        else {
            "outcome": "timeout",
            "error_type": "timeout",
            "error_origin": "proxy",
            "http_status": 200,
            "header_ms": 50.0,
        }
    )
    late = 1010 if vantage == "client" else 0  # the client hears of it later
    return [
        {**told, "at_s": 16 * index, "vantage": vantage, "total_ms": 15000.0 + late + index, "request_id": f"r{index}"}
        for index in range(6)
    ]


def test_a_proxy_that_cuts_is_named_wherever_it_was_seen() -> None:
    for vantages in (("client",), ("proxy",), ("client", "proxy")):
        found = diagnosed([row for vantage in vantages for row in cut_at_15_s(vantage)])
        assert "incomplete_streams" in seen(found)
        assert found.causes[0].id == "gateway_timeout"
        assert found.causes[0].score == (0.6 if vantages == ("client",) else 0.9)


def test_a_limit_that_a_proxy_set_is_not_put_down_to_the_callers() -> None:
    found = diagnosed(cut_at_15_s("proxy"))
    assert "client_timeouts" in seen(found)
    assert "client_timeout_short" not in causes(found)
    assert not any("give up" in one.title for one in found.present)


def test_a_caller_that_gives_up_at_its_own_limit_is_no_proxy() -> None:
    rows = [
        {"at_s": 10 * index, "total_ms": 8000.0 if index % 4 == 0 else 3000.0 + 90 * index, "stream": True,
         "outcome": "timeout" if index % 4 == 0 else "completed", "ttft_ms": 300.0}
        for index in range(40)
    ]  # fmt: skip
    found = diagnosed(rows)
    assert "client_timeout_short" in causes(found)
    assert "gateway_timeout" not in causes(found)
    assert "incomplete_streams" not in seen(found)


def test_a_504_is_an_error_at_the_proxy_that_sent_it() -> None:
    rows: list[Row] = [
        {"at_s": 61 * index, "vantage": "proxy", "http_status": 504 if index % 5 == 0 else 200,
         "outcome": "failed" if index % 5 == 0 else "completed", "error_type": "timeout" if index % 5 == 0 else None,
         "total_ms": 60001.0 + index if index % 5 == 0 else 2000.0 + 100 * index}
        for index in range(30)
    ]  # fmt: skip
    found = diagnosed(rows)
    assert [(one.subject, one.affected) for one in found.present if one.id == "errors"] == [("error_type=timeout", 6)]
    assert found.causes[0].id == "gateway_timeout"


def refused_from_a_queue() -> list[Row]:
    """24 requests at once on two slots of a proxy that holds them back; who waited 10 s is refused."""
    rows: list[Row] = []
    for index in range(24):
        queue_ms = index // 2 * 1240.0
        refused = queue_ms > 10000
        rows.append(
            {"at_s": index / 1000, "vantage": "proxy", "http_status": 503 if refused else 200,
             "outcome": "failed" if refused else "completed", "error_type": "overloaded" if refused else None,
             "error_origin": "proxy" if refused else None, "queue_ms": 10001.0 if refused else queue_ms,
             "header_ms": None if refused else 30.0, "total_ms": 10001.0 if refused else queue_ms + 1300}
        )  # fmt: skip
    return rows


def test_a_refusal_after_a_constant_wait_is_the_proxys_limit_and_the_wait_a_queue() -> None:
    found = diagnosed(refused_from_a_queue())
    assert causes(found) == {"gateway_timeout": "errors", "queueing": "long_queue"}


def test_a_caller_that_leaves_a_stream_is_no_fault_and_no_fast_answer() -> None:
    rows: list[Row] = [
        {"at_s": 5 * index, "stream": True, "ttft_ms": 400.0, "output_tokens": 5 if index % 2 else 150,
         "outcome": ("completed", "cancelled", "completed", "incomplete")[index % 4],
         "client_gone_at": (START + timedelta(seconds=5 * index + 1)).isoformat() if index % 4 == 3 else None,
         "total_ms": 500.0 if index % 2 else 3400.0}
        for index in range(60)
    ]  # fmt: skip
    found = diagnosed(rows)
    assert seen(found) == set()
    assert found.verdict.level == "healthy"


def test_a_queue_is_seen_in_the_gauges_alone() -> None:
    rows = [{"at_s": index, "stream": False, "total_ms": 9000.0} for index in range(16)]
    gauges = [(at / 4, name, value) for at in range(120) for name, value in (("running", 2.0), ("waiting", 14.0))]
    found = diagnosed(rows, gauges)
    assert causes(found)["queueing"] == "long_queue"
    queue = next(one for one in found.present if one.id == "long_queue")
    assert (queue.vantage, queue.affected, queue.observed) == ("engine", None, 29750.0)


def test_the_waiting_time_of_each_request_counts_before_the_gauges() -> None:
    rows = [{"at_s": index, "vantage": "engine", "queue_ms": 5.0, "total_ms": 900.0} for index in range(16)]
    gauges = [(at / 4, name, value) for at in range(120) for name, value in (("running", 2.0), ("waiting", 14.0))]
    assert "long_queue" not in seen(diagnosed(rows, gauges))


def test_without_a_waiting_time_and_gauges_a_queue_cannot_be_told() -> None:
    found = diagnosed([{"at_s": index, "total_ms": 900.0} for index in range(16)])
    queue = next(one for one in found.symptoms if one.id == "long_queue")
    assert (queue.state, queue.reason) == ("unknown", "no record has queue_ms or engine_samples")


def test_the_gaps_between_two_recordings_are_no_queue() -> None:
    rows = [{"at_s": index, "total_ms": 900.0} for index in range(16)]
    gauges = [(at, name, value) for at in (0.0, 1.0, 2.0) for name, value in (("running", 1.0), ("waiting", 3.0))]
    later = [(3600 + at, name, 0.0) for at in range(60) for name in ("running", "waiting")]
    assert "long_queue" not in seen(diagnosed(rows, [*gauges, (3.0, "waiting", 0.0), *later]))
