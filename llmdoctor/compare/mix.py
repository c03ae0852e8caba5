"""The same figures at equal mix: kinds of requests that both sides have, weighted as they were before.

Requests of a kind (one model, streamed or not, lengths within a factor of two) take nearly alike; what their lengths
still differ in is taken out with the power of the length that durations follow from kind to kind before. Failures and
timeouts are evened by model alone: what failed often tells no length.

Each side's own figure is multiplied by what the mix does to it among its kinds (direct standardization, as a ratio), so
that what the kinds leave out, such as requests that were cut off, stays in.
"""

import bisect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypeVar

from llmdoctor.diagnose.sample import GRID, Kind, Sample

LEAST_OF_KIND = 2
"""A kind counts as shared where both sides have so many of it."""
COVERED = 0.6
"""Kinds that both sides have must be this share of one, or equal mix says nothing about either."""
LEAST_COVERED = 0.1
"""Of the other one, which has other requests besides; its interval is the wider for it."""
CHANCE = 0.01
"""Two mixes are as far apart by chance as rarely as this, or they are told apart at all."""

MEDIAN = GRID.index(0.5)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
K = TypeVar("K", bound=Hashable)
ENDINGS = {"timeout_share": "timeouts", "error_share": "bad"}


@dataclass(frozen=True)
class Even:
    """A figure at equal mix on both sides. `covered` is the smaller share of requests of kinds that both have,
    `stretch` how much wider an interval becomes by weighting."""

    before: float
    after: float
    covered: float
    stretch: float


def even(before: Sample, after: Sample, name: str, values: tuple[float, float]) -> Even | None:
    """The figure `name` with its raw `values` at equal mix; None where it is not known by kind, where too few kinds
    are shared, or where the mix did not move beyond chance."""
    quantity, _, word = name.partition(".")
    if quantity in ENDINGS:
        return _by_model(before, after, ENDINGS[quantity], values)
    pair = {
        "ttft_ms": ((before.first_kinds, before.firsts), (after.first_kinds, after.firsts)),
        "total_ms": ((before.total_kinds, before.totals), (after.total_kinds, after.totals)),
        "tpot_ms": ((before.pace_kinds, before.paces), (after.pace_kinds, after.paces)),
        "cost_per_task": ((_priced(before), before.totals), (_priced(after), after.totals)),
    }.get(quantity)
    if pair is None:
        return None
    (first, whole), (second, whole_after) = pair
    if not _other(before, after):
        return None
    if quantity == "cost_per_task":
        return _by_kind(first, second, (whole, whole_after), values, _mean_cost, lambda kind: kind.cost or 0.0)
    q = QUANTILES[word]
    return _by_kind(
        first, second, (whole, whole_after), values, lambda kinds: _quantile(kinds, q), lambda kind: kind.grid[MEDIAN]
    )


def _other(before: Sample, after: Sample) -> bool:
    """Whether the requests are others, by any kinds that they are told apart by."""
    both = (
        (before.total_kinds, after.total_kinds),
        (before.first_kinds, after.first_kinds),
        (before.pace_kinds, after.pace_kinds),
    )
    return any(_moved(*({_key(kind): kind.n for kind in kinds} for kinds in pair)) for pair in both)


def _priced(sample: Sample) -> tuple[Kind, ...]:
    return tuple(kind for kind in sample.total_kinds if kind.cost)


Weighted = Sequence[tuple[float, Kind]]


def _by_kind(
    first: Sequence[Kind],
    second: Sequence[Kind],
    wholes: tuple[int, int],
    values: tuple[float, float],
    figure: Callable[[Weighted], float],
    typical: Callable[[Kind], float],
) -> Even | None:
    left, right = ({_key(kind): kind for kind in kinds} for kinds in (first, second))
    counts = [{key: kind.n for key, kind in kinds.items()} for kinds in (left, right)]
    keys = [key for key in left if key in right and min(left[key].n, right[key].n) >= LEAST_OF_KIND]
    told = _weights(keys, counts[0], counts[1], wholes)
    if told is None:
        return None
    weights, covered, stretch = told
    power = _power([left[key] for key in keys], typical)
    alike: Weighted = [(weights[key], _as_long(right[key], left[key], power)) for key in keys]
    factors = (
        figure([(weights[key], left[key]) for key in keys]) / max(figure(_all(first)), 1e-9),
        figure(alike) / max(figure(_all(second)), 1e-9),
    )
    return Even(values[0] * factors[0], values[1] * factors[1], covered, stretch)


def _by_model(before: Sample, after: Sample, part: str, values: tuple[float, float]) -> Even | None:
    left, right = ({one.model: one for one in sample.endings} for sample in (before, after))
    counts = [{name: one.n for name, one in ends.items()} for ends in (left, right)]
    if not _moved(*counts):
        return None
    keys = [name for name in left if name in right]
    told = _weights(keys, counts[0], counts[1], (before.n, after.n))
    if told is None:
        return None
    weights, covered, stretch = told
    now = {name: getattr(one, part) / one.n for name, one in right.items()}
    then = {name: getattr(one, part) / one.n for name, one in left.items()}
    raws = [sum(side[name] * n for name, n in count.items()) / sum(count.values())
            for side, count in zip((then, now), counts, strict=True)]  # fmt: skip
    evens = [sum(weight * side[name] for name, weight in weights.items()) for side in (then, now)]
    if not all(raws):
        return None
    return Even(values[0] * evens[0] / raws[0], values[1] * evens[1] / raws[1], covered, stretch)


