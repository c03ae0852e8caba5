"""Quantiles that are real requests, cut attempts that stay in, slices that stand out only where they do, walls."""

import math
import random

import polars as pl
import pytest

from llmdoctor import stats
from tests.filled import filled


def series(*values: float) -> pl.Series:
    return pl.Series("t", values, dtype=pl.Float64)


def uncut(values: pl.Series) -> pl.Series:
    return pl.Series("cut", [False] * len(values))


def test_a_quantile_is_the_value_at_rank_ceil_q_n() -> None:
    draw = random.Random(1)
    for n in (6, 7, 99, 100, 101, 1000):
        values = [draw.random() for _ in range(n)]
        expected = sorted(values)[math.ceil(0.5 * n) - 1]
        assert stats.quantile(series(*values), uncut(series(*values)), 0.5).value == expected


@pytest.mark.parametrize(("q", "least"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_too_few_rows_have_no_quantile(q: float, least: int) -> None:
    values = series(*range(least))
    assert stats.quantile(values, uncut(values), q).value is not None
    fewer = values.head(least - 1)
    assert stats.quantile(fewer, uncut(fewer), q) == stats.Quantile(None, None, None)


def test_the_interval_of_a_median_of_100_runs_from_rank_40_to_61() -> None:
    # The textbook distribution-free interval (binomial, at least 95 %).
    assert stats.interval_ranks(100, 0.5) == (40, 61)


def test_the_interval_covers_the_true_quantile_in_about_95_of_100_samples() -> None:
    draw = random.Random(3)
    truth = math.exp(1.6448536269514722)  # P95 of a lognormal with sigma 1
    hits = 0
    for _ in range(200):
        values = sorted(math.exp(draw.gauss(0, 1)) for _ in range(400))
        low, high = stats.interval_ranks(400, 0.95)
        hits += values[low - 1] <= truth <= values[high - 1]
    assert 180 <= hits <= 200


def test_attempts_that_were_cut_count_as_at_least() -> None:
    # Freireich's 6-MP arm, the standard Kaplan-Meier example: the median remission is 23 weeks.
    weeks = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    censored = [0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
    found = stats.quantile(series(*weeks), pl.Series("cut", [bool(flag) for flag in censored]), 0.5)
    assert found.value == 23


def test_a_quantile_above_the_cut_is_open_instead_of_invented() -> None:
    values = series(*range(100))
    cut = pl.Series("cut", [value >= 60 for value in range(100)])
    assert stats.quantile(values, cut, 0.5).value == 49
    assert stats.quantile(values, cut, 0.95).value is None


def test_dropping_timeouts_would_hide_the_tail_and_we_do_not() -> None:
    draw = random.Random(5)
    true = [1000 * math.exp(draw.gauss(1, 0.8)) for _ in range(4000)]
    limits = [6000 if index % 2 else 40000 for index in range(4000)]
    rows = [
        {"at_s": index, "total_ms": min(ms, limit), "outcome": "timeout" if ms > limit else "completed"}
        for index, (ms, limit) in enumerate(zip(true, limits, strict=True))
    ]
    with filled(rows) as store:
        stats.prepare(store)
        found = store.rows("select p95, censored from quantiles where name = 'total_ms'")[0]
    assert found["censored"] == sum(ms > limit for ms, limit in zip(true, limits, strict=True))
    truth = sorted(true)[math.ceil(0.95 * 4000) - 1]
    assert 0.85 < found["p95"] / truth < 1.15


def rows_of(guilty: str | None) -> list[dict[str, object]]:
    draw = random.Random(11)
    rows: list[dict[str, object]] = []
    for index in range(600):
        instance = f"i{index % 4}"
        slow = 3 if instance == guilty else 1
        total_ms = 1000 * slow * draw.lognormvariate(0, 0.1)
        rows.append(
            {"at_s": index * 0.7, "instance": instance, "tenant": f"t{draw.randrange(5)}", "total_ms": total_ms}
            | {"stream": True, "ttft_ms": total_ms / 5, "input_tokens": 500, "output_tokens": 100}
        )
    return rows


def test_the_guilty_instance_is_the_only_slice_that_stands_out() -> None:
    with filled(rows_of("i2")) as store:
        stats.prepare(store)
        found = store.rows("select value, lift from slices where significant")
    assert [row["value"] for row in found] == ["i2"]


def test_where_nothing_differs_no_slice_stands_out() -> None:
    with filled(rows_of(None)) as store:
        stats.prepare(store)
        assert store.rows("select value from slices where significant") == []


def test_a_wall_is_where_durations_pile_up_within_one_percent() -> None:
    piled = [3000.0 + index % 7 for index in range(20)]
    spread = [500 * 1.3**index for index in range(12)]
    walls = stats.find_walls(pl.Series(sorted([*piled, *spread])))
    assert [(round(wall), hits) for wall, hits, *_ in walls] == [(3003, 20)]


def test_spread_durations_have_no_wall() -> None:
    assert stats.find_walls(series(*[500 * 1.07**index for index in range(40)])) == []


def test_load_is_counted_per_vantage_and_a_row_does_not_count_itself() -> None:
    rows: list[dict[str, object]] = [{"at_s": second, "total_ms": 2500} for second in range(4)]
    rows += [{"at_s": 0.5, "total_ms": 60_000, "vantage": "gateway"}]
    with filled(rows) as store:
        stats.prepare(store)
        found = store.run("select vantage, others from in_flight join attempts using (attempt_id) order by attempt_id")
    assert found == [("client", 0), ("gateway", 0), ("client", 1), ("client", 2), ("client", 2)]


def test_all_that_ended_at_the_same_instant_have_ended() -> None:
    rows: list[dict[str, object]] = [{"at_s": second, "total_ms": 1000 * (10 - second)} for second in range(4)]
    with filled([*rows, {"at_s": 9, "total_ms": 500}, {"at_s": 10, "total_ms": 500}]) as store:
        stats.prepare(store)
        assert store.run("select others from in_flight order by attempt_id") == [(0,), (1,), (2,), (3,), (4,), (0,)]


def test_an_idle_gap_is_measured_from_the_last_end() -> None:
    with filled([{"at_s": 0, "total_ms": 1000}, {"at_s": 61, "total_ms": 1000}]) as store:
        stats.prepare(store)
        assert store.run("select idle_ms from in_flight order by attempt_id") == [(None,), (60_000.0,)]


def test_a_call_seen_from_two_sides_is_one_pair_and_retries_do_not_multiply_it() -> None:
    client = [{"at_s": 10 * n, "total_ms": 900, "request_id": "same", "attempt": n + 1} for n in range(3)]
    gateway = [{"at_s": 10 * n + 0.2, "total_ms": 700, "incoming_id": "same", "vantage": "gateway"} for n in range(3)]
    alone = [{"at_s": 5, "total_ms": 100, "request_id": "alone"}]
    with filled([*client, *gateway, *alone]) as store:
        stats.prepare(store)
        apart = store.run(
            "select epoch_ms(b.started_at) - epoch_ms(a.started_at), joined_by from pairs p"
            " join attempts a on a.attempt_id = p.attempt_id join attempts b on b.attempt_id = p.partner_id"
        )
    assert apart == [(200, "id")] * 3


def test_a_share_of_lost_time_is_what_would_go_with_the_value() -> None:
    """All replicas are late in the second half, one of them twice as much: most of it would stay without that one."""
    rows = rows_of(None)
    for place, row in enumerate(rows):
        if place >= 300:
            row["total_ms"] = float(str(row["total_ms"])) * (9 if row["instance"] == "i2" else 5)
    with filled(rows) as store:
        stats.prepare(store)
        ((share,),) = store.run("select explained_share from slices where value = 'i2' and kind = 'slow'")
    assert 0.1 < share < 0.4
    with filled(rows_of("i2")) as store:
        stats.prepare(store)
        ((share,),) = store.run("select explained_share from slices where value = 'i2' and kind = 'slow'")
    assert share > 0.9


def test_a_slow_replica_is_seen_behind_a_proxy_that_holds_every_answer_back() -> None:
    """The first token then comes with the last one, whoever wrote the answer: what is slow shows in the whole."""
    rows = rows_of("i2")
    for row in rows[200:]:
        row["ttft_ms"] = 0.99 * float(str(row["total_ms"]))
    with filled(rows) as store:
        stats.prepare(store)
        found = store.rows("select value, explained_share from slices where kind = 'slow' and significant")
    assert [row["value"] for row in found] == ["i2"]
    assert found[0]["explained_share"] > 0.8


def test_what_an_answer_takes_follows_its_tokens_where_rows_are_few() -> None:
    """Two models of one log, thirty answers each: no answer of a healthy one looks slow for being long."""
    draw = random.Random(3)
    rows: list[dict[str, object]] = []
    for index in range(60):
        pace = 40 if index % 2 else 12
        asked, told = draw.randrange(200, 6000), draw.randrange(20, 800)
        ttft_ms = 100 + asked * pace / 200
        rows.append(
            {"at_s": index * 50.0, "model": f"m{index % 2}", "stream": True, "input_tokens": asked}
            | {"output_tokens": told, "ttft_ms": ttft_ms, "total_ms": ttft_ms + pace * told}
        )
    with filled(rows) as store:
        stats.prepare(store)
        ((least, most),) = store.run("select min(times), max(times) from expected")
    assert 0.8 < least <= most < 1.25
