"""Did it help? Verdicts over pairs of logs whose truth is known, and what the numbers behind them must keep."""

import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from llmdoctor.compare import Comparison, Side, as_dict, compare, side, to_json, words
from llmdoctor.compare.values import Change, Seen, Turned
from llmdoctor.diagnose.values import six
from llmdoctor.errors import InputError
from tests.before_after import Service, rows, sides, told

CALM = Service()
TAIL = Service(wait_share=0.08)
FEW = replace(CALM, n=600)


@cache
def compared(before: Service, after: Service, seed: int = 1) -> Comparison:
    return compare(*sides(before, after, seed), "llmdoctor compare before after")


def figure(comparison: Comparison, name: str) -> Change:
    return next(one for one in comparison.figures if one.name == name)


@pytest.mark.parametrize(
    ("before", "after", "level", "says"),
    [
        (TAIL, CALM, "fixed", "the tail is fixed, the typical one as before"),
        (replace(CALM, slower=2.5), CALM, "better", "faster for everybody"),
        (CALM, TAIL, "regression", "the tail is longer"),
        (CALM, replace(CALM, slower=1.6), "regression", "slower for everybody"),
        (TAIL, replace(TAIL, wait_share=0.06, wait_ms=2500), "partly_fixed", "Still there"),
        (CALM, CALM, "no_change", "No change beyond noise"),
        (TAIL, TAIL, "no_change", "No change beyond noise"),
        (CALM, replace(CALM, long_share=0.6), "mix", "Only the mix of requests changed"),
        (replace(CALM, long_share=0.6), CALM, "mix", "Only the mix of requests changed"),
        (replace(CALM, error_share=0.12), CALM, "fixed", "Fewer errors"),
        (replace(CALM, error_share=0.12), replace(CALM, slower=1.6), "traded", "fewer errors"),
        (replace(TAIL, wait_share=0.12), replace(CALM, slower=1.45), "traded", "the rest pays for it"),
        (replace(CALM, n=12), replace(CALM, n=12), "undetermined", "Too few"),
        (replace(CALM, n=12), replace(CALM, n=12, slower=20), "regression", "too few for the tail"),
        (replace(TAIL, n=400, wait_ms=12000), replace(CALM, n=400), "fixed", "the tail is fixed"),
        (replace(TAIL, n=400, wait_share=0.16), replace(TAIL, n=400), "partly_fixed", "the tail is shorter"),
        (replace(FEW, wait_share=0.5), replace(FEW, wait_share=0.5), "no_change", "Still there: high_ttft"),
    ],
)
def test_the_verdict_is_the_truth(before: Service, after: Service, level: str, says: str) -> None:
    verdict = compared(before, after).verdict
    assert verdict.level == level, verdict.text
    assert says in verdict.text


def waiting(seed: int, which: range, ms: float = 8000) -> list[dict[str, Any]]:
    """Attempts of which those in one stretch wait."""
    made = rows(seed, FEW)
    for row in made[which.start : which.stop]:
        if row["ttft_ms"]:
            row |= {"ttft_ms": row["ttft_ms"] + ms, "total_ms": row["total_ms"] + ms}
    return made


def test_one_outage_proves_nothing_and_a_fault_of_most_of_the_time_that_is_gone_is_fixed() -> None:
    calm = told(rows(1001, FEW))
    outage, fault = (told(waiting(1, which)) for which in (range(280, 320), range(180, 600)))
    assert compare(outage, calm, "x").verdict.level == "undetermined"
    assert compare(fault, calm, "x").verdict.level == "fixed"
    assert compare(calm, fault, "x").verdict.level == "regression"


def test_a_spell_of_a_third_on_one_side_is_a_change_and_one_as_long_on_both_is_none() -> None:
    calm = told(rows(1001, FEW))
    spell, later = told(waiting(1, range(400, 600))), told(waiting(1001, range(150, 360)))
    assert compare(calm, spell, "x").verdict.level == "regression"
    assert compare(spell, calm, "x").verdict.level == "fixed"
    same = compare(spell, later, "x").verdict
    assert same.level == "no_change"
    assert "Still there: high_ttft" in same.text


def test_half_as_many_that_wait_as_long_are_a_fix_in_part() -> None:
    found = compared(replace(FEW, n=1000, wait_share=0.3), replace(FEW, n=1000, wait_share=0.12))
    assert figure(found, "ttft_ms.p95").state in ("same", "slight")
    assert next(one.turn for one in found.findings if one.id == "high_ttft") == "better"
    assert found.verdict.level == "partly_fixed"


