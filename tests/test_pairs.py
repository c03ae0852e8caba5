"""Two sides of one call: tries never multiply, each row is used once, and what is only guessed by time is called so."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmdoctor import pairs
from llmdoctor.ingest import read
from llmdoctor.store import Row, Store, package_sql
from tests.filled import filled

SAMPLES = Path(__file__).parents[1] / "sample_logs"
IDS = ("request_id", "response_id", "incoming_id", "trace_id", "task_id")

Rows = Sequence[Mapping[str, Any]]


@contextmanager
def joined(rows: Rows, threads: int | None = None) -> Iterator[list[Row]]:
    """The pairs of attempts that are named by `conversation_id`, which joins nothing."""
    with filled(rows, threads) as store:
        store.script(package_sql("derived/tables.sql"))
        pairs.join_vantages(store)
        yield store.rows(
            "select a.conversation_id as outer, b.conversation_id as inner, p.joined_by, p.vantage, p.partner_vantage,"
            " p.attempt_id, p.partner_id from pairs p join attempts a on a.attempt_id = p.attempt_id"
            " join attempts b on b.attempt_id = p.partner_id order by a.attempt_id, b.attempt_id"
        )


def names(rows: Rows, **options: Any) -> list[tuple[str, str]]:
    with joined(rows, **options) as found:
        return [(row["outer"], row["inner"]) for row in found]


def attempt(name: str, at_s: float, vantage: str = "client", **columns: Any) -> dict[str, Any]:
    return {"conversation_id": name, "at_s": at_s, "vantage": vantage, "total_ms": 900, **columns}


def tries(count: int, numbers: Sequence[int | None] = (None,) * 9) -> list[dict[str, Any]]:
    """Tries of one trace at client and gateway, 10 s apart, the gateway's 0.2 s later and shorter."""
    client = [attempt(f"c{n}", 10 * n, trace_id="t", attempt=numbers[n]) for n in range(count)]
    inner: dict[str, Any] = {"vantage": "gateway", "trace_id": "t", "total_ms": 500}
    return client + [attempt(f"g{n}", 10 * n + 0.2, **inner, attempt=n + 1) for n in range(count)]


@pytest.mark.parametrize("numbers", [(1, 2, 3), (None, None, None), (1, None, 3), (None, 2, None), (3, 2, 1)])
def test_three_tries_of_one_trace_on_both_sides_are_three_pairs(numbers: tuple[int | None, ...]) -> None:
    expected = [("c0", "g0"), ("c1", "g1"), ("c2", "g2")]
    if numbers == (3, 2, 1):  # both sides count the same tries: the numbers say which is which
        expected = [("c0", "g2"), ("c1", "g1"), ("c2", "g0")]
    assert names(tries(3, numbers)) == expected


def test_what_a_gateway_tried_again_itself_stays_unjoined() -> None:
    again = [attempt(f"again{n}", 10 * n + 0.8, vantage="gateway", trace_id="t", total_ms=100) for n in range(3)]
    assert names([*tries(3), *again]) == [("c0", "g0"), ("c1", "g1"), ("c2", "g2")]


def test_a_try_that_never_reached_the_gateway_takes_no_other_ones_partner() -> None:
    rows = [row for row in tries(3) if row["conversation_id"] != "g0"]
    assert names(rows) == [("c1", "g1"), ("c2", "g2")]


def test_parallel_calls_of_one_trace_are_taken_in_their_turn() -> None:
    client = [attempt(f"c{n}", n / 1000, trace_id="t") for n in range(4)]
    inner = [attempt(f"g{n}", 0.05 + n / 1000, vantage="gateway", trace_id="t", total_ms=700) for n in range(4)]
    assert names([*client, *inner]) == [(f"c{n}", f"g{n}") for n in range(4)]


