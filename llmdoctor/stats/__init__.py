"""What is computed once from the filled tables, before the store is sealed; the only part that imports polars.

`prepare` makes the derived tables and the views, and fills what rules read beside the log itself, one module for each:
`expected` (and `tried`), `path`, `quantiles`, `slices`, `segments`, `silences`, `walls`.
"""

import polars as pl

from llmdoctor.pairs import join_vantages
from llmdoctor.stats.expected import write_expected, write_tried
from llmdoctor.stats.front import set_front
from llmdoctor.stats.implied import write_implied
from llmdoctor.stats.quantiles import LEAST_ROWS, Quantile, cut_quantiles, interval_ranks, quantile, write_quantiles
from llmdoctor.stats.segments import find_changes, write_segments
from llmdoctor.stats.silences import write_silences
from llmdoctor.stats.slices import write_slices
from llmdoctor.stats.walls import find_walls, write_walls
from llmdoctor.store import Store, package_sql, padded

__all__ = [
    "LEAST_ROWS",
    "Quantile",
    "cut_quantiles",
    "find_changes",
    "find_walls",
    "interval_ranks",
    "prepare",
    "quantile",
    "set_front",
]

# What Spark's SQL has and DuckDB has not, or counts otherwise (its count_if of no rows is null).
MACROS = """
create macro unix_micros(x) as epoch_us(x);
create macro count_if(x) as count(case when x then 1 end);
create macro size(x) as len(x);
create macro explode(x) as unnest(x);
"""

# As an enum the column that most queries read costs them a sixth; in the order of the alphabet, to sort as texts do.
OUTCOME = "enum('cancelled', 'completed', 'empty', 'failed', 'incomplete', 'rate_limited', 'timeout', 'unknown')"

# Pages that judge logs and probes alike would plan these long queries again and again, for no row.
NOT_PROBED = "".join(
    f"create table no_{view} as select * from {view} limit 0; create or replace view {view} as select * from no_{view};"
    for view in ("probes", "shapes")
)


def prepare(store: Store) -> None:
    """Makes what every judgement reads beside the canonical tables. Call once, after the last row, before `seal`."""
    store.script(MACROS)
    store.script(package_sql("derived/tables.sql"))
    found = [vantage for (vantage,) in store.run("select distinct vantage from attempts order by 1")]
    vantages = [vantage for vantage in found if vantage]
    alone = found == vantages[:1]
    _shorten(store)
    write_implied(store)
    write_expected(store)
    write_tried(store)
    _write_asked_again(store)
    _write_stages_and_tasks(store)
    if len(vantages) > 1:
        join_vantages(store)
    write_quantiles(store)
    write_slices(store, vantages, alone)
    write_segments(store, vantages, alone)
    write_silences(store, vantages)
    set_front(store, vantages[0] if vantages else "client", alone)
    store.script(package_sql("views.sql"))
    if "probe" not in found:
        store.script(NOT_PROBED)
    write_walls(store)


def _shorten(store: Store) -> None:
    """`attempts` becomes a view of the table `attempt_rows`, in which outcomes are an enum."""
    every = store.columns("attempts")
    if not store.columns("attempt_rows"):  # no column was left out when the rows were read
        store.script("alter table attempts rename to attempt_rows")
    store.script(f"alter table attempt_rows alter outcome type {OUTCOME}")
    columns = padded(every, store.columns("attempt_rows"))
    store.script(f"create or replace view attempts as select {columns} from attempt_rows")


def _write_asked_again(store: Store) -> None:
    """In most logs no prompt comes twice: sorted hashes tell that for a third of what the query would cost."""
    request = "coalesce(prompt_hash, idempotency_key)"
    source = f"select hash(vantage, {request}) as h from attempts where {request} is not null"
    hashes = pl.DataFrame(store.arrow(source))["h"].sort()
    if (hashes == hashes.shift(1)).any():
        store.script(package_sql("derived/asked_again.sql"))


def _write_stages_and_tasks(store: Store) -> None:
    """`path`, `staged` and `task_audit`, where something tells of stages or of tasks at all."""
    columns = ("retrieval_ms", "tool_ms", "prepare_ms", "delivery_ms", "idempotency_key")
    counted = store.rows(f"select {', '.join(f'count({name}) as {name}' for name in columns)} from attempts")[0]
    told = store.rows("select exists (from stages) as stages, exists (from task_events) as task_events")[0]
    if told["stages"]:
        store.script(package_sql("derived/path.sql"))
    if told["stages"] or any(counted[name] for name in columns[:4]):
        store.script(package_sql("derived/staged.sql"))
    if told["task_events"] or counted["idempotency_key"]:
        store.script(package_sql("derived/audit.sql"))