def test_what_is_a_tenth_slower_from_one_hour_to_another_is_no_regression() -> None:
    found = compared(CALM, replace(CALM, slower=1.15))
    assert figure(found, "total_ms.p50").state == "slight"
    assert found.verdict.level == "no_change"


def test_what_only_just_keeps_its_limit_is_fixed_in_part() -> None:
    before, after = sides(replace(FEW, wait_share=0.2, wait_ms=3000), FEW)
    (level,) = {one["expected"] for one in after.symptoms if one["id"] == "high_ttft"}

    def with_p95(share: float) -> Side:
        rows_ = [
            {**one, "observed": share * level} if one["id"] == "high_ttft" else one for one in after.plain["symptoms"]
        ]
        return side("after", "logs", {**after.plain, "symptoms": rows_})

    just = compare(before, with_p95(0.95), "x").verdict
    assert just.level == "partly_fixed"
    assert "Only just within its limit: high_ttft" in just.text
    assert compare(before, with_p95(0.3), "x").verdict.level == "fixed"


def test_what_was_not_found_before_is_not_still_there() -> None:
    found = compared(replace(CALM, error_share=0.008), replace(CALM, error_share=0.013))
    assert "Still there" not in found.verdict.text


def test_a_report_that_keeps_no_curves_is_compared_by_its_figures() -> None:
    before, after = sides(TAIL, CALM)
    samples = [{**one, "curves": []} for one in before.plain["samples"]]
    old = side("old", "report", {**before.plain, "samples": samples})
    assert compare(old, after, "x").verdict.level == "fixed"


def test_where_the_longest_no_longer_fail_durations_are_not_worse() -> None:
    cut, whole = ([{**row, "output_tokens": None} for row in rows(seed, FEW)] for seed in (1, 1001))
    for row in cut:
        if row["total_ms"] > 5000:
            row |= {"outcome": "failed", "http_status": 504, "error_type": "timeout"}
            row |= {"ttft_ms": None, "total_ms": 5000.0}
    found = compare(told(cut), told(whole), "x")
    assert figure(found, "error_share").state == "better"
    assert (figure(found, "total_ms.p95").change or 0) > 0.25
    assert figure(found, "total_ms.p95").state in ("same", "slight")
    assert found.verdict.level == "fixed"


def test_short_calls_that_are_gone_make_no_answer_slower() -> None:
    helped = rows(1, replace(FEW, n=1800))
    for number, row in enumerate(helped):
        if number % 3 and row["output_tokens"]:
            row |= {"output_tokens": 4, "total_ms": row["ttft_ms"] + 60, "input_tokens": 30}
    found = compare(told(helped), told(rows(1001, FEW)), "x")
    total = figure(found, "total_ms.p50")
    assert (total.change or 0) > 0.5
    assert total.state in ("mix", "same", "slight")
    assert not found.regressed


def test_after_that_is_older_is_told_whatever_came_of_it() -> None:
    for one, other in ((TAIL, CALM), (CALM, CALM), (CALM, TAIL)):
        before = told([{**row, "at_s": row["at_s"] + 1e5} for row in rows(1, replace(one, n=300))])
        after = told(rows(1001, replace(other, n=300)))
        assert any("AFTER is older than BEFORE" in one for one in compare(before, after, "x").warnings)
        assert not any("AFTER is older" in one for one in compare(after, before, "x").warnings)


def test_two_calm_logs_hardly_ever_differ() -> None:
    few = replace(CALM, n=400)
    levels = [compared(few, few, seed).verdict.level for seed in range(12)]
    assert sum(level not in ("no_change", "undetermined") for level in levels) <= 1


def test_what_is_better_one_way_is_worse_the_other_way() -> None:
    before, after = sides(TAIL, CALM)
    there, back = compare(before, after, "x"), compare(after, before, "x")
    turned = {"better": "worse", "worse": "better"}
    assert [turned.get(one.state, one.state) for one in there.figures] == [one.state for one in back.figures]
    assert figure(there, "total_ms.p50").before == figure(back, "total_ms.p50").after


