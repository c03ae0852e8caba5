"""What moved where it is bad: spells of trouble on one side beside spells on the other.

A fault that comes in one long spell is one event: over the whole log no test can tell whether it comes by chance. But
within the spell there are many blocks of time, and whether those of one side are as bad as those of the other they do
tell: half as many failures in each block of the spell is no chance. Blocks are of a spell where they lie in the upper
of two groups, as far apart as can be (Otsu 1979), and blocks vary more than independent rows would.
"""

import bisect
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from llmdoctor.compare.numbers import Difference
from llmdoctor.diagnose import blocks
from llmdoctor.diagnose.sample import COURSE, SHARES, Course, Curve, Sample

UNEVEN = 2.0
"""Blocks that vary so many times more than independent rows would, alone or with their neighbours, come in spells."""
LEAST_BLOCKS = 5
"""A spell is of so many blocks, or what it was like is not known."""
FACTOR = 1.4
"""By so much the whole and the spells moved: one hour is worse than another by less, which one spell does not show."""
MISSED = 0.25
"""Where the other side has no spell at all, that is no chance as far as so few logs of its length would have none."""
LONGER = 1.3
"""Durations that moved by less are where they were, those of figures and of findings."""
Parts = Sequence[tuple[float, float]]


def moved(before: Course, after: Course, value: float, at: float | None = None) -> Difference | None:
    """The difference `value` of a figure as sure as spells make it; None where they tell nothing, or not what it does.
    `at`: the duration (ms) beyond which an attempt is slow; without one, the parts of the courses are counted."""
    sides = [[one for one in _parts(course, at) if one[1]] for course in (before, after)]
    if min(map(len, sides)) < 2 * LEAST_BLOCKS:
        return None
    inside = [_inside(parts) for parts in sides]
    spells = [[one for one, there in zip(*both, strict=True) if there] for both in zip(sides, inside, strict=True)]
    if min(map(len, spells)) < LEAST_BLOCKS or _missed(inside) > MISSED:
        return None
    wholes, levels = ([_share(parts) for parts in both] for both in (sides, spells))
    if not all(_apart(pair) for pair in (wholes, levels)):
        return None
    if len({pair[1] > pair[0] for pair in (wholes, levels)} | {value > 0}) > 1:
        return None
    rows = [sum(n for _, n in parts) for parts in spells]
    common = sum(level * n for level, n in zip(levels, rows, strict=True)) / sum(rows)
    error = math.sqrt(sum(_variance(parts, common) for parts in spells))
    # One row a side is no difference (Yates).
    far = max(0.0, abs(levels[1] - levels[0]) - sum(1 / n for n in rows) / 2)
    if not (error and far):
        return None
    z = far / error
    half = abs(value) * blocks.NORMAL / z
    return Difference(value, value - half, value + half, math.erfc(z / math.sqrt(2)))


def longer(before: Sample, after: Sample, name: str, share: float) -> Difference | None:
    """The difference of how many attempts take longer than all but `share` of both sides together; None where their
    courses are not kept or tell nothing."""
    sides = [_of(sample, name) for sample in (before, after)]
    kept = [next((one for one in sample.curves if one.name == name), None) for sample in (before, after)]
    one, other = sides
    if one is None or other is None or None in kept or not 0 < share < 1:
        return None
    at = _quantile([curve for curve in kept if curve], 1 - share)
    there = [_quantile([curve], 1 - share) for curve in kept if curve]
    if max(there) < LONGER * min(there):
        return None
    beyond = [_share(list(_parts(course, at))) for course in (one, other)]
    return moved(one, other, beyond[1] - beyond[0], at)


def _of(sample: Sample, name: str) -> Course | None:
    return next((one for one in sample.courses if one.name == name), None)


def _quantile(sides: Sequence[Curve], q: float) -> float:
    """A duration (ms) of both sides together, each counted as much: between two known ones, for they may lie apart."""
    curves = [[(value, share) for value, share in zip(one.values, SHARES, strict=True) if value] for one in sides]
    known = sorted({value for curve in curves for value, _ in curve})
    place = bisect.bisect_left(known, q * len(curves), key=lambda value: sum(_at(curve, value) for curve in curves))
    return math.sqrt(known[max(0, place - 1)] * known[min(place, len(known) - 1)])


def _at(curve: Sequence[tuple[float, float]], at: float) -> float:
    """The largest share at or below a value."""
    return max((share for value, share in curve if value <= at), default=0.0)


def _parts(course: Course, at: float | None) -> Iterator[tuple[float, float]]:
    """Of each block, how many attempts are affected and how many there are."""
    if at is None:
        yield from zip(course.parts, course.wholes, strict=True)
    else:
        for grid, n in zip(course.grids, course.wholes, strict=True):
            yield (1 - _below(grid, at)) * n, n


def _below(grid: Sequence[float], at: float) -> float:
    """The share of a block at or below a value, between two known ones by a line on a logarithmic scale."""
    place = bisect.bisect_right(grid, at)
    if place == 0:
        return 0.0
    if place == len(grid):
        return 1.0
    low, high = max(grid[place - 1], 1e-6), max(grid[place], 1e-6)
    part = math.log(max(at, 1e-6) / low) / math.log(high / low) if high > low else 1.0
    return COURSE[place - 1] + part * (COURSE[place] - COURSE[place - 1])


def _share(parts: Parts) -> float:
    return sum(part for part, _ in parts) / (sum(n for _, n in parts) or 1)


def _apart(shares: Sequence[float]) -> bool:
    low, high = sorted(shares)
    return high >= FACTOR * low and high > low


def _inside(parts: Parts) -> list[bool]:
    """Whether each block is of a spell; all are where there are none."""
    share = _share(parts)
    uneven = 0 < share < 1 and blocks.clustering(share, *map(list, zip(*parts, strict=True))) >= UNEVEN
    if not uneven:
        return [True] * len(parts)
    # A block is as its neighbours are: few affected ones lie in some of the blocks of a spell only.
    levels = [_share(parts[max(0, at - 1) : at + 2]) for at in range(len(parts))]
    ordered = sorted(levels)
    least = ordered[max(range(1, len(ordered)), key=lambda place: _between(ordered, place))]
    return [level >= least for level in levels]


def _missed(sides: Sequence[Sequence[bool]]) -> float:
    """How likely a log of the same length shows no spell by chance, where only one side has any: so much of the time as
    on that side, in as many pieces, both lengths of waiting without memory; 0 where both have spells or neither."""
    uneven = [inside for inside in sides if not all(inside)]
    if len(uneven) != 1:
        return 0.0
    inside = uneven[0]
    pieces = inside[0] + sum(there and not before for before, there in pairwise(inside))
    calm = 1 - sum(inside) / len(inside)
    return calm * math.exp(-pieces / calm)


def _between(ordered: Sequence[float], place: int) -> float:
    """How far the means of both parts of an ordered list lie apart, for their sizes."""
    low, high = ordered[:place], ordered[place:]
    return len(low) * len(high) * (sum(high) / len(high) - sum(low) / len(low)) ** 2


def _variance(parts: Parts, common: float) -> float:
    """Of a share, from block to block, the larger the less is known of it; no less than among independent rows."""
    affected, rows = [part for part, _ in parts], [n for _, n in parts]
    error = blocks.spread(affected, rows) * blocks.times_error(affected, rows) / blocks.NORMAL
    return max(error * error, common * (1 - common) / sum(rows))
