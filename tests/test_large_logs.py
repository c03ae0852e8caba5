"""Of a large log pages put only some bins of time in order (the view `cutting`), and of a very large one causes are
weighed on a part: they tell what the whole would."""

from typing import Any

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose, front, part, prepare
from llmdoctor.diagnose.front import Fronts
from llmdoctor.store import Store

ROWS = 150_000
# A service of two pools whose first tokens come late for a minute out of five; one answer in fifty is long.
LOG = f"""
insert into attempts by name
with drawn as (
    select range as n, hash(range, 1) % 1000 / 1000.0 as a, hash(range, 2) % 1000 / 1000.0 as b from range({ROWS})
), timed as (
    select n, a, b,
           timestamptz '2026-03-01 10:00:00Z' + to_microseconds(n * 50_000 + cast(a * 40_000 as bigint)) as started_at,
           case when n * 0.05 % 300 < 60 then 800 + 3000 * b else 200 + 100 * b end as ttft_ms
    from   drawn
)
select n + 1 as attempt_id, 1 as input_id, 'client' as vantage, case when n % 3 = 0 then 'a' else 'b' end as model,
       'completed' as outcome, true as stream, 'start' as time_basis, 500 + cast(400 * a as int) as input_tokens,
       case when n % 50 = 0 then 2000 else 100 + cast(50 * b as int) end as output_tokens, started_at, ttft_ms,
       ttft_ms + case when n % 50 = 0 then 40_000 else 2000 + 1000 * a end as total_ms,
       started_at + to_milliseconds(ttft_ms + case when n % 50 = 0 then 40_000 else 2000 + 1000 * a end) as ended_at
from   timed
"""
PIECES = [("kv_preemption", 2), ("queueing", 1), ("hol_long_outputs", 0), ("hol_long_outputs", 2)]


@pytest.fixture(scope="module")
def answers() -> tuple[list[Any], list[Any]]:
    """What the pieces answer from some bins, and from all of the log."""
    causes = {rule.id: rule for rule in rulebook.load().causes}
    with Store() as store:
        store.create()
        store.script(LOG)
        prepare(store)
        cut = [store.ask(causes[rule].evidence[piece].query.text, {}) for rule, piece in PIECES]
        store.script("create or replace view cutting as select 1.0 as share, 0e0 as bins_per_us")
        whole = [store.ask(causes[rule].evidence[piece].query.text, {}) for rule, piece in PIECES]
    return cut, whole


@pytest.mark.parametrize("place", range(len(PIECES)), ids=[f"{rule} {piece + 1}" for rule, piece in PIECES])
def test_some_bins_tell_what_all_of_the_log_tells(place: int, answers: tuple[list[Any], list[Any]]) -> None:
    cut, whole = answers[0][place], answers[1][place]
    assert len(cut) == len(whole) == 1
    assert {cut[0]["supports"], whole[0]["supports"]} != {True, False}  # a figure on its threshold may end undecided
    for some, every in zip(cut, whole, strict=True):
        shown = {name: value for name, value in every.items() if isinstance(value, float) and name != "follows"}
        assert {name: some[name] for name in shown} == pytest.approx(shown, rel=0.1, abs=0.02)


def _diagnosed() -> Diagnosis:
    with Store() as store:
        store.create()
        store.script(LOG)
        found = diagnose(store, rulebook.load())
        assert store.run("select count(*), count(expected_total_ms) from front_expected") == [(ROWS, ROWS)]
    return found


def test_a_part_of_whole_minutes_leads_to_the_causes_that_the_whole_log_has(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _diagnosed()
    monkeypatch.setattr(part, "MOST", 100_000)
    monkeypatch.setattr(part, "ENOUGH", 40_000)
    some = _diagnosed()
    assert whole.notes == ()
    assert some.notes[0].startswith("Causes were weighed on ")
    assert " of 150,000 attempts: " in some.notes[0]
    assert [(one.id, one.affected) for one in some.symptoms] == [(one.id, one.affected) for one in whole.symptoms]
    assert whole.causes
    assert [cause.id for cause in some.causes] == [cause.id for cause in whole.causes]
    for of_part, of_whole in zip(some.causes, whole.causes, strict=True):
        assert of_part.affected == pytest.approx(of_whole.affected, rel=0.05)
        assert of_part.excess_share == pytest.approx(of_whole.excess_share, abs=0.05)


def test_curves_of_a_large_log_are_read_from_an_even_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "ENOUGH", 10_000)
    with Store() as store:
        store.create()
        store.script(LOG)
        prepare(store)
        assert Fronts(store, ["ttft_ms"]).thin("client") == 15
        n, late, kinds = store.run("select count(*), avg((ttft_ms >= 800)::int), count(distinct model) from thinned")[0]
        assert "request_id" not in store.columns("thinned")
    assert n == pytest.approx(10_000, rel=0.02)
    assert late == pytest.approx(0.2, abs=0.01)
    assert kinds == 2


def test_an_incident_that_is_a_hundredth_of_the_log_is_in_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "MOST", 100_000)
    monkeypatch.setattr(part, "ENOUGH", 20_000)
    with Store() as store:
        store.create()
        store.script(LOG.replace("n * 0.05 % 300 < 60", "n between 90_000 and 91_500"))
        prepare(store)
        with part.part_of(store, Fronts(store, ["ttft_ms"])) as told:
            late, every = store.run("select count(*) filter (ttft_ms >= 800), count(*) from attempts")[0]
    assert told
    assert late >= 1_400
    assert 20_000 <= every <= 26_000
