"""Attempts in the order of their starts, which polars sorts in a third of what a window of DuckDB takes."""

import polars as pl

from llmdoctor.store import Store


def write_ranks(store: Store) -> None:
    """Fills `ranks`: the rowid `r` of each attempt, its place `n` by start, those without one last, and the place `k`
    of the first with the same start."""
    rows = pl.DataFrame(store.arrow("select rowid as r, epoch_us(started_at) as start_us from attempts"))
    start, n = pl.col("start_us"), pl.col("n")
    ranks = (
        rows.sort("start_us", nulls_last=True)
        .with_row_index("n", 1)
        .select("r", n.cast(pl.Int64), k=pl.when(start.ne_missing(start.shift(1)) | (n == 1)).then(n).forward_fill())
    )
    store.lend("lent", ranks)
    store.script("create or replace temp table ranks as select r, n, cast(k as bigint) as k from lent")
    store.take_back("lent")


def longest_gaps(store: Store) -> dict[int, float]:
    """Input -> longest time between two neighbouring starts, in milliseconds."""
    starts = "select input_id, epoch_us(started_at) as start_us from attempts where started_at is not null"
    rows = pl.DataFrame(store.arrow(starts)).sort("start_us")
    gaps = rows.group_by("input_id").agg(pl.col("start_us").diff().max()).drop_nulls()
    return {input_id: gap_us / 1000.0 for input_id, gap_us in gaps.rows()}
