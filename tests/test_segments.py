"""Where latency or failures change for good, where a log is silent, pairs of values that are bad only together."""

import random
from itertools import pairwise
from statistics import median
from typing import Any

import polars as pl
import pytest

from llmdoctor import rulebook, stats
from llmdoctor.diagnose import Diagnosis, diagnose
from tests.filled import filled

BOOK = rulebook.load()


def noise(count: int, seed: int, sigma: float = 0.5) -> list[float]:
    draw = random.Random(seed)
    return [1000 * draw.lognormvariate(0, sigma) for _ in range(count)]


def rows_of(times: list[float], **more: Any) -> list[dict[str, Any]]:
    return [
        {"at_s": 2 * place, "total_ms": ms, "ttft_ms": ms / 4, "stream": True, "input_tokens": 300, "output_tokens": 90}
        | {name: value(place) if callable(value) else value for name, value in more.items()}
        for place, ms in enumerate(times)
    ]


def judged(rows: list[dict[str, Any]]) -> Diagnosis:
    with filled(rows) as store:
        return diagnose(store, BOOK)


@pytest.mark.parametrize("place", [30, 150, 270])
def test_a_step_is_found_where_it_is(place: int) -> None:
    values = [ms * (2 if number >= place else 1) for number, ms in enumerate(noise(300, 3))]
    found = stats.find_changes(pl.Series(values))
    assert [one.abrupt for one in found] == [True]
    assert abs(found[0].place - place) <= 10


def test_chance_alone_gives_no_step() -> None:
    assert [seed for seed in range(200) if stats.find_changes(pl.Series(noise(400, seed)))] == []


def test_neighbours_that_are_alike_give_a_step_in_few_logs_only() -> None:
    def wandering(seed: int) -> pl.Series:
        draw, level, values = random.Random(seed), 0.0, []
        for _ in range(600):
            level = 0.6 * level + draw.gauss(0, 0.3)
            values.append(level)
        return pl.Series(values).exp()

    assert sum(bool(stats.find_changes(wandering(seed))) for seed in range(60)) <= 2


def test_a_ramp_is_no_step_of_half_as_much_again() -> None:
    def steep(seed: int) -> bool:
        values = [ms * (1 + number / 300) for number, ms in enumerate(noise(600, seed, 0.2))]
        changes = stats.find_changes(pl.Series(values))
        ends = [0, *(one.place for one in changes), 600]
        levels = [median(values[start:stop]) for start, stop in pairwise(ends)]
        return any(
            one.abrupt and after >= 1.5 * before for one, (before, after) in zip(changes, pairwise(levels), strict=True)
        )

    assert [seed for seed in range(20) if steep(seed)] == []


def test_a_change_of_the_slow_tenth_alone_is_found() -> None:
    values = [ms * (6 if number >= 500 and number % 8 == 0 else 1) for number, ms in enumerate(noise(1000, 7, 0.3))]
    places = [one.place for one in stats.find_changes(pl.Series(values))]
    assert len(places) == 1
    assert abs(places[0] - 500) <= 60


def test_two_failures_are_no_change_of_the_failure_rate() -> None:
    flags = pl.Series([1.0 if place in (395, 399) else 0.0 for place in range(400)])
    assert stats.find_changes(flags, flags=True) == []


def test_the_order_of_the_values_alone_decides() -> None:
    values = [ms * (2 if number >= 120 else 1) for number, ms in enumerate(noise(300, 3))]
    same = pl.Series(values)
    assert stats.find_changes(same) == stats.find_changes((same / 7).sqrt())


def test_segments_hold_the_figures_of_both_sides() -> None:
    times = [ms * (2 if number >= 120 else 1) for number, ms in enumerate(noise(300, 3, 0.1))]
    with filled(rows_of(times)) as store:
        stats.prepare(store)
        found = store.rows("select * from segments where name = 'total_ms' order by segment")
    assert [row["sampled"] for row in found] == [120, 180]
    assert found[1]["p50_ms"] / found[0]["p50_ms"] == pytest.approx(2, rel=0.1)
    assert found[0]["last_id"] + 1 == found[1]["first_id"] == 121


def test_a_shift_says_what_changed_at_that_moment() -> None:
    times = [ms * (2.5 if number >= 200 else 1) for number, ms in enumerate(noise(400, 3, 0.2))]
    found = judged(rows_of(times, app_version=lambda place: "1.5" if place >= 200 else "1.4", model="m"))
    assert len(found.shifts) == 1
    shift = found.shifts[0]
    assert shift.statistic == "p50"
    assert shift.after_ms / shift.before_ms == pytest.approx(2.5, rel=0.1)
    assert [(one.before["app_version"], one.after["app_version"]) for one in shift.changed] == [("1.4", "1.5")]
    assert shift.text.endswith("then app_version changed from 1.4 to 1.5")


def test_longer_prompts_and_more_traffic_are_told_as_what_changed() -> None:
    rows = rows_of([ms * (2.5 if number >= 200 else 1) for number, ms in enumerate(noise(600, 3, 0.2))])
    for place, row in enumerate(rows):
        row["input_tokens"] = (900 if place >= 200 else 300) + place % 50
        row["at_s"] = 2 * place if place < 200 else 400 + (place - 200) / 3
    told = [change.text for change in judged(rows).shifts[0].changed]
    assert told[0] == "prompts (median tokens) went from 330 to 920"
    assert told[1].startswith("requests a minute went from 30 to 1")


def test_a_log_without_a_shift_has_none() -> None:
    found = judged(rows_of(noise(400, 3, 0.2), app_version=lambda place: "1.5" if place >= 200 else "1.4"))
    assert found.shifts == ()


def test_a_silence_is_long_against_the_usual_spacing() -> None:
    rows = [{"at_s": 2 * place + (300 if place >= 60 else 0), "total_ms": 500.0} for place in range(120)]
    with filled(rows) as store:
        stats.prepare(store)
        found = store.run("select gap_ms, usual_ms, starts_before, starts_after, beside from silences")
    assert found == [(302_000.0, 2000.0, 60, 60, 0)]


def test_a_silence_of_one_log_while_another_goes_on_is_marked() -> None:
    rows: list[dict[str, Any]] = [
        {"at_s": 2 * place + (300 if place >= 60 else 0), "total_ms": 500.0} for place in range(120)
    ]
    rows += [{"at_s": 3 * place, "total_ms": 400.0, "vantage": "engine"} for place in range(180)]
    with filled(rows) as store:
        stats.prepare(store)
        found = store.run("select vantage, beside from silences")
    assert found == [("client", 100)]


def crossed(slow: Any) -> list[dict[str, Any]]:
    rows = rows_of(noise(1200, 4, 0.15), model=lambda place: f"m{place % 3}", region=lambda place: f"r{place // 3 % 4}")
    for place, row in enumerate(rows):
        if place > 240 and slow(row):
            row["total_ms"] *= 4
            row["ttft_ms"] *= 4
    return rows


def test_a_pair_that_is_bad_only_together_is_named() -> None:
    with filled(crossed(lambda row: (row["model"], row["region"]) == ("m1", "r2"))) as store:
        stats.prepare(store)
        found = store.rows("select * from slices where second is not null")
    assert [(row["value"], row["significant"]) for row in found] in (
        [("m1, region=r2", True)],
        [("r2, model=m1", True)],
    )


def test_a_single_value_that_is_bad_everywhere_makes_no_pair() -> None:
    with filled(crossed(lambda row: row["region"] == "r2")) as store:
        stats.prepare(store)
        assert store.run("select value from slices where second is not null") == []
        assert store.run("select value from slices where significant") == [("r2",)]
