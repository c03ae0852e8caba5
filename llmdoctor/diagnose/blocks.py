"""Intervals of shares, ratios and quantiles of a log, whose rows are no independent draws.

A log is cut into blocks of time. The sum of each block's deviations from the mean of all varies as much as the log
does from block to block; neighbouring blocks that deviate together count with Bartlett's weights (Newey and West 1987),
over as many neighbours as they do so (Andrews 1991, for a first-order autoregression); the more they are, the less is
known of that variance, and the further the interval reaches (Kiefer and Vogelsang 2005).
A quantile takes the interval of its share and reads both ends off the distribution (Woodruff 1952). Nothing is drawn at
random, so the same log gives the same interval.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

MOST_BLOCKS = 40
LEAST_ROWS_OF_BLOCKS = 64

NORMAL = NormalDist().inv_cdf(0.975)


def count_blocks(rows: int) -> int:
    """How many blocks a log of so many rows is cut into: of eight rows or more, at most 40; none of a small log."""
    return min(MOST_BLOCKS, rows // 8) if rows >= LEAST_ROWS_OF_BLOCKS else 0


def spread(parts: Sequence[float], wholes: Sequence[float]) -> float:
    """Standard error of sum(parts) / sum(wholes), from blocks in order of time. 0 with fewer than two blocks."""
    whole, blocks = sum(wholes), len(wholes)
    if blocks < 2 or not whole:
        return 0.0
    off = _off(parts, wholes)
    reach = _reach(off)
    total = sum(one * one for one in off)
    for lag in range(1, reach + 1):
        together = sum(one * other for one, other in zip(off, off[lag:], strict=False))
        total += 2 * (1 - lag / (reach + 1)) * together
    return math.sqrt(max(total, 0.0) * blocks / (blocks - 1)) / whole


def _off(parts: Sequence[float], wholes: Sequence[float]) -> list[float]:
    """How far each block is from the mean of all."""
    mean = sum(parts) / sum(wholes)
    return [part - mean * size for part, size in zip(parts, wholes, strict=True)]


def _reach(off: Sequence[float]) -> int:
    """How many neighbours of a block count: the cube root of the blocks, more where one block goes like the last."""
    blocks, total = len(off), sum(one * one for one in off)
    alike = sum(one * other for one, other in pairwise(off)) / total if total else 0.0
    alike = min(max(alike, 0.0), 0.97)
    bandwidth = 1.1447 * math.cbrt(4 * alike**2 / (1 - alike**2) ** 2 * blocks)
    return min(blocks - 1, max(round(math.cbrt(blocks)), round(bandwidth)))


def times_error(parts: Sequence[float], wholes: Sequence[float]) -> float:
    """How many standard errors the 95 % interval reaches to each side: the normal's without blocks, else the value of
    Kiefer and Vogelsang (2005, table I) for Bartlett's weights over that part of the blocks."""
    return NORMAL + further(parts, wholes)


def further(parts: Sequence[float], wholes: Sequence[float]) -> float:
    """How many standard errors further an interval reaches than the normal's, for the variance is not known well."""
    if len(wholes) < 2 or not sum(wholes):
        return 0.0
    part = (_reach(_off(parts, wholes)) + 1) / len(wholes)
    return 2.9694 * part + 0.4160 * part**2 - 0.5324 * part**3


def of_share(parts: Sequence[float], wholes: Sequence[float]) -> tuple[float, float, float]:
    """A share of rows with its 95 % interval (Wilson's, for the number of independent rows that would vary as much)."""
    whole = sum(wholes)
    share = sum(parts) / whole
    error, z = spread(parts, wholes), times_error(parts, wholes)
    alone = share * (1 - share) / error**2 if error else whole
    rows = min(alone, whole) if 0 < share < 1 else whole
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    return share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def of_ratio(parts: Sequence[float], wholes: Sequence[float]) -> tuple[float, float | None, float | None]:
    """sum(parts) / sum(wholes) with its 95 % interval, open without blocks."""
    ratio = sum(parts) / sum(wholes)
    if len(wholes) < 2:
        return ratio, None, None
    half = times_error(parts, wholes) * spread(parts, wholes)
    return ratio, max(0.0, ratio - half), ratio + half


def share_interval(q: float, below: Sequence[float], known: Sequence[float]) -> tuple[float, float]:
    """The shares between which the quantile `q` lies: `below` rows of each block are at or below its value, of `known`
    ones. Never narrower than for independent rows."""
    rows = sum(known)
    error = max(spread(below, known), math.sqrt(q * (1 - q) / rows))
    half = times_error(below, known) * error
    return q - half, q + half


def clustering(q: float, below: Sequence[float], known: Sequence[float]) -> float:
    """How many times more a share varies from block to block than it would among independent rows; at least 1."""
    rows = sum(known)
    return max(1.0, spread(below, known) ** 2 * rows / (q * (1 - q))) if 0 < q < 1 else 1.0


def read_off(shares: Sequence[float], values: Sequence[float | None], share: float) -> float | None:
    """The value at a share of a distribution given at ascending shares, between two of them on a logarithmic scale;
    None outside, or where a neighbour is not known."""
    if not shares[0] <= share <= shares[-1]:
        return None
    after = next(place for place, one in enumerate(shares) if one >= share)
    high = values[after]
    if shares[after] == share or high is None:
        return high
    low = values[after - 1]
    if low is None:
        return None
    part = (share - shares[after - 1]) / (shares[after] - shares[after - 1])
    return low * (high / low) ** part if low > 0 else low + part * (high - low)
