"""The three quantities of speed, each by its typical request and its tail."""

from collections.abc import Sequence
from dataclasses import dataclass

from llmdoctor.compare.values import Change

QUANTITIES = {"ttft_ms": "TTFT", "total_ms": "total", "tpot_ms": "TPOT"}


@dataclass(frozen=True)
class Speed:
    """P50 and tail (P99 where it tells something, else P95) of one quantity."""

    name: str
    typical: Change | None
    tail: Change | None

    @property
    def states(self) -> tuple[str, str]:
        """How both moved: better, worse, same or few."""
        return plain(self.typical), plain(self.tail)

    @property
    def moved(self) -> bool:
        """Whether one of them got better or worse."""
        return bool({"better", "worse"}.intersection(self.states))

    def size(self) -> float:
        """The larger of both changes as a factor, 1 where neither moved."""
        changes = [one for one in (self.typical, self.tail) if one and plain(one) in ("better", "worse")]
        return max(map(ratio, changes), default=1.0)


def plain(change: Change | None) -> str:
    """better, worse, same, or few where nothing can be said."""
    if change is None or change.state in ("few", "untold"):
        return "few"
    return change.state if change.state in ("better", "worse") else "same"


def ratio(change: Change) -> float:
    """The larger over the smaller of both values."""
    low, high = sorted((max(change.before or 0.0, 1e-6), max(change.after or 0.0, 1e-6)))
    return high / low


def speeds(figures: Sequence[Change]) -> list[Speed]:
    """The quantities that are known."""
    known = {one.name: one for one in figures}
    found = []
    for name in QUANTITIES:
        tails = [known[key] for key in (f"{name}.p99", f"{name}.p95") if key in known]
        told = [one for wanted in (("better", "worse"), ("same",), ("few",)) for one in tails if plain(one) in wanted]
        typical, tail = known.get(f"{name}.p50"), next(iter(told), None)
        if typical or tail:
            found.append(Speed(name, typical, tail))
    return found
