"""Raw scores -> probabilities: isotonic tables per field profile, from simulated cases of the tuning half only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from llmdoctor.diagnose.confidence import between
from tests.simulator.results import Result

Seen = tuple[float, bool]  # a raw score, and whether the cause was really at work
Knots = tuple[tuple[float, float], ...]
ENOUGH = 20  # times that a cause must have been listed for a table of its own
WEIGHT = 8.0  # of the pooled table in a cause's own one, in cases
LEAST = 0.01


def listings(results: Sequence[Result]) -> dict[str, list[Seen]]:
    """Every cause that was listed, with its score and whether it was true."""
    found: dict[str, list[Seen]] = defaultdict(list)
    for one in results:
        for cause in one.listed:
            found[cause.id].append((cause.score, one.true(cause.id)))
    return dict(sorted(found.items()))


def isotonic(points: Sequence[tuple[float, float, float]]) -> Knots:
    """Pool adjacent violators over (score, share, weight): knots (score, probability) that ascend in both.

    Barlow et al. 1972. The ends of a flat stretch are knots; between stretches the table is read linearly."""
    blocks: list[list[float]] = []  # first score, last score, sum, weight
    for score, share, weight in sorted(points):
        blocks.append([score, score, share * weight, weight])
        while len(blocks) > 1 and blocks[-2][2] / blocks[-2][3] >= blocks[-1][2] / blocks[-1][3]:
            _, last, total, weighed = blocks.pop()
            blocks[-1] = [blocks[-1][0], last, blocks[-1][2] + total, blocks[-1][3] + weighed]
    found, least = list[tuple[float, float]](), 0.0
    for first, last, total, weight in blocks:
        least = max(least, round(_inside(total, weight), 3))
        found += [(score, least) for score in sorted({first, last})]
    return tuple(found)


def _inside(total: float, weight: float) -> float:
    """Half a case on either side: no table says never or always."""
    return min(1 - LEAST, max(LEAST, (total + 0.5) / (weight + 1)))


def pooled(seen: Sequence[Seen]) -> Knots:
    """One table from all listings, every score of which is a point."""
    return isotonic(_points(seen, lambda _score: 0.5, 0.0))


def own(seen: Sequence[Seen], everyone: Knots) -> Knots:
    """The table of one cause: its own listings, and those of all as if they were ``WEIGHT`` cases."""
    weight = WEIGHT / len({round(score, 3) for score, _ in seen})
    return isotonic(_points(seen, lambda score: between(everyone, score), weight))


def _points(seen: Sequence[Seen], guess: Callable[[float], float], weight: float) -> list[tuple[float, float, float]]:
    counted: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for score, right in seen:
        counted[round(score, 3)][0] += right
        counted[round(score, 3)][1] += 1
    return [
        (score, (hits + weight * guess(score)) / (n + weight), n + weight)
        for score, (hits, n) in sorted(counted.items())
    ]


def tables(results: Sequence[Result]) -> dict[str, tuple[Knots, dict[str, Knots]]]:
    """Of each profile the pooled table and those of the causes that were listed often enough."""
    found: dict[str, tuple[Knots, dict[str, Knots]]] = {}
    for fields in ("full", "client"):
        seen = listings([one for one in results if one.fields == fields and not one.failure])
        everyone = pooled([pair for pairs in seen.values() for pair in pairs])
        found[fields] = (
            everyone,
            {cause: own(pairs, everyone) for cause, pairs in seen.items() if len(pairs) >= ENOUGH},
        )
    return found


def confidence(table: tuple[Knots, dict[str, Knots]], cause: str, score: float) -> float:
    """What the engine shows for a score (llmdoctor/diagnose/confidence.py)."""
    return between(table[1].get(cause, table[0]), score)


def as_toml(found: dict[str, tuple[Knots, dict[str, Knots]]], head: str) -> str:
    """The text of rules/calibration.toml."""
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    for fields, (everyone, causes) in found.items():
        lines += ["", f"[{fields}]", f"pooled = {_listed(everyone)}", "", f"[{fields}.causes]"]
        lines += [f"{cause} = {_listed(knots)}" for cause, knots in sorted(causes.items())]
    return "\n".join(lines) + "\n"


def _listed(knots: Knots) -> str:
    return "[" + ", ".join(f"[{score:g}, {share:g}]" for score, share in knots) + "]"
