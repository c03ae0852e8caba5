"""What an attempt of its kind takes (`expected`), what runs beside it (`in_flight`), who was tried again (`tried`)."""

from collections.abc import Sequence

import polars as pl

from llmdoctor.stats.front import set_front
from llmdoctor.stats.quantiles import nearest_rank
from llmdoctor.store import Store, package_sql


def write_expected(store: Store, vantages: Sequence[str], alone: bool) -> None:
    """The table `expected` and the view `in_flight`."""
    rows = []
    for vantage in vantages or ["client"]:
        set_front(store, vantage, alone)
        store.script(package_sql("derived/sized.sql"))
        sized = pl.DataFrame(store.arrow("select * from sized"))
        rows.append(_with_load(sized[sized["attempt_id"].arg_sort()]))  # a rank by start
        store.script("drop view sized")
    store.lend("sized_rows", pl.concat(rows))
    # How many rows are lent DuckDB does not know; as written, the small tables are those that are looked up.
    store.script("set disabled_optimizers = 'join_order,build_side_probe_side'")
    for step in ("answered", "fit", "quiet", "fit", "expected"):
        store.script(package_sql(f"derived/{step}.sql"))
    store.script("reset disabled_optimizers")
    store.take_back("sized_rows")


def _with_load(rows: pl.DataFrame) -> pl.DataFrame:
    """Attempts of one vantage in order of their start, with what was running beside them: `others` are the starts
    before each one less the ends up to it, `idle_ms` is how long none had run. Those without both times come last."""
    known = rows["start_us"].is_not_null()
    timed, rest = (rows, rows.clear()) if known.all() else (rows.filter(known), rows.filter(~known))
    ends = timed["end_us"].sort()
    ended = ends.search_sorted(timed["start_us"], side="right").cast(pl.Int64)
    others = (pl.int_range(len(timed), eager=True) - ended).clip(0).cast(pl.Int32)
    alone = (ended > 0) & (others == 0)
    idle = pl.select(pl.when(alone).then(timed["start_us"] - ends.gather((ended - 1).clip(0))) / 1000).to_series()
    columns = {"others": others, "idle_ms": idle, "load": _load(others)}
    timed = timed.with_columns(**columns)
    nothing = (pl.lit(None, column.dtype).alias(name) for name, column in columns.items())
    return pl.concat([timed, rest.with_columns(*nothing)]).drop("start_us", "end_us")


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
