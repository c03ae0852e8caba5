"""The queue that a log is replayed through: what it does to calls, and when it is believed."""

import math
import random
from collections.abc import Sequence

from llmdoctor.diagnose.replay import Call, Queue, fitted


def _calls(gap_ms: float, work_ms: Sequence[float], patience_ms: float = math.inf) -> list[Call]:
    return [Call(place * gap_ms, work, patience_ms, False) for place, work in enumerate(work_ms)]


def busy(places: int, load: float, n: int = 2000) -> list[Call]:
    """Poisson arrivals that keep `places` busy for the share `load` of the time."""
    rng = random.Random(7)
    at, calls = 0.0, []
    for _ in range(n):
        work = rng.lognormvariate(math.log(1000), 0.6)
        calls.append(Call(at, work, math.inf, False))
        at += rng.expovariate(load * places / 1200.0)
    return calls


def test_calls_wait_for_a_place_in_order_of_their_arrival() -> None:
    assert Queue(1, False).times_ms(_calls(100, [250, 250, 250])) == [250, 400, 550]
    assert Queue(2, False).times_ms(_calls(100, [250, 250, 250])) == [250, 250, 300]


def test_who_leaves_is_gone_at_its_limit_and_the_work_goes_on() -> None:
    assert Queue(1, False).times_ms(_calls(100, [300, 300, 300], 350)) == [300, 350, 350]


def test_where_leaving_cancels_the_place_is_free_again() -> None:
    calls = [Call(0, 1000, 400, False), Call(100, 200, math.inf, False)]
    assert Queue(1, True).times_ms(calls) == [400, 500]
    assert Queue(1, False).times_ms(calls) == [400, 1100]


def test_who_left_before_its_turn_takes_no_place() -> None:
    calls = [Call(0, 1000, math.inf, False), Call(100, 500, 200, False), Call(200, 100, math.inf, False)]
    assert Queue(1, True).times_ms(calls) == [1000, 200, 900]


def test_the_places_are_found_from_the_log_alone() -> None:
    for places in (1, 4, 10):
        calls = busy(places, 0.95)
        found = fitted(calls, Queue(places, False).times_ms(calls), 0.99)
        assert found is not None
        assert abs(found.places - places) <= max(0, places // 5)


def test_what_is_no_queue_is_not_replayed() -> None:
    calls = busy(4, 0.3)
    rng = random.Random(1)
    measured = [call.work_ms * (40 if rng.random() < 0.02 else 1) for call in calls]
    assert fitted(calls, measured, 0.99) is None