def test_the_interval_of_the_change_holds_what_was_changed() -> None:
    held, few = 0, replace(CALM, n=400)
    for seed in range(10):
        change = figure(compared(few, replace(few, slower=1.5), seed), "tpot_ms.p50")
        held += (change.low or 0) <= 0.5 <= (change.high or 0)
        assert change.state == "worse"
    assert held >= 8


def test_a_figure_is_what_a_real_request_took() -> None:
    made = rows(1, CALM)
    took = sorted(row["total_ms"] for row in made if row["outcome"] == "completed")
    change = figure(compared(CALM, TAIL), "total_ms.p50")
    assert change.before == six(took[(len(took) + 1) // 2 - 1])


def test_the_order_of_lines_changes_nothing() -> None:
    before, after = sides(CALM, TAIL)
    shuffled = list(rows(1001, TAIL))
    random.Random(3).shuffle(shuffled)
    assert to_json(compare(before, told(shuffled, "after"), "x")) == to_json(compare(before, after, "x"))


def test_p99_is_compared_from_two_thousand_attempts_on() -> None:
    few, many = compared(TAIL, CALM), compared(replace(TAIL, n=2500), replace(CALM, n=2500))
    change = figure(few, "total_ms.p99")
    assert (change.state, change.change) == ("few", None)
    assert change.reason == "P99 needs 2,000 attempts a side"
    assert figure(many, "ttft_ms.p99").state == "better"
    assert figure(many, "ttft_ms.p99_over_p50").state == "better"
    assert "P99 TTFT" in many.verdict.text


def test_equal_mix_takes_out_what_only_longer_prompts_bring() -> None:
    change = figure(compared(CALM, replace(CALM, long_share=0.6)), "ttft_ms.p50")
    assert change.change is not None
    assert change.change > 0.5
    assert change.equal_mix is not None
    assert abs(change.equal_mix.change) < 0.1
    assert change.state == "mix"


def test_a_slower_service_is_seen_through_shorter_prompts() -> None:
    before, after = replace(CALM, long_share=0.7), replace(CALM, long_share=0.1, slower=1.8)
    assert figure(compared(before, after), "ttft_ms.p95").state == "worse"


def test_answers_that_no_longer_run_on_are_a_fix_and_no_other_mix() -> None:
    running = rows(1, CALM)
    for number, row in enumerate(running):
        row |= {"max_tokens": None, "finish_reason": "stop"}
        if number % 16 == 0 and row["outcome"] == "completed":
            row |= {"output_tokens": 8000, "total_ms": 20 * 8000.0, "finish_reason": "length"}
    found = compare(told(running, "before"), told(rows(1001, CALM), "after"), "x")
    assert "oversized_requests" in {one.id for one in found.findings if one.turn == "cleared"}
    assert found.verdict.level == "fixed"


def test_a_buffer_that_is_gone_makes_no_token_slower() -> None:
    held = rows(1, CALM)
    for row in held:
        if row["ttft_ms"]:
            row["ttft_ms"] = row["total_ms"] - 5
    found = compare(told(held, "before"), told(rows(1001, CALM), "after"), "x")
    assert figure(found, "tpot_ms.p50").state == "shifted"
    assert found.verdict.level == "fixed"


def test_one_change_is_no_warning_and_two_are() -> None:
    one = compared(CALM, replace(CALM, app_version="2"))
    assert [other.name for other in one.changed if other.moved] == ["app_version"]
    assert one.warnings == ()
    two = compared(CALM, replace(CALM, app_version="2", model="birch-8b"))
    assert "2 things changed beside the times (models, application versions)" in two.warnings[0]


@pytest.mark.parametrize(
    ("before", "after"), [(TAIL, replace(CALM, vantage="proxy")), (CALM, replace(TAIL, vantage="proxy"))]
)
def test_logs_of_other_places_are_not_compared_not_even_by_findings(before: Service, after: Service) -> None:
    few = replace(before, n=300), replace(after, n=300)
    found = compared(*few)
    assert found.figures == ()
    assert {one.turn for one in found.findings} == {"untold"}
    assert found.verdict.level == "undetermined"
    assert "one was written at client, the other at proxy" in found.verdict.text
    assert found.verdict.next.startswith("Compare logs of one place")
    assert not found.regressed


LARGE = replace(CALM, n=600, model="large", slower=3.0, error_share=0.05)
SMALL = replace(CALM, n=600, model="small")


def mixed(seed: int, large: float, slower: float = 1.0) -> list[dict[str, Any]]:
    """Attempts at two models, so large a share of them at the larger one, with what each costs."""
    rng, made = random.Random(seed), []
    both = [rows(seed, replace(one, slower=one.slower * slower)) for one in (SMALL, LARGE)]
    for number in range(SMALL.n):
        row = both[rng.random() < large][number]
        price = 9 if row["model"] == "large" else 1
        made.append({**row, "cost_usd": price * (row["input_tokens"] + 5 * (row["output_tokens"] or 0)) / 1e6})
    return made


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.6), (0.6, 0.2)])
def test_more_requests_to_a_slower_dearer_and_less_sure_model_are_another_mix(before: float, after: float) -> None:
    found = compare(told(mixed(1, before)), told(mixed(2, after)), "x")
    assert found.verdict.level == "mix", found.verdict.text
    assert {figure(found, name).state for name in ("tpot_ms.p50", "total_ms.p50", "cost_per_task")} == {"mix"}
    pace = figure(found, "tpot_ms.p50")
    assert pace.equal_mix is not None
    assert abs(pace.equal_mix.change) < 0.05
    assert figure(found, "error_share").state in ("mix", "same", "slight")


