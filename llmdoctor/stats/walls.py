"""Durations on which failures pile up (`walls`)."""

import polars as pl

from llmdoctor.store import Store


def write_walls(store: Store) -> None:
    """Within 1 % of one value, at least 3 attempts and a fifth of those with that outcome; the three largest."""
    store.script(
        "create table walls (vantage varchar, outcome varchar, wall_ms double, hits bigint, of_rows bigint,"
        " hit_share double)"
    )
    frame = pl.DataFrame(
        store.arrow(
            "select vantage, outcome, total_ms from attempts where total_ms >= 100 and vantage is not null"
            " and outcome in ('timeout', 'failed', 'cancelled', 'incomplete') order by vantage, outcome, total_ms"
        )
    )
    rows = []
    for (vantage, outcome), part in frame.group_by("vantage", "outcome", maintain_order=True):
        rows += [(vantage, outcome, *wall) for wall in find_walls(part["total_ms"])]
    store.insert("walls", ["vantage", "outcome", "wall_ms", "hits", "of_rows", "hit_share"], rows)


def find_walls(sorted_ms: pl.Series) -> list[tuple[float, int, int, float]]:
    """(wall_ms, hits, of_rows, hit_share), most hits first, of an ascending series of durations."""
    total, rest = len(sorted_ms), sorted_ms
    walls: list[tuple[float, int, int, float]] = []
    while len(walls) < 3 and len(rest) >= 3:
        ends = rest.search_sorted(rest * 1.01, side="right")
        hits = ends.cast(pl.Int64) - pl.int_range(len(rest), eager=True)
        first = int(hits.arg_max() or 0)
        count = int(hits.to_list()[first])
        if count < 3 or count < 0.2 * total:
            break
        inside = rest.slice(first, count)
        walls.append((float(inside[count // 2]), count, total, count / total))
        rest = pl.concat([rest.slice(0, first), rest.slice(first + count)])
    return walls
