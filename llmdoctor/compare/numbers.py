"""The arithmetic of a difference: its interval, how surprising it is, and which of many are beyond noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llmdoctor.diagnose.blocks import NORMAL


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, an open end None."""

    value: float
    low: float | None
    high: float | None

    def logarithm(self) -> "Estimate":
        """On the scale on which a ratio is a difference; values of 0 or less are taken as a millionth."""
        value, low, high = (
            None if one is None else math.log(max(one, 1e-6)) for one in (self.value, self.low, self.high)
        )
        return Estimate(value or 0.0, low, high)


@dataclass(frozen=True)
class Difference:
    """after - before with its 95 % interval (an open end None), and the two-sided probability of one so large."""

    value: float
    low: float | None
    high: float | None
    p_value: float


def difference(before: Estimate, after: Estimate, stretch: float = 1.0) -> Difference:
    """The difference of two independent estimates by the distances to their own ends (MOVER, Zou and Donner 2008);
    `stretch` widens it."""
    value = after.value - before.value
    below = _together(after.value, after.low, before.high, before.value, stretch)
    above = _together(after.high, after.value, before.value, before.low, stretch)
    reach = below if value > 0 else above
    if reach is None or (reach == 0 and value == 0):
        p_value = 1.0
    elif reach == 0:
        p_value = 0.0
    else:
        p_value = math.erfc(NORMAL * abs(value) / reach / math.sqrt(2))
    return Difference(
        value, None if below is None else value - below, None if above is None else value + above, p_value
    )


def _together(
    high: float | None, low: float | None, other_high: float | None, other_low: float | None, stretch: float
) -> float | None:
    if high is None or low is None or other_high is None or other_low is None:
        return None
    return stretch * math.hypot(high - low, other_high - other_low)


def beyond_noise(p_values: Sequence[float], rate: float) -> float:
    """The largest p value that counts, so that at most `rate` of what counts is chance (Benjamini and Hochberg 1995);
    below 0 where none does."""
    ordered = sorted(p_values)
    counted = [p for rank, p in enumerate(ordered, 1) if p <= rate * rank / len(ordered)]
    return counted[-1] if counted else -1.0


def shares_differ(before: tuple[int, int], after: tuple[int, int], clustered: float) -> float:
    """How many standard errors two shares, each (affected, total), lie apart (pooled score test); above 0: more after.
    `clustered` attempts tell no more than one."""
    share = (before[0] + after[0]) / (before[1] + after[1])
    error = math.sqrt(share * (1 - share) * clustered * (1 / before[1] + 1 / after[1]))
    return (after[0] / after[1] - before[0] / before[1]) / error if error else 0.0
