"""Two distributions compared at a quantile: right about as often as they say, and sure where a person is."""

import random
from collections.abc import Sequence
from dataclasses import replace

from llmdoctor.compare import curves
from llmdoctor.compare.numbers import Difference
from llmdoctor.diagnose.sample import SHARES, Curve, Known


def curve(values: Sequence[float], cut_at: float | None = None, clustered: float = 1.0) -> Curve:
    """What a report keeps of these durations; callers did not wait for longer than `cut_at`."""
    ordered = sorted(values)
    kept = [ordered[max(0, -(-int(share * len(ordered) * 1e6) // 10**6) - 1)] for share in SHARES]
    shown = tuple(value if cut_at is None or value < cut_at else None for value in kept)
    return Curve("total_ms", len(ordered), shown, tuple(Known(word, clustered, 0.3) for word in ("p50", "p95")))


def moved(before: Curve, after: Curve, word: str = "p95") -> Difference | None:
    one, other = curves.spread(before, word), curves.spread(after, word)
    assert one
    assert other
    return curves.moved(one, other, _quantile(other) - _quantile(one))


def _quantile(one: curves.Spread) -> float:
    return one.logs[SHARES.index({"p50": 0.5, "p95": 0.95}[one.known.word])]


def durations(rng: random.Random, n: int = 400, slower: float = 1.0, waits: float = 0.0) -> list[float]:
    return [
        slower * rng.lognormvariate(7, 0.6) + (rng.uniform(8e3, 12e3) if rng.random() < waits else 0.0)
        for _ in range(n)
    ]


def test_equal_services_differ_as_rarely_as_the_test_says() -> None:
    for word, waits in (("p50", 0.0), ("p95", 0.0), ("p50", 0.5), ("p95", 0.06)):
        rng, found = random.Random(f"{word}{waits}"), 0
        for _ in range(300):
            difference = moved(curve(durations(rng, waits=waits)), curve(durations(rng, waits=waits)), word)
            found += difference is not None and difference.p_value < 0.05
        assert found <= 300 * 0.07, (word, waits)


def test_the_interval_holds_what_was_changed() -> None:
    rng, held = random.Random(5), 0
    for _ in range(100):
        difference = moved(curve(durations(rng)), curve(durations(rng, slower=1.5)), "p50")
        assert difference
        assert difference.p_value < 0.01
        held += (difference.low or 0) <= 0.405 <= (difference.high or 0)
    assert held >= 93


def test_a_tail_that_is_gone_is_seen_with_few_requests() -> None:
    rng, seen = random.Random(6), 0
    for _ in range(50):
        difference = moved(curve(durations(rng, waits=0.08)), curve(durations(rng)))
        seen += difference is not None and difference.p_value < 0.02 and (difference.high or 0) < 0
    assert seen >= 45


def test_one_long_episode_against_many_independent_requests_is_weighed_by_what_it_tells() -> None:
    # Half of all in one stretch of time: as much as some fifteen requests, but none of the other side is so slow.
    rng = random.Random(7)
    before, after = curve(durations(rng, waits=0.5), clustered=25), curve(durations(rng))
    clear = moved(before, after)
    assert clear
    assert clear.p_value < 0.001
    # Both sides in one stretch each: nobody can tell them apart.
    both = moved(before, curve(durations(rng, waits=0.3), clustered=25))
    assert both
    assert both.p_value > 0.05


def test_the_ends_are_open_where_no_caller_waited() -> None:
    rng = random.Random(8)
    before, after = durations(rng, waits=0.1), durations(rng, waits=0.1)
    difference = moved(curve(before, cut_at=8000), curve(after, cut_at=8000), "p50")
    assert difference
    assert difference.low is not None
    one, other = curves.spread(curve(before, cut_at=8000), "p95"), curves.spread(curve(after, cut_at=8000), "p95")
    assert one
    assert other
    assert curves.moved(one, other, 0.0) is None


def test_those_that_failed_may_have_been_the_longest() -> None:
    rng = random.Random(9)
    every = sorted(durations(rng, n=1000))
    kept, whole = curves.spread(curve(every[:880]), "p50"), curves.spread(curve(durations(rng, n=1000)), "p50")
    assert kept
    assert whole
    assert curves.direction(kept, whole) == 1
    assert curves.direction(replace(kept, lost=0.12), whole) == 0
