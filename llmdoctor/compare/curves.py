"""By which factor a duration moved: two whole distributions, beside two values of them.

Of both sides together, each counted by the independent attempts that tell as much, a quantile is taken; how many of
each lie beyond it says whether one is slower (Mood's test of the median, for any quantile). Of fixed and broken sides
that is clear with few requests, where each quantile by itself lies anywhere between the quick and the slow ones. The
interval holds the factors by which one side can be multiplied until the test no longer tells them apart.
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

from llmdoctor.compare.numbers import Difference
from llmdoctor.diagnose.blocks import NORMAL
from llmdoctor.diagnose.sample import QUANTILES, SHARES, Curve, Known

FARTHEST = 12.0
"""No duration moves by a larger power of e."""
STEPS = 30


@dataclass(frozen=True)
class Spread:
    """A curve on a logarithmic scale, up to where it is known, moved by `by`, and what a share of it is worth."""

    shares: Sequence[float]
    logs: Sequence[float]
    n: int
    known: Known
    by: float = 0.0
    lost: float = 0.0
    """So large a part of the attempts failed, and would have taken longer than all others."""

    @property
    def rows(self) -> float:
        """So many independent attempts tell as much."""
        return self.n / self.known.clustered

    @property
    def whole(self) -> bool:
        """Whether it is known up to its longest."""
        return len(self.logs) == len(SHARES)

    def at(self, place: int) -> float:
        """The logarithm at one of SHARES; beyond all where callers did not wait for so long."""
        return self.logs[place] + self.by if place < len(self.logs) else 2 * FARTHEST

    def below(self, value: float) -> float | None:
        """The share at or below a value, between two known ones by a line; None beyond what callers waited for."""
        value -= self.by
        place = bisect.bisect_right(self.logs, value)
        if place == 0:
            return 0.0
        if place == len(self.logs):
            return 1.0 if self.whole and not self.lost else None
        low, high = self.logs[place - 1], self.logs[place]
        part = (value - low) / (high - low)
        share = self.shares[place - 1] + part * (self.shares[place] - self.shares[place - 1])
        return share * (1 - self.lost)


def spread(curve: Curve, word: str, by: float = 0.0) -> Spread | None:
    """The curve as it is compared at the quantile `word`, its logarithms moved by `by`; None where it is not known."""
    known = next((one for one in curve.known if one.word == word), None)
    values = [value for value in curve.values if value is not None]
    if known is None or not values:
        return None
    return Spread(SHARES[: len(values)], [math.log(max(value, 1e-6)) for value in values], curve.n, known, by)


def moved(before: Spread, after: Spread, value: float, stretch: float = 1.0) -> Difference | None:
    """The difference `value` of a quantile's logarithms with its interval and how surprising it is; None where it is
    beyond what callers waited for."""
    q = QUANTILES[before.known.word]
    apart = _apart(before, after, q, 0.0, stretch)
    if apart is None:
        return None
    reach = _reach(before, after)

    def end(side: int) -> float | None:
        """Where the sides begin to be apart, None where they never are as far as callers waited."""
        inner, outer = value, value + side * FARTHEST
        for _ in range(STEPS):
            middle = (inner + outer) / 2
            there = _apart(before, after, q, middle, stretch)
            if there is not None and -side * there < reach:
                inner = middle
            else:
                outer = middle
        there = _apart(before, after, q, outer, stretch)
        return None if there is None or -side * there < reach else outer

    # Between two kinds of requests a quantile may jump the other way than most of them went: that tells nothing.
    p_value = math.erfc(abs(apart) * NORMAL / reach / math.sqrt(2)) if apart * value >= 0 else 1.0
    return Difference(value, end(-1), end(1), p_value)


def direction(before: Spread, after: Spread) -> int:
    """1: `after` is longer, beyond 95 %; -1: shorter; 0: neither, or not known."""
    apart = _apart(before, after, QUANTILES[before.known.word], 0.0, 1.0)
    return 0 if apart is None or abs(apart) < _reach(before, after) else 1 if apart > 0 else -1


def _apart(before: Spread, after: Spread, q: float, shift: float, stretch: float) -> float | None:
    """How many standard errors the two sides lie apart at their common quantile, `after` made shorter by `shift`; above
    0: `after` is slower."""
    at = _common(before, after, q, shift)
    if at is None:
        return None
    one, other = before.below(at), after.below(at + shift)
    if one is None or other is None:
        return None
    # One row a side is no difference (Yates).
    apart = max(0.0, abs(one - other) - (1 / before.rows + 1 / after.rows) / 2)
    share = (one * before.rows + other * after.rows) / (before.rows + after.rows)
    error = stretch * math.sqrt(share * (1 - share) * (1 / before.rows + 1 / after.rows))
    return math.copysign(apart / error, one - other) if error else 0.0


def _common(before: Spread, after: Spread, q: float, shift: float) -> float | None:
    """The least logarithm at or below which lie `q` of both sides."""
    rows = before.rows + after.rows
    low = min(before.logs[0] + before.by, after.logs[0] + after.by - shift)
    high = max(before.logs[-1] + before.by, after.logs[-1] + after.by - shift)

    def enough(at: float) -> bool | None:
        one, other = before.below(at), after.below(at + shift)
        return None if one is None or other is None else one * before.rows + other * after.rows >= q * rows

    if enough(low):
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        if enough(middle) is False:
            low = middle
        else:
            high = middle
    return high if enough(high) else None


def _reach(before: Spread, after: Spread) -> float:
    """How many standard errors an interval reaches: each side's lack of knowledge by its part of the variance."""
    parts = [1 / one.rows for one in (before, after)]
    further = sum(part**2 * one.known.reach for part, one in zip(parts, (before, after), strict=True))
    return NORMAL + further / sum(parts) ** 2
