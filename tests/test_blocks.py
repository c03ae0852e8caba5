"""Intervals of logs whose rows follow each other: they hold the truth about as often as they say."""

import math
import random
from statistics import NormalDist

import pytest

from llmdoctor.diagnose import blocks


def _cut(values: list[float], at_most: float) -> tuple[list[int], list[int]]:
    """Rows at or below a value, and all rows, in blocks of time."""
    count = blocks.count_blocks(len(values))
    places = [number * count // len(values) for number in range(len(values))]
    below = [
        sum(value <= at_most for value, own in zip(values, places, strict=True) if own == one) for one in range(count)
    ]
    return below, [places.count(one) for one in range(count)]


def _series(rng: random.Random, n: int, memory: float) -> list[float]:
    """Standard normal values, each remembering the one before."""
    values = [rng.gauss(0, 1)]
    for _ in range(n - 1):
        values.append(memory * values[-1] + math.sqrt(1 - memory**2) * rng.gauss(0, 1))
    return values


@pytest.mark.parametrize(("memory", "least"), [(0.0, 0.93), (0.9, 0.88), (0.98, 0.75)])
def test_the_interval_of_a_median_holds_the_truth(memory: float, least: float) -> None:
    rng, held = random.Random(7), 0
    for _ in range(200):
        values = _series(rng, 1000, memory)
        low, high = blocks.share_interval(0.5, *_cut(values, sorted(values)[499]))
        held += low <= sum(value <= 0 for value in values) / 1000 <= high
    assert held / 200 >= least


def test_independent_rows_are_not_clustered_and_episodes_are() -> None:
    rng = random.Random(1)
    values = _series(rng, 2000, 0.0)
    assert blocks.clustering(0.95, *_cut(values, 1.645)) < 2
    episode = [5.0 if 400 <= number < 500 else 0.0 for number in range(2000)]
    assert blocks.clustering(0.95, *_cut(episode, 1.0)) > 20


def test_a_share_of_nothing_still_has_an_upper_end() -> None:
    share, low, high = blocks.of_share([0] * 40, [50] * 40)
    assert (share, low) == (0.0, 0.0)
    assert 0.001 < high < 0.004


def test_few_rows_have_the_normal_distribution_and_few_blocks_a_wider_one() -> None:
    assert blocks.count_blocks(63) == 0
    assert blocks.count_blocks(64) == 8
    assert blocks.count_blocks(10**6) == 40
    assert blocks.times_error([], []) == NormalDist().inv_cdf(0.975)
    turns = [1.0, 0.0] * 20
    assert blocks.times_error(turns, [1] * 40) == pytest.approx(2.261, abs=0.001)  # three neighbours: a tenth of all
    assert blocks.times_error(turns[:8], [1] * 8) > 3


@pytest.mark.parametrize(("alike", "least"), [(0.0, 0.93), (0.3, 0.91), (0.6, 0.86), (0.8, 0.79)])
def test_the_interval_holds_the_mean_of_a_service_whose_minutes_go_like_the_last(alike: float, least: float) -> None:
    rng, held = random.Random(3), 0
    for _ in range(600):
        level, minutes = rng.gauss(0, 1), []
        for _ in range(40):
            level = alike * level + math.sqrt(1 - alike**2) * rng.gauss(0, 1)
            minutes.append(5 + level)
        _, low, high = blocks.of_ratio(minutes, [1] * 40)
        held += (low or 0.0) <= 5 <= (high or 0.0)
    assert held / 600 >= least


def test_a_ratio_without_blocks_has_no_interval() -> None:
    assert blocks.of_ratio([3], [10]) == (0.3, None, None)


def test_values_are_read_off_between_two_known_shares() -> None:
    shares, values = (0.0, 0.5, 1.0), (10.0, 100.0, 1000.0)
    assert blocks.read_off(shares, values, 0.5) == 100
    assert blocks.read_off(shares, values, 0.75) == pytest.approx(316.2, abs=0.1)
    assert blocks.read_off(shares, values, 1.01) is None
    assert blocks.read_off(shares, (10.0, 100.0, None), 0.75) is None
