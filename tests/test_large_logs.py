"""Of a large log pages put only some bins of time in order (the view `cutting`): they tell what the whole would."""

from typing import Any

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose import prepare
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