def _weights(
    keys: Sequence[K], first: Mapping[K, int], second: Mapping[K, int], wholes: tuple[int, int]
) -> tuple[dict[K, float], float, float] | None:
    """The share of each shared kind before, how much of both sides is of shared kinds, and the stretch; None where
    that is too little."""
    rows = [sum(side[key] for key in keys) for side in (first, second)]
    if not all(rows) or not all(wholes):
        return None
    covered, most = sorted(row / whole for row, whole in zip(rows, wholes, strict=True))
    if most < COVERED or covered < LEAST_COVERED:
        return None
    weights = {key: first[key] / rows[0] for key in keys}
    # Kish: n rows of uneven weights vary as much as fewer of even ones.
    uneven = rows[1] * sum(weight * weight / second[key] for key, weight in weights.items())
    return weights, min(covered, 1.0), math.sqrt(max(1.0, uneven) / covered)


def _moved(first: Mapping[K, int], second: Mapping[K, int]) -> bool:
    """Whether two sets of counts differ beyond chance (chi-squared test of homogeneity; those expected less than five
    times on a side are one; its tail by Wilson and Hilferty 1931)."""
    whole = sum(first.values()), sum(second.values())
    if not all(whole):
        return False
    rare, cells = [0, 0], list[tuple[int, int]]()
    for key in dict.fromkeys((*first, *second)):
        pair = first.get(key, 0), second.get(key, 0)
        if sum(pair) * min(whole) < 5 * sum(whole):
            rare = [rare[0] + pair[0], rare[1] + pair[1]]
        else:
            cells.append(pair)
    if sum(rare):
        cells.append((rare[0], rare[1]))
    free = len(cells) - 1
    if free < 1:
        return False
    distance = 0.0
    for pair in cells:
        for n, total in zip(pair, whole, strict=True):
            expected = sum(pair) * total / sum(whole)
            distance += (n - expected) ** 2 / expected
    step = 2 / (9 * free)
    tail: float = ((distance / free) ** (1 / 3) - (1 - step)) / math.sqrt(step)
    return tail > NormalDist().inv_cdf(1 - CHANCE)


def _key(kind: Kind) -> Hashable:
    return kind.model, kind.stream, kind.input_band, kind.output_band


def _all(kinds: Sequence[Kind]) -> Weighted:
    whole = sum(kind.n for kind in kinds)
    return [(kind.n / whole, kind) for kind in kinds]


def _power(kinds: Sequence[Kind], typical: Callable[[Kind], float]) -> float:
    """The power of the length with which `typical` grows over kinds of one model: least squares on logarithms, each
    kind by its requests, within 0 and 1; 0 where lengths are not known."""
    across = along = 0.0
    for model in {(kind.model, kind.stream) for kind in kinds}:
        own = [one for one in kinds if (one.model, one.stream) == model and one.tokens and typical(one) > 0]
        points = [(one.n, math.log(one.tokens or 1), math.log(typical(one))) for one in own]
        whole = sum(n for n, _, _ in points) or 1
        middle = sum(n * x for n, x, _ in points) / whole
        along += sum(n * (x - middle) ** 2 for n, x, _ in points)
        across += sum(n * (x - middle) * y for n, x, y in points)
    return min(1.0, max(0.0, across / along)) if along else 0.0


def _as_long(kind: Kind, like: Kind, power: float) -> Kind:
    """The kind as if its requests were as long as those of the other one."""
    if not kind.tokens or not like.tokens:
        return kind
    factor = (like.tokens / kind.tokens) ** power
    cost = None if kind.cost is None else kind.cost * factor
    return replace(kind, grid=tuple(value * factor for value in kind.grid), cost=cost)


def _mean_cost(kinds: Weighted) -> float:
    return sum(weight * (kind.cost or 0.0) for weight, kind in kinds)


def below(kind: Kind, value: float) -> float:
    """The share of a kind that takes at most so long, between grid points on a logarithmic scale."""
    place = bisect.bisect_right(kind.grid, value)
    if place == 0:
        return 0.0
    if place == len(kind.grid):
        return 1.0
    low, high = max(kind.grid[place - 1], 1e-6), max(kind.grid[place], 1e-6)
    part = math.log(max(value, 1e-6) / low) / math.log(high / low) if high > low else 1.0
    return GRID[place - 1] + part * (GRID[place] - GRID[place - 1])


def _quantile(kinds: Weighted, q: float) -> float:
    low = math.log(max(min(kind.grid[0] for _, kind in kinds), 1e-6))
    high = math.log(max(1e-6, *(kind.grid[-1] for _, kind in kinds)))
    for _ in range(50):
        middle = (low + high) / 2
        if sum(weight * below(kind, math.exp(middle)) for weight, kind in kinds) >= q:
            high = middle
        else:
            low = middle
    return math.exp(high)
