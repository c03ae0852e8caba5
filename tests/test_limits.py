"""What the log itself suggests: calls at a time, retries, the length of an answer; and what it does not tell."""

from collections.abc import Mapping, Sequence
from typing import Any

from llmdoctor import rulebook
from llmdoctor.diagnose import diagnose
from llmdoctor.diagnose.replay import Queue
from llmdoctor.diagnose.values import Advice
from tests.filled import filled
from tests.test_replay import busy

BOOK = rulebook.load()


def _limits(rows: Sequence[Mapping[str, Any]]) -> dict[str, Advice]:
    with filled(rows) as store:
        return {one.kind: one for one in diagnose(store, BOOK).limits}


def _answers(lengths: Sequence[int], **fields: Any) -> list[dict[str, Any]]:
    return [
        {"at_s": 0.001 * (20_000.0 * place), "total_ms": 500.0, "output_tokens": tokens, "model": "m"} | fields
        for place, tokens in enumerate(lengths)
    ]


def test_a_queue_shows_how_many_calls_at_a_time_are_well() -> None:
    """Two hundred calls alone, then bursts of ten on two places: from three on they wait."""
    rows = [{"at_s": 0.001 * (10_000.0 * place), "total_ms": 1000.0, "output_tokens": 50} for place in range(200)]
    for burst in range(60):
        base = 2_000_000.0 + 30_000 * burst
        rows += [
            {"at_s": 0.001 * (base + place), "total_ms": 1000.0 * (1 + place // 2), "output_tokens": 50}
            for place in range(10)
        ]
    found = _limits(rows)["concurrency"]
    assert found.value in (2.0, 3.0)
    assert found.text.startswith(f"Up to {found.value:.0f} calls at a time the typical one takes 1.0 times")
    assert not found.estimate


def test_a_service_that_load_does_not_slow_shows_no_limit() -> None:
    rows = [
        {"at_s": 0.001 * (30_000.0 * burst + place), "total_ms": 1000.0 + place, "output_tokens": 50}
        for burst in range(60)
        for place in range(10)
    ]
    found = _limits(rows)["concurrency"]
    assert found.value is None
    assert "No limit is seen: with up to 10 calls at a time" in found.text


def test_a_cap_is_advised_from_the_answers_that_ended_by_themselves() -> None:
    found = _limits(_answers([100] * 380 + [120] * 10 + [8000] * 10, finish_reason="stop") + [
        row | {"finish_reason": "length"} for row in _answers([8192] * 8)
    ])["max_tokens"]  # fmt: skip
    assert found.value == 11_000, "8000 tokens came by themselves in more than one of a hundred"
    found = _limits(_answers([100] * 390 + [120] * 10, finish_reason="stop") + [
        row | {"finish_reason": "length", "max_tokens": 8192} for row in _answers([8192] * 8)
    ])["max_tokens"]  # fmt: skip
    assert found.value == 160
    assert "asked for is mostly no cap" in found.text
    assert "A cap of 160 cuts 1.96 % of them, which hold 62 % of all output tokens" in found.text


def test_where_many_answers_are_cut_or_the_cap_is_near_nothing_is_advised() -> None:
    assert "max_tokens" not in _limits(_answers([100] * 360 + [200] * 40, max_tokens=200))
    assert "max_tokens" not in _limits(_answers([100] * 400, max_tokens=200))
    assert "max_tokens" not in _limits(_answers([100] * 60))


def test_a_budget_for_retries_tells_what_it_lets_through() -> None:
    rows = []
    for task in range(40):
        for attempt in range(1, 4):
            ended = "completed" if attempt == 3 and task % 2 else "failed"
            moment = {"at_s": task + 0.1 * attempt, "total_ms": 50.0, "caller": "web"}
            status = 200 if ended == "completed" else 503
            rows.append({"task_id": f"t{task}", "attempt": attempt, "outcome": ended, "http_status": status} | moment)
    found = _limits(rows)["retries"]
    assert "80 retries beside 40 first tries (200 %), 20 of them successful" in found.text
    assert "one retry at least, lets 4 through" in found.text


def test_a_log_without_retries_and_a_probe_get_none() -> None:
    assert "retries" not in _limits(_answers([100] * 100))
    assert _limits([row | {"vantage": "probe", "hop": "direct"} for row in _answers([100] * 100)]) == {}


def test_the_tail_without_the_longest_is_told_as_an_estimate_of_the_queue() -> None:
    """Ten hours alone give the quiet times; then four places, 0.9 busy, and one call in a hundred that takes 40 s."""
    calls = busy(4, 0.8)
    rows = []
    for place, tokens in enumerate((50, 4000) * 150):
        rows.append({"at_s": 0.001 * (90_000.0 * place), "total_ms": 1000.0 if tokens == 50 else 40_000.0,
                     "output_tokens": tokens, "ttft_ms": 200.0})  # fmt: skip
    start = 90_000.0 * 300
    long = [place % 100 == 50 for place in range(len(calls))]
    made = [type(call)(start + call.at_ms, 40_000.0 if is_long else 1000.0, call.patience_ms, False)
            for call, is_long in zip(calls, long, strict=True)]  # fmt: skip
    for call, is_long, took in zip(made, long, Queue(4, False).times_ms(made), strict=True):
        rows.append({"at_s": 0.001 * (call.at_ms), "total_ms": took, "ttft_ms": took - call.work_ms + 200.0,
                     "output_tokens": 4000 if is_long else 50})  # fmt: skip
    found = _limits(rows)["without_longest"]
    assert found.estimate
    assert found.unit == "ms"
    assert found.value is not None
    short = [call for call, is_long in zip(made, long, strict=True) if not is_long]
    truth = sorted(Queue(4, False).times_ms(short))[int(0.99 * len(short)) - 1]
    assert truth / 1.3 <= found.value <= truth * 1.3
