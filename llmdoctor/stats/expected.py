"""What an attempt of its kind takes (`expected`), what runs beside it (`in_flight`), who was tried again (`tried`)."""

from collections.abc import Sequence

import polars as pl

from llmdoctor.errors import StoreError
from llmdoctor.stats.quantiles import nearest_rank
from llmdoctor.store import Store, package_sql, padded

APART = """
select count(*) from attempt_rows a positional join expected e where a.attempt_id is distinct from e.attempt_id
"""

ENOUGH = 200_000
"""Rows to learn from."""


def write_expected(store: Store) -> None:
    """The table `expected`, the view `in_flight`, and `attempts_expected`: the rows of both side by side.

    `expected` has its rows in the order of `attempt_rows`, which `attempts` shows: meeting by their places costs a
    tenth of a join by attempt_id, from a million rows on. It is one thread's work, so it is a view of its own, for
    those who read the columns of both."""
    every = store.columns("attempts")
    rows = padded(every, store.columns("attempt_rows"), "a.")
    store.script("set preserve_insertion_order = true")
    store.lend("lent", _beside(store))
    store.script("create temp table beside as select * from lent")
    store.take_back("lent")
    _side_by_side(store, [rows, "e.others", "e.idle_ms", "e.load"], "beside")
    store.script(package_sql("derived/sized.sql"))
    # As written, the small tables are those that are looked up, and the rows stay in their order.
    store.script("set disabled_optimizers = 'join_order,build_side_probe_side'")
    n = store.run("select count(*) from attempts")[0][0]
    store.script(package_sql("derived/answered.sql").format(n=n, every=max(1, n // ENOUGH)))
    for step in ("fit", "quiet", "fit", "expected"):
        store.script(package_sql(f"derived/{step}.sql"))
    store.script("reset disabled_optimizers; set preserve_insertion_order = false")
    added = [f"e.{name}" for name in store.columns("expected") if name not in every]
    # Of a positional join alone DuckDB expects no row, and holds all of them in memory where they meet another table: a
    # branch that gives none is there for its estimate.
    as_many = padded({**every, **store.columns("expected")}, store.columns("attempt_rows"), "a.")
    for_size = f" union all select {as_many} from attempt_rows a where a.rowid < 0"
    _side_by_side(store, [rows, *added], "expected", for_size)
    if store.run(APART)[0][0]:
        raise StoreError("attempts and expected are not in one order")


def _side_by_side(store: Store, columns: Sequence[str], other: str, more: str = "") -> None:
    store.script(
        f"create or replace view attempts_expected as select {', '.join(columns)}"
        f" from attempt_rows a positional join {other} e{more}"
    )


def _beside(store: Store) -> pl.DataFrame:
    """What was running beside each attempt at its vantage, in the order of attempt_rows: `others` are the starts before
    it less the ends up to it, `idle_ms` is how long none had run; null without both times."""
    times = """
        select rowid as place, attempt_id, vantage, epoch_us(ended_at) as end_us,
               case when started_at <= ended_at and time_basis is distinct from 'relative'
                    then epoch_us(started_at) end as start_us
        from   attempt_rows"""
    rows = pl.DataFrame(store.arrow(times))
    if not rows["place"].is_sorted():
        rows = rows.sort("place")
    rows = rows.with_columns(place=pl.int_range(len(rows), eager=True))
    known = rows.filter(pl.col("start_us").is_not_null()).sort("attempt_id")  # a rank by start
    found = pl.concat([_of_vantage(part) for part in known.partition_by("vantage")] or [_of_vantage(known)])
    missing = rows["place"].filter(rows["start_us"].is_null())
    nothing = (pl.lit(None, kind).alias(name) for name, kind in found.schema.items() if name != "place")
    return pl.concat([found, missing.to_frame().with_columns(*nothing)]).sort("place").drop("place")


def _of_vantage(rows: pl.DataFrame) -> pl.DataFrame:
    ends = rows["end_us"].sort()
    ended = ends.search_sorted(rows["start_us"], side="right").cast(pl.Int64)
    others = (pl.int_range(len(rows), eager=True) - ended).clip(0).cast(pl.Int32)
    alone = (ended > 0) & (others == 0)
    idle = pl.select(pl.when(alone).then(rows["start_us"] - ends.gather((ended - 1).clip(0))) / 1000).to_series()
    return pl.DataFrame({"place": rows["place"], "others": others, "idle_ms": idle, "load": _load(others)})


def _load(others: pl.Series) -> pl.Series:
    """calm: at most half the median (or the lowest tenth); busy: the highest quarter; else usual."""
    kinds = pl.Enum(["calm", "busy", "usual"])
    if others.is_empty():
        return pl.Series([], dtype=kinds)
    ranked = others.sort()
    lowest, middle, high = (ranked[nearest_rank(len(ranked), q) - 1] for q in (0.1, 0.5, 0.75))
    calm, busy = others <= max(middle // 2, lowest), others >= max(high, 1)
    names = {name: pl.lit(name, kinds) for name in kinds.categories}
    chosen = pl.when(calm).then(names["calm"]).when(busy).then(names["busy"]).otherwise(names["usual"])
    return pl.select(chosen).to_series()


def write_tried(store: Store) -> None:
    """Most logs have no task that was tried twice: sorted hashes tell that for a third of what the query would cost."""
    task = "coalesce(task_id, trace_id, prompt_hash || ' ' || coalesce(caller, ''))"  # as in tried.sql
    hashes = pl.DataFrame(store.arrow(f"select hash(vantage, {task}) as h from attempts where {task} is not null"))["h"]
    hashes = hashes.sort()
    if (hashes == hashes.shift(1)).any():
        store.script(package_sql("derived/tried.sql"))
