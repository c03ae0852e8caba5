"""The way, the gateway and two clocks, told apart from what looks like them. The pages' own examples run elsewhere."""

import random
from typing import Any

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from tests.filled import filled

BOOK = rulebook.load()


def judged(rows: list[dict[str, Any]]) -> Diagnosis:
    with filled(rows) as store:
        return diagnose(store, BOOK)


def confidence(found: Diagnosis, cause: str) -> float:
    return next((one.confidence for one in found.causes if one.id == cause), 0.0)


def calls(count: int, late_from: int, where: str, lost_ms: float = 650.0) -> list[dict[str, Any]]:
    """Streams of which those from `late_from` on lose the same time: on the way, in the gateway or in the server."""
    draw = random.Random(6)
    rows: list[dict[str, Any]] = []
    for place in range(count):
        lost = lost_ms * draw.lognormvariate(0, 0.08) if place >= late_from else 0.0
        ttft_ms, total_ms = 260 * draw.lognormvariate(0, 0.2), 2200 * draw.lognormvariate(0, 0.2)
        inside = lost if where == "server" else 0.0
        rows.append(
            {"at_s": 2.2 * place + draw.random(), "stream": True, "model": "m", "input_tokens": 200 + place * 37 % 700}
            | {"output_tokens": 60 + place * 31 % 50, "ttft_ms": ttft_ms + lost, "total_ms": total_ms + lost}
            | {"server_outcome": "completed", "server_total_ms": total_ms - 40 + inside, "request_id": f"r{place}"}
            | ({"connect_ms": 30 + (lost if where == "way" else 0)} if place % 9 == 0 else {})
            | ({"overhead_ms": 15 + (lost if where == "gateway" else 0)} if where == "gateway" else {})
        )
    return rows


def test_a_long_way_is_the_network() -> None:
    found = judged(calls(360, 160, "way"))
    assert found.causes[0].id == "network"
    assert found.causes[0].confidence >= 0.8


def test_the_same_loss_inside_the_server_is_not_the_network() -> None:
    assert confidence(judged(calls(360, 160, "server")), "network") <= 0.2


def test_the_same_loss_in_the_gateway_is_its_overhead() -> None:
    found = judged(calls(360, 160, "gateway"))
    assert confidence(found, "gateway_overhead") > confidence(found, "network")


def clocks(offset_s: float, count: int = 12) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for place in range(count):
        rows.append({"at_s": 10 * place, "total_ms": 1500.0 + place, "request_id": f"r{place}"})
        inner = {"at_s": 10 * place + 0.02 + offset_s, "total_ms": 1460.0 + place, "request_id": f"r{place}"}
        rows.append(inner | {"vantage": "engine", "instance": "gpu-1"})
    return rows


@pytest.mark.parametrize("offset_s", [-2.5, 2.5])
def test_a_clock_that_is_off_is_measured_with_its_sign(offset_s: float) -> None:
    skew = next(one for one in judged(clocks(offset_s)).symptoms if one.id == "clock_skew")
    assert (skew.state, skew.subject) == ("present", "instance=gpu-1")
    assert skew.observed == pytest.approx(1000 * offset_s, abs=25)


@pytest.mark.parametrize("offset_s", [-0.05, 0.0, 0.05])
def test_clocks_that_are_kept_in_step_are_fine(offset_s: float) -> None:
    assert next(one.state for one in judged(clocks(offset_s)).symptoms if one.id == "clock_skew") == "absent"


def test_a_hole_in_the_log_does_not_make_it_unhealthy() -> None:
    draw = random.Random(2)
    rows = [
        {"at_s": 2 * place + (900 if place >= 100 else 0), "total_ms": 2000 * draw.lognormvariate(0, 0.1)}
        | {"ttft_ms": 300.0, "stream": True}
        for place in range(200)
    ]
    found = judged(rows)
    assert [one.id for one in found.present] == ["log_gaps"]
    assert found.verdict.level == "attention"