def test_a_clock_that_is_behind_shifts_no_partner() -> None:
    # The gateway's clock is 4 s slow, as the calls with one try show: nearest by the clock alone is the wrong try.
    single = [attempt(f"c{n}", 100 * n, trace_id=f"s{n}") for n in range(1, 9)]
    single += [attempt(f"g{n}", 100 * n - 4, vantage="gateway", trace_id=f"s{n}", total_ms=500) for n in range(1, 9)]
    retried = [attempt(f"c-{n}", 5 * n, trace_id="t") for n in range(4)]
    retried += [attempt(f"g-{n}", 5 * n - 4, vantage="gateway", trace_id="t", total_ms=500) for n in range(1, 4)]
    found = [pair for pair in names([*single, *retried]) if "-" in pair[0]]
    assert found == [("c-1", "g-1"), ("c-2", "g-2"), ("c-3", "g-3")]


def test_the_answers_id_counts_before_the_trace() -> None:
    rows = [
        attempt("c", 0, response_id="r", trace_id="t"),
        attempt("near", 0.1, vantage="gateway", trace_id="t"),
        attempt("far", 5, vantage="gateway", trace_id="t", response_id="r"),
    ]
    with joined(rows) as found:
        assert [(row["outer"], row["inner"], row["joined_by"]) for row in found] == [("c", "far", "id")]


def test_an_id_that_stands_on_hundreds_of_rows_is_no_request() -> None:
    many = [attempt(f"{side}{n}", n, vantage=side, trace_id="-") for side in ("client", "gateway") for n in range(300)]
    assert names([row | {"total_ms": None} for row in many]) == []


ROW = st.fixed_dictionaries(
    {
        "vantage": st.sampled_from(["client", "gateway", "proxy", "engine"]),
        "at_s": st.integers(0, 8),
        "total_ms": st.sampled_from([None, 0, 500, 900, 5000]),
        "attempt": st.sampled_from([None, 1, 2, 3]),
        **{name: st.sampled_from([None, None, "x", "y"]) for name in IDS},
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROW, max_size=24))
def test_each_row_is_used_once_whatever_the_ids(rows: list[dict[str, Any]]) -> None:
    named = [row | {"conversation_id": str(number)} for number, row in enumerate(rows)]
    with joined(named) as found:
        inner = Counter((row["partner_id"], row["vantage"]) for row in found)
        outer = Counter((row["attempt_id"], row["partner_vantage"]) for row in found)
    assert all(count == 1 for count in (*inner.values(), *outer.values()))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 30), max_size=9), st.lists(st.integers(0, 30), max_size=9))
def test_of_one_trace_as_many_are_joined_as_the_smaller_side_has(client: list[int], gateway: list[int]) -> None:
    rows = [attempt(f"c{n}", at, trace_id="t") for n, at in enumerate(client)]
    rows += [attempt(f"g{n}", at, vantage="gateway", trace_id="t") for n, at in enumerate(gateway)]
    assert len(names(rows)) == min(len(client), len(gateway))


def test_threads_change_no_pair() -> None:
    draw = random.Random(7)
    rows = [
        attempt(f"{side}{n}", draw.randrange(40), vantage=side, trace_id=f"t{draw.randrange(12)}")
        for side in ("client", "gateway")
        for n in range(60)
    ]
    assert names(rows, threads=1) == names(rows, threads=2)


# --- by time


def traffic(count: int, shift_s: float = 0, **inner: Any) -> list[dict[str, Any]]:
    """Calls at irregular times, seen by a client and by an engine that shares no id with it."""
    draw, clock, rows = random.Random(3), 0.0, []
    for n in range(count):
        clock += draw.expovariate(0.5) + 0.05
        took = draw.uniform(300, 1500)
        tokens: dict[str, Any] = {"input_tokens": draw.randrange(4000)}
        rows.append(attempt(f"c{n}", clock, total_ms=took, **tokens))
        late = clock + 0.03 + shift_s
        rows.append(attempt(f"e{n}", late, vantage="engine", total_ms=took - 50, **tokens, **inner))
    return rows


def test_without_any_id_rows_that_fit_no_other_are_joined_by_time() -> None:
    with joined(traffic(40)) as found:
        assert {row["joined_by"] for row in found} == {"time"}
        assert [row["outer"][1:] for row in found] == [row["inner"][1:] for row in found]
        assert len(found) == 40


