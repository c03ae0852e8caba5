"""Pairs of values that are worse together than either is alone: one model in one region, one tenant on one version.

From the table `counted` (slices.py), so that no attempt is read again. Columns of 2 to MOST_VALUES values are paired. A
pair counts where it passes Benjamini-Hochberg over all pairs and single values that were tried, and where the rest of
both of its values is well: bad attempts there are at most half as likely, beyond chance. Values that lie within one
another (a replica in its region) have no such rest and are left to the single value.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import polars as pl

from llmdoctor.stats.odds import bound, passing, slice_row
from llmdoctor.store import Row, Store

MOST_VALUES, LEAST_BAD, LEAST_REST = 20, 5, 10
TIMES_REST = 2.0
DIMENSIONS = ("instance", "app_version", "model", "region", "tenant")
COUNTED = ("rows", "bad", "calm", "calm_bad", "lost")


def find_crossed(store: Store, vantage: str, kinds: Sequence[str], singles: Sequence[Row]) -> list[Row]:
    """Rows of `slices` for the worst pair of each kind, if any counts; `dimension` is the column whose single value
    stands out more, the other one is `second`."""
    columns = [name for name in DIMENSIONS if 2 <= _values(store, name) <= MOST_VALUES]
    found: list[Row] = []
    for kind in kinds:
        alone = [row for row in singles if row["kind"] == kind]
        if sum(row["bad_in"] for row in alone[:1]) + sum(row["bad_out"] for row in alone[:1]) < 2 * LEAST_BAD:
            continue
        tried = [row for pair in combinations(columns, 2) for row in _pairs(store, vantage, kind, pair, alone)]
        passed = {id(row) for row in passing([*alone, *tried])}
        worse = [row for row in tried if id(row) in passed and row.pop("rest_is_well")]
        if worse:
            best = max(worse, key=lambda row: (row["lower_bound"], row["value"]))
            found.append(best | {"significant": True})
    return found


def _values(store: Store, name: str) -> int:
    return int(store.run(f"select count(distinct {name}) from counted")[0][0])


def _pairs(store: Store, vantage: str, kind: str, pair: tuple[str, str], alone: Sequence[Row]) -> Iterator[Row]:
    """Every pair of two columns that holds enough bad attempts, its own column first that tells more by itself."""
    sums = ", ".join(f"sum({kind}_{name})::bigint as {name}" for name in COUNTED)
    names = ", ".join(pair)
    grouped = f"select {names}, {sums} from counted group by {names}"
    frame = pl.DataFrame(store.arrow(grouped)).sort(pair)
    totals = {name: int(frame[name].sum()) for name in COUNTED}
    sides = [frame.group_by(name).agg(pl.col("rows", "bad").sum()).sort(name).rows() for name in pair]
    whole = [{value: (bad, rows) for value, rows, bad in side} for side in sides]
    bounds = {(row["dimension"], row["value"]): row["lower_bound"] for row in alone}
    enough = frame.drop_nulls(list(pair)).filter((pl.col("bad") >= LEAST_BAD) & (pl.col("rows") < totals["rows"]))
    for count in enough.iter_rows(named=True):
        values = [count[name] for name in pair]
        rests = [_less(side[value], count) for side, value in zip(whole, values, strict=True)]
        known = [bounds.get((name, value), 0.0) for name, value in zip(pair, values, strict=True)]
        first, other = (0, 1) if known[0] >= known[1] else (1, 0)
        label = f"{values[first]}, {pair[other]}={values[other]}"
        row = slice_row(vantage, kind, pair[first], count | {"value": label}, totals)
        well = all(_is_well((count["bad"], count["rows"]), rest) for rest in rests)
        yield row | {
            "own_value": values[first],
            "second": pair[other],
            "second_value": values[other],
            "rest_is_well": well and row["lower_bound"] > max(known),
        }


def _less(whole: tuple[int, int], count: Row) -> tuple[int, int]:
    return whole[0] - count["bad"], whole[1] - count["rows"]


def _is_well(inside: tuple[int, int], rest: tuple[int, int]) -> bool:
    """Whether bad attempts are far rarer in the rest of a value than in the pair."""
    if rest[1] < LEAST_REST:
        return False
    likelier = inside[0] / inside[1] >= TIMES_REST * (rest[0] + 0.5) / rest[1]
    return likelier and bound(inside, rest) > 0
