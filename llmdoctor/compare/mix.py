"""The same figures at equal mix: kinds of requests that both sides have, weighted as they were before.

Requests of a kind (one model, streamed or not, lengths within a factor of two) take nearly alike; what their lengths
still differ in is taken out with the power of the length that durations follow from kind to kind before.
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmdoctor.diagnose.sample import GRID, Kind, Sample

LEAST_OF_KIND = 2
"""A kind counts as shared where both sides have so many of it."""

MEDIAN = GRID.index(0.5)

Key = tuple[str | None, bool | None, int | None, int | None]


@dataclass(frozen=True)
class Shared:
    """Kinds that both sides have: (weight, before, after). `covered` is the smaller share of requests of such kinds,
    `stretch` how much wider an interval becomes by weighting."""

    kinds: tuple[tuple[float, Kind, Kind], ...]
    covered: float
    stretch: float

    def quantile(self, q: float) -> tuple[float, float]:
        """The value (ms) at `q` before and after."""
        sides = (
            [(weight, before) for weight, before, _ in self.kinds],
            [(weight, after) for weight, _, after in self.kinds],
        )
        before, after = (_quantile(kinds, q) for kinds in sides)
        return before, after


def shared(before: Sample, after: Sample, name: str) -> Shared | None:
    """What both samples have of `total_ms` or `ttft_ms`; None where that is nothing."""
    first, total = (before.total_kinds, before.totals) if name == "total_ms" else (before.first_kinds, before.firsts)
    second, whole = (after.total_kinds, after.totals) if name == "total_ms" else (after.first_kinds, after.firsts)
    others = {_key(kind): kind for kind in second if kind.n >= LEAST_OF_KIND}
    pairs = [(kind, others[_key(kind)]) for kind in first if kind.n >= LEAST_OF_KIND and _key(kind) in others]
    if not pairs or not total or not whole:
        return None
    rows = [sum(pair[place].n for pair in pairs) for place in (0, 1)]
    power = _power([one for one, _ in pairs])
    kinds = tuple((one.n / rows[0], one, _as_long(other, one, power)) for one, other in pairs)
    covered = [rows[0] / total, rows[1] / whole]
    # Kish: n rows of uneven weights vary as much as fewer of even ones.
    uneven = rows[1] * sum(weight * weight / other.n for weight, _, other in kinds)
    return Shared(kinds, min(covered), math.sqrt(max(1.0, uneven) / max(min(covered), 0.01)))


def _key(kind: Kind) -> Key:
    return kind.model, kind.stream, kind.input_band, kind.output_band


def _power(kinds: Sequence[Kind]) -> float:
    """The power of the length with which the medians of kinds of one model grow: least squares on logarithms, each
    kind by its requests, within 0 and 1; 0 where lengths are not known."""
    across = along = 0.0
    for model in {(kind.model, kind.stream) for kind in kinds}:
        own = [one for one in kinds if (one.model, one.stream) == model and one.tokens and one.grid[MEDIAN] > 0]
        points = [(one.n, math.log(one.tokens or 1), math.log(one.grid[MEDIAN])) for one in own]
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
    return replace(kind, grid=tuple(value * factor for value in kind.grid))


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


def _quantile(kinds: Sequence[tuple[float, Kind]], q: float) -> float:
    low = math.log(max(min(kind.grid[0] for _, kind in kinds), 1e-6))
    high = math.log(max(*(kind.grid[-1] for _, kind in kinds), 1e-6))
    for _ in range(50):
        middle = (low + high) / 2
        if sum(weight * below(kind, math.exp(middle)) for weight, kind in kinds) >= q:
            high = middle
        else:
            low = middle
    return math.exp(high)
