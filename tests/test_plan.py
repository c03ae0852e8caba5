"""Which requests a probe sends: over all hops in turn, within its budget, and what it leaves out first."""

import pytest

from llmdoctor.errors import InputError
from llmdoctor.probe.plan import DROPPED_FIRST, Hop, expected_s, plan, within

DIRECT = Hop("direct", "http://10.0.0.5:8000/v1/chat/completions")
GATEWAY = Hop("gateway", "http://10.0.0.6:4000/v1/chat/completions")
PUBLIC = Hop("public", "https://llm.example.com/v1/chat/completions")


def test_rounds_go_over_all_hops_in_turn() -> None:
    found = plan([DIRECT, GATEWAY, PUBLIC])
    assert [step.hop.name for step in found.steps[:6]] == ["direct", "gateway", "public"] * 2
    assert {step.variant for step in found.steps[:9]} == {"stream"}


def test_the_usual_plan_keeps_its_budget_and_drops_nothing() -> None:
    for hops in ([PUBLIC], [DIRECT, PUBLIC]):
        found = plan(hops, secure=True)
        assert found.requests <= 30
        assert found.tokens <= 8000
        assert found.dropped == ()
        assert sum(step.variant == "long" for step in found.steps) == len(hops)


def test_a_small_budget_drops_experiments_in_the_written_order_and_keeps_the_streams() -> None:
    found = plan([DIRECT, PUBLIC], budget=12)
    assert found.requests <= 12
    assert found.dropped == DROPPED_FIRST[: len(found.dropped)] or set(found.dropped) <= set(DROPPED_FIRST)
    least = plan([DIRECT, PUBLIC], budget=5)
    assert [(step.hop.name, step.variant) for step in least.steps] == [("direct", "stream"), ("public", "stream")] * 2
    assert least.dropped[0] == "tools"


def test_a_budget_for_less_than_one_stream_over_each_hop_is_an_impossible_plan() -> None:
    assert plan([DIRECT], budget=1).requests == 1
    with pytest.raises(InputError, match="--budget 1: 2 places need at least 2 requests"):
        plan([DIRECT, PUBLIC], budget=1)


def test_what_is_sent_once_more_is_within_the_budget_too() -> None:
    assert plan([DIRECT, PUBLIC], budget=30).spare == 30 - plan([DIRECT, PUBLIC], budget=30).requests
    assert plan([DIRECT, PUBLIC], budget=2).spare == 0


def test_quick_sends_streams_only_and_long_adds_answers_that_last() -> None:
    assert {step.variant for step in plan([DIRECT, PUBLIC], quick=True).steps} == {"stream"}
    lasting = [step for step in plan([DIRECT, PUBLIC], lasting=True).steps if step.variant == "lasting"]
    assert [step.hop.name for step in lasting] == ["direct", "public"]


def test_a_slow_model_costs_the_experiments_and_not_the_streams() -> None:
    wanted = plan([DIRECT, PUBLIC])
    slow = within(wanted, seconds_each=2.0, tokens_each_second=10.0, most_s=90.0)
    assert expected_s(slow, 2.0, 10.0) < expected_s(wanted, 2.0, 10.0)
    assert sum(step.variant == "stream" for step in slow.steps) == 6
    assert slow.dropped
    assert within(wanted, 0.2, 200.0, 90.0).steps == wanted.steps
