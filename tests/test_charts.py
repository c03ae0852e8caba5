"""The numbers behind the charts: nothing is lost in them, no spike vanishes, and they are the same each time."""

from collections.abc import Mapping
from typing import Any

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.diagnose.pictures import COARSE, FINE, Distribution, Relation
from tests.filled import filled


def _rows(n: int = 600, **more: object) -> list[dict[str, Any]]:
    """A stream each half second; prompts of 100 to 3,200 tokens whose first token follows their length."""
    return [
        {
            "at_s": number / 2,
            "model": "m",
            "stream": True,
            "ttft_ms": 50.0 + 0.2 * tokens + number * 7919 % 97,
            "total_ms": 400.0 + tokens / 4 + number * 7919 % 97,
            "input_tokens": tokens,
            "output_tokens": 40,
            "instance": f"replica-{number % 3}",
            **more,
        }
        for number in range(n)
        for tokens in (100 * 2 ** (number % 6),)
    ]


def _diagnosed(rows: list[dict[str, Any]], threads: int | None = None) -> Diagnosis:
    with filled(rows, threads) as store:
        return diagnose(store, rulebook.load())


def _of(found: Diagnosis, name: str) -> Distribution:
    return next(one for one in found.pictures.distributions if one.name == name)


def test_a_distribution_counts_every_attempt_and_knows_which_were_cut() -> None:
    rows = _rows()
    for row in rows[::50]:
        row |= {"outcome": "timeout", "ttft_ms": None, "total_ms": 15_000.0, "timeout_ms": 15_000.0}
    found = _diagnosed(rows)
    for name in ("ttft_ms", "total_ms"):
        one = _of(found, name)
        assert (sum(one.ended), sum(one.cut)) == (588, 12)
        cell = next(number for number, count in enumerate(one.cut, one.first) if count)
        assert 10 ** (cell / FINE) <= 15_000 < 10 ** ((cell + 1) / FINE)
    walls = {(wall.what, wall.at_ms): wall.attempts for wall in _of(found, "total_ms").walls}
    assert walls[("limit", 15_000.0)] == 12
    assert walls[("timeout", 15_000.0)] == 12


def test_failures_are_no_fast_answers() -> None:
    rows = _rows()
    for row in rows[:100]:
        row |= {"outcome": "failed", "ttft_ms": None, "total_ms": 3.0}
    assert sum(_of(_diagnosed(rows), "total_ms").ended) == 500


def test_a_single_slow_attempt_is_in_the_heat_map() -> None:
    rows = _rows()
    rows[301] |= {"ttft_ms": 40_000.0, "total_ms": 41_000.0}
    found = _diagnosed(rows)
    heat = found.pictures.heat
    assert heat is not None
    highest = len(heat.columns[0]) - 1 + heat.first
    assert 10 ** (highest / COARSE) <= 40_000 < 10 ** ((highest + 1) / COARSE)
    [place] = [number for number, column in enumerate(heat.columns) if column[-1]]
    seconds = found.timeline.bin_ms / 1000 * heat.join
    assert place == 150.5 // seconds
    assert sum(map(sum, heat.columns)) == 600


def _relation(found: Diagnosis, by: str) -> Relation:
    return next(one for one in found.pictures.relations if one.by == by)


def test_latency_is_told_by_prompt_length_and_by_load() -> None:
    found = _diagnosed(_rows())
    tokens = _relation(found, "input_tokens")
    assert [(step.low, step.n) for step in tokens.steps] == [(100 * 2**n, 100) for n in range(6)]
    medians = [step.p50_ms for step in tokens.steps]
    assert medians == sorted(medians)
    assert all(step.p50_ms <= step.p90_ms <= step.max_ms for step in tokens.steps)
    load = _relation(found, "others")
    assert sum(step.n for step in load.steps) == 600
    assert tokens.every == load.every == 1


def test_without_a_first_token_the_whole_is_told_by_the_length_of_the_answer() -> None:
    rows = _rows(stream=False, ttft_ms=None)
    for number, row in enumerate(rows):
        row["output_tokens"] = 20 * 2 ** (number % 4)
    found = _diagnosed(rows)
    assert _relation(found, "output_tokens").name == "total_ms"
    assert [one.name for one in found.pictures.distributions] == ["total_ms"]
    assert found.pictures.heat is not None
    assert found.pictures.heat.name == "total_ms"


def test_each_replica_has_its_own_course_on_the_same_columns() -> None:
    rows = _rows()
    for row in rows[2::3]:
        row |= {"ttft_ms": 4000.0, "total_ms": 6000.0}
    found = _diagnosed(rows).pictures
    assert found.instances is not None
    assert found.heat is not None
    names = {one.instance: one for one in found.instances.instances}
    assert {name: one.n for name, one in names.items()} == {f"replica-{n}": 200 for n in range(3)}
    assert names["replica-2"].p50_ms == 4000.0
    assert {len(one.columns) for one in names.values()} == {len(found.heat.columns)}
    assert sum(n for n, *_ in names["replica-0"].columns) == 200


def test_beyond_eight_replicas_the_others_are_counted() -> None:
    rows = _rows()
    for number, row in enumerate(rows):
        row["instance"] = f"replica-{number % 12:02d}"
    found = _diagnosed(rows).pictures.instances
    assert found is not None
    assert (len(found.instances), found.left_out) == (8, 4)


def test_a_log_without_any_time_or_length_has_no_charts_and_ends_well() -> None:
    rows: list[Mapping[str, Any]] = [{"at_s": n, "outcome": "completed"} for n in range(30)]
    with filled(rows) as store:
        found = diagnose(store, rulebook.load()).pictures
    assert found.distributions == ()
    assert found.relations == ()
    assert found.heat is None


def test_threads_change_no_figure() -> None:
    rows = _rows()
    assert _diagnosed(rows, 1).pictures == _diagnosed(rows, 4).pictures