def test_a_slower_service_is_seen_through_more_requests_to_a_quicker_model() -> None:
    found = compare(told(mixed(1, 0.6)), told(mixed(2, 0.2, slower=1.6)), "x")
    pace = figure(found, "tpot_ms.p50")
    assert (pace.change or 0) < 0
    assert pace.equal_mix is not None
    assert pace.equal_mix.change == pytest.approx(0.6, abs=0.15)
    assert pace.state == "worse"
    assert found.regressed


def test_where_the_mix_is_the_same_it_does_not_decide() -> None:
    # Three in ten wait: between those and the others there is nothing, and a median of kinds cannot be read off.
    found = compare(*sides(replace(CALM, n=600, wait_share=0.3), replace(CALM, n=600, wait_share=0.2)), "x")
    assert [one.name for one in found.figures if one.equal_mix] == []


def test_a_log_in_which_everything_fails_is_compared_by_its_errors() -> None:
    down = replace(CALM, n=300, error_share=1.0)
    verdicts = [compared(*pair).verdict.level for pair in ((down, CALM), (CALM, down), (down, down))]
    assert verdicts == ["fixed", "regression", "no_change"]


def test_what_one_side_cannot_tell_is_not_called_gone() -> None:
    before, after = sides(replace(TAIL, n=600), replace(CALM, n=600))
    symptoms = [{**one, "state": "unknown"} if one["id"] == "high_ttft" else one for one in after.plain["symptoms"]]
    found = compare(before, side("after", "logs", {**after.plain, "symptoms": symptoms}), "x")
    assert next(one.turn for one in found.findings if one.id == "high_ttft") == "untold"
    assert "Cannot be told after: high_ttft." in found.verdict.text
    symptoms = [{**one, "state": "unknown"} for one in after.plain["symptoms"]]
    found = compare(before, side("after", "logs", {**after.plain, "symptoms": symptoms}), "x")
    assert found.verdict.level == "better"


def test_what_is_seen_from_another_place_is_still_there_and_not_untold() -> None:
    seen = Seen("present", "high", 0.3, 30, 100)
    moved = Turned("long_queue", "Calls wait", "all", "share", "untold", seen, seen, None, None, True)
    assert list(words.of_findings("better", [moved])) == ["Still there: long_queue (30 of 100)."]


def _slices(name: str, subjects: Mapping[str, tuple[str, float, int | None]]) -> Side:
    plain = dict(told(rows(1, replace(CALM, n=12))).plain)
    row = next(one for one in plain["symptoms"] if one["id"] == "errors")
    plain["symptoms"] = [
        {**row, "id": "uneven_instances", "subject": subject, "state": state, "vantage": "client",
         "observed": observed, "affected": affected, "total": 150 if affected else None}
        for subject, (state, observed, affected) in subjects.items()
    ]  # fmt: skip
    return side(name, "logs", plain)


def test_what_another_subject_shows_is_not_told_of_this_one() -> None:
    atlas, birch = {"model=atlas": ("present", 4.0, 38)}, {"model=birch": ("present", 2.5, 50)}
    found = compare(_slices("before", atlas), _slices("after", birch), "x")
    assert [(one.subject, one.turn) for one in found.findings] == [("model=atlas", "untold"), ("model=birch", "untold")]
    assert [(one.before is None, one.after is None) for one in found.findings] == [(False, True), (True, False)]
    nobody = compare(_slices("before", atlas), _slices("after", {"all": ("absent", 1.1, None)}), "x")
    assert [(one.subject, one.turn) for one in nobody.findings] == [("model=atlas", "cleared")]