def test_what_fits_two_is_joined_to_none() -> None:
    alone = attempt("c", 0), attempt("e", 0.1, vantage="engine", total_ms=500)
    assert names(alone) == [("c", "e")]
    assert names([*alone, attempt("c2", 0.01)]) == []
    assert names([*alone, attempt("e2", 0.12, vantage="engine", total_ms=400)]) == []


@pytest.mark.parametrize("column", [{"model": "other"}, {"stream": False}, {"input_tokens": 5}, {"output_tokens": 5}])
def test_rows_that_differ_are_not_joined_by_time(column: dict[str, Any]) -> None:
    outer = attempt("c", 0, model="openai/m", stream=True, input_tokens=4, output_tokens=4)
    inner = attempt("e", 0.1, vantage="engine", total_ms=500, model="M")
    assert names([outer, inner]) == [("c", "e")]
    assert names([outer, inner | column]) == []


def test_an_inner_attempt_that_outlives_its_caller_is_not_guessed() -> None:
    assert names([attempt("c", 0), attempt("e", 0.1, vantage="engine", total_ms=5000)]) == []


def test_clocks_that_are_hours_apart_are_put_right_where_it_is_clear() -> None:
    with joined(traffic(40, shift_s=7200.4)) as found:
        assert [row["outer"][1:] for row in found] == [row["inner"][1:] for row in found]
        assert len(found) > 30
    few = traffic(5, shift_s=7200.4)
    assert names(few) == []


def test_a_log_of_other_traffic_is_not_joined_by_chance() -> None:
    draw = random.Random(5)
    client = [attempt(f"c{n}", draw.uniform(0, 300), total_ms=draw.uniform(500, 9000)) for n in range(200)]
    engine = [
        attempt(f"e{n}", draw.uniform(0, 300), vantage="engine", total_ms=draw.uniform(100, 2000)) for n in range(200)
    ]
    assert names([*client, *engine]) == []


def test_where_any_id_joined_the_two_vantages_time_joins_nothing_more() -> None:
    rows = traffic(20)
    for row in rows[:2]:
        row["trace_id"] = "same"
    with joined(rows) as found:
        assert [row["joined_by"] for row in found] == ["trace"]


@pytest.mark.parametrize("folder", [path.name for path in sorted(SAMPLES.iterdir())])
def test_what_time_joins_in_real_logs_is_what_their_ids_join(folder: str) -> None:
    with Store() as store:
        store.create()
        read(store, [str(SAMPLES / folder)])
        store.script("create table whole_rows as select * from attempts")
        store.script(package_sql("derived/tables.sql"))
        pairs.join_vantages(store)
        by_id = set(store.run("select attempt_id, partner_id from pairs"))
        blank = ", ".join(f"cast(null as varchar) as {name}" for name in IDS)
        kind = store.run("select table_type from information_schema.tables where table_name = 'attempts'")[0][0]
        store.script(f"drop {'view' if kind == 'VIEW' else 'table'} attempts; delete from pairs")
        store.script(f"create view attempts as select * replace ({blank}) from whole_rows")
        pairs.join_vantages(store)
        by_time = set(store.run("select attempt_id, partner_id from pairs"))
    assert by_time <= by_id


def test_strangers_are_vantages_that_share_no_id_on_any_way() -> None:
    rows = [
        attempt("c", 0, request_id="1"),
        attempt("g", 0.1, vantage="gateway", incoming_id="1", request_id="2"),
        attempt("e", 0.2, vantage="engine", incoming_id="2"),
        attempt("p", 0.1, vantage="proxy"),
    ]
    with filled(rows) as store:
        store.script(package_sql("derived/tables.sql"))
        pairs.join_vantages(store)
        assert pairs.strangers(store) == [("client", "proxy"), ("gateway", "proxy"), ("proxy", "engine")]


def test_two_callers_are_not_on_one_way() -> None:
    rows = [attempt("c", 0), attempt("b", 0.1, vantage="bench", total_ms=500)]
    assert names(rows) == []
    with filled(rows) as store:
        store.script(package_sql("derived/tables.sql"))
        assert pairs.strangers(store) == []
