"""What else changed between two samples: an effect can be laid to one change only where it was the only one."""

from collections.abc import Iterator, Mapping

from llmdoctor.compare.values import Other
from llmdoctor.diagnose.sample import Sample, Trait
from llmdoctor.diagnose.values import six

FACTOR = 1.25
"""A median or a rate counts as moved from here on."""
POINTS = 0.1
"""A share counts as moved from here on."""
EXPECTED = 10
"""A name is missing on a side where so many of its attempts would be expected there."""

NUMBERS = {
    "per_minute": ("requests a minute, first tries", False),
    "in_flight": ("requests in flight", False),
    "input_tokens": ("prompt tokens, median", False),
    "output_tokens": ("answer tokens, median", False),
    "cached_share": ("prompt tokens from the cache", True),
    "max_tokens": ("max_tokens, median", False),
    "limited_share": ("requests with max_tokens", True),
    "stream_share": ("streamed", True),
}
NAMES = {
    "model": "models",
    "app_version": "application versions",
    "prompt_version": "prompt versions",
    "instance": "instances",
    "region": "regions",
    "route": "routes",
}
OUTCOMES = frozenset({"in_flight"})
"""What follows from the times themselves: shown, but no change of its own."""


def others(before: Sample, after: Sample) -> tuple[Other, ...]:
    """What both samples know beside the times, what moved first."""
    sides = [{trait.name: trait for trait in sample.traits} for sample in (before, after)]
    found = [*_names(before, after, *sides), *_numbers(*sides)]
    return tuple(sorted(found, key=lambda one: not one.moved))


def _numbers(before: Mapping[str, Trait], after: Mapping[str, Trait]) -> Iterator[Other]:
    for name, (title, is_share) in NUMBERS.items():
        left, right = (side[name].value if name in side else None for side in (before, after))
        if left is None or right is None:
            continue
        low, high = sorted((left, right))
        moved = high - low >= POINTS if is_share else high >= FACTOR * low and high > low
        yield Other(name, title, _said(left, is_share), _said(right, is_share), moved)


def _said(value: float, is_share: bool) -> str:
    if is_share:
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _names(before: Sample, after: Sample, left: Mapping[str, Trait], right: Mapping[str, Trait]) -> Iterator[Other]:
    for name, title in NAMES.items():
        sides = [dict(side[name].values) if name in side else {} for side in (left, right)]
        if not sides[0] or not sides[1]:
            continue
        counts = [sum(side.values()) for side in sides]
        shares = [{value: n / count for value, n in side.items()} for side, count in zip(sides, counts, strict=True)]
        gone = _missing(shares[0], sides[1], counts[1]) + _missing(shares[1], sides[0], counts[0])
        known = shares[0].keys() | shares[1].keys()
        apart = sum(abs(shares[0].get(value, 0.0) - shares[1].get(value, 0.0)) for value in known) / 2
        enough = min(before.n, after.n) >= 100
        moved = gone or (apart >= 2 * POINTS and enough)
        yield Other(name, title, _listed(shares[0]), _listed(shares[1]), bool(moved))


def _missing(shares: Mapping[str, float], other: Mapping[str, int], count: int) -> int:
    return sum(value not in other and share * count >= EXPECTED for value, share in shares.items())


def _listed(shares: Mapping[str, float]) -> str:
    names = [(value.partition("=")[2], share) for value, share in shares.items()]
    shown = ", ".join(
        f"{name} {100 * (six(share) or 0):.3g} %" if len(names) > 1 else name for name, share in names[:3]
    )
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