def test_so_many_broken_tasks_are_no_chance() -> None:
    ends = {"all": ("present", 0.024, 19)}, {"all": ("absent", 0.0, 0)}
    for counts, turn in (("tasks", "cleared"), ("attempts", "near")):
        pair = []
        for one, total in zip(ends, (800, 400), strict=True):
            made = _slices("x", one)
            row = {**made.symptoms[0], "id": "inconsistent_tasks", "counts": counts, "total": total}
            pair.append(side("x", "logs", {**made.plain, "symptoms": [row]}))
        assert [one.turn for one in compare(pair[0], pair[1], "x").findings] == [turn]


def test_an_undetermined_verdict_names_a_figure_that_is_too_uncertain() -> None:
    found = compared(replace(CALM, n=40, wait_share=0.4), replace(CALM, n=40, wait_share=0.4))
    loose = {f"{words.title(one)} changed by" for one in found.figures if one.unit == "ms" and not words.tight(one)}
    assert any(told in found.verdict.text for told in loose), found.verdict.text


def test_too_few_says_how_many_would_do() -> None:
    few = replace(CALM, n=40, wait_share=0.4)
    found = compared(few, few)
    assert found.verdict.level == "undetermined"
    said = re.match(r"About ([\d,]+) attempts a side would tell a change of the P\d+ \w+ by half", found.verdict.next)
    assert said, found.verdict.next
    assert 40 < int(said[1].replace(",", "")) < 40_000


def test_a_rare_finding_that_is_gone_may_be_chance_and_no_change_is_not_claimed() -> None:
    pair = []
    for one, affected, state in zip(sides(FEW, FEW), (5, 0), ("present", "absent"), strict=True):
        row = next(symptom for symptom in one.plain["symptoms"] if symptom["id"] == "errors")
        row = {**row, "id": "inconsistent_tasks", "state": state, "subject": "all", "vantage": "client",
               "observed": affected / 600, "affected": affected, "total": 600}  # fmt: skip
        pair.append(side(state, "logs", {**one.plain, "symptoms": [*one.plain["symptoms"], row]}))
    found = compare(pair[0], pair[1], "x")
    assert found.verdict.level == "undetermined"
    assert "inconsistent_tasks (5 of 600 before, 0 of 600 after)" in found.verdict.text


def test_a_finding_that_only_crossed_its_limit_is_no_news() -> None:
    found = compared(replace(CALM, error_share=0.008), replace(CALM, error_share=0.013))
    assert {one.turn for one in found.findings if one.id == "errors"} <= {"near"}
    assert found.verdict.level == "no_change"


def test_the_published_form_is_plain_json_with_fixed_keys() -> None:
    found = compared(TAIL, CALM)
    plain = json.loads(to_json(found))
    assert plain == json.loads(json.dumps(as_dict(found)))
    assert list(plain) == [
        *("schema", "command", "version", "verdict", "before", "after", "figures", "findings", "changed", "warnings")
    ]  # fmt: skip
    assert plain["schema"] == "llmdoctor.comparison/1"


@pytest.mark.parametrize("lost", ["verdict", "symptoms", "window", "version"])
def test_a_damaged_report_is_named(lost: str) -> None:
    plain = dict(told(rows(1, replace(CALM, n=20))).plain)
    del plain[lost]
    with pytest.raises(InputError, match=r"r\.json: the report is damaged"):
        side("r.json", "report", plain)


def test_a_report_without_samples_can_be_compared_by_findings() -> None:
    before, after = sides(TAIL, CALM)
    plain = {key: value for key, value in before.plain.items() if key != "samples"}
    found = compare(side("old.json", "report", plain), after, "x")
    assert found.figures == ()
    assert "old.json keeps no figures" in found.warnings[0]
    assert found.verdict.level == "fixed"
    assert found.verdict.text.startswith("Fewer requests are affected: ")
    assert "Gone: " in found.verdict.text
    same = compare(side("old.json", "report", plain), before, "x").verdict
    assert (same.level, same.text) == (
        "undetermined",
        "No finding changed, and there are no figures to compare.",
    )
