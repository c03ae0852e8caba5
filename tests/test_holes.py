"""Logs that lack values: what follows from other records is filled in, and what is missing is never taken for none."""

from collections.abc import Callable, Mapping
from pathlib import Path

from llmdoctor import stats
from llmdoctor.ingest import read
from llmdoctor.store import Store
from tests.filled import filled

Row = Mapping[str, object]


def rows_of(count: int, *parts: Callable[[int], Mapping[str, object]]) -> list[Row]:
    return [
        {"at_s": 0.7 * n, "total_ms": 1000} | {k: v for part in parts for k, v in part(n).items()} for n in range(count)
    ]


def instance(n: int) -> Row:
    return {"instance": f"gpu-{n % 4}"}


def test_the_model_of_a_replica_is_known_where_a_record_leaves_it_out() -> None:
    model = lambda n: {"model": f"m-{n % 2}" if n % 5 != 3 else None}  # noqa: E731
    with filled(rows_of(200, instance, model)) as store:
        stats.prepare(store)
        assert store.run("select distinct instance, model from attempts order by 1") == [
            ("gpu-0", "m-0"),
            ("gpu-1", "m-1"),
            ("gpu-2", "m-0"),
            ("gpu-3", "m-1"),
        ]
        assert store.run("select note from inputs") == [("known from other records where it is left out: model (40)",)]


def test_nothing_is_filled_in_where_known_records_disagree() -> None:
    model = lambda n: {"model": f"m-{n % 7}" if n % 5 != 3 else None}  # noqa: E731
    with filled(rows_of(200, instance, model)) as store:
        stats.prepare(store)
        assert store.run("select count(*) from attempts where model is null") == [(40,)]


def test_neither_the_replica_of_a_call_nor_its_usage_is_ever_filled_in() -> None:
    lacking = lambda n: {"instance": "gpu-0", "output_tokens": 7} if n % 5 != 3 else {}  # noqa: E731
    with filled(rows_of(200, lambda _: {"task_id": "a", "model": "m"}, lacking)) as store:
        stats.prepare(store)
        assert store.run("select count(instance), count(output_tokens) from attempts") == [(160, 160)]


def test_a_column_that_few_records_have_stays_as_it_is() -> None:
    with filled(rows_of(200, instance, lambda n: {"region": "eu" if n % 5 == 3 else None})) as store:
        stats.prepare(store)
        assert store.run("select count(region) from attempts") == [(40,)]


def answer(n: int) -> Row:
    """20 ms a token, from 10 to 400 tokens, one after the other."""
    tokens = 10 + n * 7919 % 391
    return {"at_s": 10 * n, "model": "m", "input_tokens": 100, "output_tokens": tokens, "total_ms": 200.0 + 20 * tokens}


def test_answers_of_unknown_length_are_not_slow_and_no_line_follows_them() -> None:
    with filled(rows_of(500, answer, lambda n: {"output_tokens": None} if n % 5 == 3 else {})) as store:
        stats.prepare(store)
        found = "from expected e join attempts a using (attempt_id) where a.output_tokens is"
        assert store.run(f"select count(times), count(expected_total_ms) {found} null") == [(0, 0)]
        ((least, most),) = store.run(f"select min(times), max(times) {found} not null and a.output_tokens >= 40")
    assert 0.8 < least <= most < 1.25


def test_where_no_record_tells_its_tokens_every_answer_has_a_usual_time() -> None:
    with filled(rows_of(500, answer, lambda _: {"output_tokens": None})) as store:
        stats.prepare(store)
        assert store.run("select count(*), count(expected_total_ms) from expected") == [(500, 500)]


def sliced(n: int) -> Row:
    slow = n % 12 == 9
    return {"input_tokens": 100, "output_tokens": 100, "total_ms": 9000.0 if slow else 1000.0 + n * 7919 % 91}


def test_a_replica_that_is_missing_at_random_takes_nothing_from_the_guilty_one() -> None:
    holes = lambda n: {"instance": None} if n * 7919 % 5 == 3 else {}  # noqa: E731
    with filled(rows_of(600, instance, sliced, holes)) as store:
        stats.prepare(store)
        one = store.rows("select * from slices where value = 'gpu-1'")[0]
    assert (one["rows_in"] + one["rows_out"], one["bad_out"]) == (480, 0)
    assert one["explained_share"] > 0.95


def test_calls_that_reach_no_replica_because_they_fail_stay_in_the_comparison() -> None:
    failed = lambda n: {"outcome": "failed", "instance": None if n % 8 else "gpu-0"} if n % 4 == 0 else {}  # noqa: E731
    with filled(rows_of(600, instance, failed)) as store:
        stats.prepare(store)
        one = store.rows("select * from slices where kind = 'failed' and value = 'gpu-0'")[0]
    assert one["rows_in"] + one["rows_out"] == 600
    assert one["bad_out"] == 75


def test_who_has_a_first_token_is_streamed() -> None:
    asked = lambda n: {"stream": n % 2 == 0, "ttft_ms": 300 if n % 2 == 0 else None}  # noqa: E731
    with filled(rows_of(200, asked, lambda n: {"stream": None} if n % 5 == 3 else {})) as store:
        stats.prepare(store)
        assert store.run("select stream, count(*) from attempts group by 1 order by 1") == [
            (False, 80),
            (True, 100),
            (None, 20),
        ]


def test_the_engines_own_time_is_not_what_a_call_took(tmp_path: Path) -> None:
    parts = (
        '"started_at": "2026-03-01T10:00:00Z", "queue_ms": 10, "prefill_ms": 60, "decode_ms": 900, "http_status": 200'
    )
    seen = {"client": '"ttft_ms": 320, ', "engine": ""}
    lines = [f'{{"vantage": "{name}", "request_id": "{name}", {own}{parts}}}' for name, own in seen.items()]
    (tmp_path / "calls.jsonl").write_text("\n".join(lines))
    with Store() as store:
        store.create()
        read(store, [str(tmp_path)])
        found = store.run("select vantage, ttft_ms, total_ms from attempts order by vantage")
    assert found == [("client", 320.0, None), ("engine", 70.0, 970.0)]
