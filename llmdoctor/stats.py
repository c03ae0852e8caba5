"""What is computed once from the filled tables, before the store is sealed; the only module that imports polars.

`prepare` makes the derived tables and the views, and writes `quantiles`, `slices` and `walls`, small tables that rules
read too. Definitions: nearest rank (the value at rank ceil(q n), a real request); the 95 % interval of a quantile from
order statistics (binomial ranks); Kaplan-Meier where some attempts were cut ("at least"); log odds with a lower bound
for slices, Benjamini-Hochberg over all that were tried.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from llmdoctor.pairs import join_vantages
from llmdoctor.store import Row, Store, package_sql

# What Spark's SQL has and DuckDB has not, or counts otherwise (its count_if of no rows is null).
MACROS = """
create macro unix_micros(x) as epoch_us(x);
create macro count_if(x) as count(case when x then 1 end);
create macro size(x) as len(x);
create macro explode(x) as unnest(x);
"""

# Fewest rows for which the two-sided 95 % interval of a quantile has an upper end: ln(0.025) / ln(q).
LEAST_ROWS = {0.5: 6, 0.9: 36, 0.95: 72, 0.99: 368, 0.999: 3688}

DIMENSIONS = ("instance", "app_version", "model", "region", "tenant")
MAX_GROUPS = 24
MAX_VALUES = 200


@dataclass(frozen=True)
class Quantile:
    """One quantile of n attempts with the 95 % interval of its order statistics, None where n is too small or the
    cut attempts leave it open."""

    value: float | None
    low: float | None
    high: float | None


def prepare(store: Store) -> None:
    """Makes what every judgement reads beside the canonical tables. Call once, after the last row, before `seal`."""
    store.script(MACROS)
    store.script(package_sql("derived/tables.sql"))
    found = [vantage for (vantage,) in store.run("select distinct vantage from attempts order by 1")]
    vantages = [vantage for vantage in found if vantage]
    alone = found == vantages[:1]
    _write_expected(store, vantages, alone)
    _write_tried(store)
    if len(vantages) > 1:
        join_vantages(store)
    _write_quantiles(store)
    _write_slices(store, vantages, alone)
    set_front(store, vantages[0] if vantages else "client", alone)
    store.script(package_sql("views.sql"))
    _write_walls(store)


def set_front(store: Store, vantage: str, alone: bool = False) -> None:
    """Points the view `front` at the attempts of one vantage; `alone`: all attempts are of this one."""
    name = _literal(vantage)
    where = "" if alone else f" where vantage = {name}"
    # A constant costs a query nothing to read, to group by and to join on.
    store.script(f"create or replace view front as select * replace ({name} as vantage) from attempts{where}")


def _write_expected(store: Store, vantages: Sequence[str], alone: bool) -> None:
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
    store.script(package_sql("derived/expected.sql"))
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
    lowest, middle, high = (ranked[math.ceil(q * len(ranked) - 1e-9) - 1] for q in (0.1, 0.5, 0.75))
    calm, busy = others <= max(middle // 2, lowest), others >= max(high, 1)
    names = {name: pl.lit(name, kinds) for name in kinds.categories}
    chosen = pl.when(calm).then(names["calm"]).when(busy).then(names["busy"]).otherwise(names["usual"])
    return pl.select(chosen).to_series()


def _write_tried(store: Store) -> None:
    """Most logs have no task that was tried twice: sorted hashes tell that for a third of what the query would cost."""
    task = "coalesce(task_id, trace_id, prompt_hash || ' ' || coalesce(caller, ''))"  # as in tried.sql
    hashes = pl.DataFrame(store.arrow(f"select hash(vantage, {task}) as h from attempts where {task} is not null"))["h"]
    hashes = hashes.sort()
    if (hashes == hashes.shift(1)).any():
        store.script(package_sql("derived/tried.sql"))


# --- quantiles


def quantile(values: pl.Series, cut: pl.Series, q: float) -> Quantile:
    """Nearest-rank quantile of `values` (ms) where `cut` marks those that are only known to be "at least".

    Kaplan-Meier: S(t) is the product of 1 - 1/r over the observed values up to t, r the rows still at risk; the
    quantile is the first observed t with S(t) <= 1 - q. Without cut rows this is the nearest rank."""
    return _quantiles(values, cut, [q])[q]


def _quantiles(values: pl.Series, cut: pl.Series, wanted: Sequence[float]) -> dict[float, Quantile]:
    """`quantile` for several q, sorted once."""
    n = len(values)
    enough = [q for q in wanted if n >= LEAST_ROWS[q]]
    found = dict.fromkeys(wanted, Quantile(None, None, None))
    if not cut.any():
        ranked = values.sort()
        return found | {q: Quantile(*(rank and ranked[rank - 1] for rank in _ranks(n, q))) for q in enough}
    frame = pl.DataFrame({"t": values, "cut": cut}).sort("t", "cut")
    risk = n - pl.int_range(n, eager=True)
    drop = pl.select(pl.when(frame["cut"]).then(0.0).otherwise(-(1.0 / risk))).to_series()
    survival = drop.log1p().cum_sum().exp()
    frame = frame.with_columns(survival.alias("s")).filter(~pl.col("cut"))
    for q in enough:
        spread = 1.96 * math.sqrt(q * (1 - q) / n)
        found[q] = Quantile(*(_first_at_or_below(frame, 1 - edge) for edge in (q, q - spread, q + spread)))
    return found


def _ranks(n: int, q: float) -> tuple[int, int, int | None]:
    """1-based ranks of quantile q among n values, and of the ends of its interval; None where that is open."""
    low, high = interval_ranks(n, q)
    return math.ceil(q * n - 1e-9), low, high if high <= n else None


def cut_quantile(store: Store, table: str, sql: str, values: Row, q: float) -> Quantile:
    """`quantile` of a query that returns `t` (ms) and `cut`, its `$name` parameters filled from `values`."""
    store.keep(table, sql, values)
    frame = pl.DataFrame(store.arrow(f"select t, cut from {table}"))
    return quantile(frame["t"], frame["cut"], q)


def _first_at_or_below(frame: pl.DataFrame, survival: float) -> float | None:
    found = frame.filter(pl.col("s") <= survival + 1e-9)["t"]
    return float(found[0]) if len(found) else None


def interval_ranks(n: int, q: float) -> tuple[int, int]:
    """1-based ranks of the 95 % interval of quantile q among n values; the upper one may be n + 1 (open).

    Exact binomial up to 2,000 rows, normal approximation above."""
    if n > 2000:
        half = 1.96 * math.sqrt(n * q * (1 - q))
        return max(1, math.floor(n * q - half)), min(n + 1, math.ceil(n * q + half) + 1)
    cumulative, low, high = 0.0, 1, n + 1
    for k in range(n + 1):
        log_term = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        cumulative += math.exp(log_term + k * math.log(q) + (n - k) * math.log(1 - q))
        if cumulative <= 0.025:
            low = k + 1
        if cumulative >= 0.975:
            high = k + 1
            break
    return max(1, low), high


def _write_quantiles(store: Store) -> None:
    store.script(
        "create table quantiles (vantage varchar, model varchar, stream boolean, name varchar, n bigint,"
        " censored bigint, p50 double, p95 double, p99 double, low double, high double)"
    )
    store.script(f"create view measured as {MEASURED}")
    groups = store.rows(
        f"select vantage, model, stream, {MEASURED_COUNTS} from measured group by all"
        f" order by count(*) desc, vantage, model, stream limit {MAX_GROUPS}"
    )
    rows = [row for group in groups for row in _quantile_rows(store, group)]
    store.insert("quantiles", list(store.columns("quantiles")), rows)
    store.script("drop view measured")


# What percentiles are taken of: a streamed attempt that was cut before its first token has a TTFT of "at least" its
# elapsed time; a cut one has a total of "at least". Failures are left to the error rates: an instant refusal is no
# fast answer.
MEASURED = """
select vantage, model, stream,
       case when not stream then null
            when ttft_ms is not null then ttft_ms
            when outcome in ('timeout', 'cancelled') then total_ms end as ttft_ms,
       ttft_ms is null as ttft_ms_cut,
       case when outcome in ('completed', 'timeout', 'cancelled', 'unknown') then total_ms end as total_ms,
       outcome in ('timeout', 'cancelled') as total_ms_cut,
       case when outcome = 'completed' and output_tokens > 1 then (total_ms - ttft_ms) / (output_tokens - 1) end
           as tpot_ms,
       false as tpot_ms_cut
from   attempts
where  coalesce(cache_hit, false) = false and outcome is not null
"""
TAKEN = ("ttft_ms", "total_ms", "tpot_ms")
SHOWN = (0.5, 0.95, 0.99)
MEASURED_COUNTS = ", ".join(
    f"count({name}) as {name}_known, count_if({name} is not null and {name}_cut) as {name}_cut" for name in TAKEN
)


def _quantile_rows(store: Store, group: Row) -> list[list[object]]:
    same = " and ".join(f"{key} is not distinct from {_literal(group[key])}" for key in ("vantage", "model", "stream"))
    source = f"from measured where {same}"
    found = _whole(store, source, {name: group[f"{name}_known"] for name in TAKEN if not group[f"{name}_cut"]})
    for name in TAKEN:
        if group[f"{name}_cut"]:
            frame = pl.DataFrame(store.arrow(f"select {name}, {name}_cut {source} and {name} is not null"))
            found[name] = _quantiles(frame[name], frame[f"{name}_cut"], SHOWN)
    return [_quantile_row(group, name, found[name]) for name in TAKEN if group[f"{name}_known"]]


def _quantile_row(group: Row, name: str, found: Mapping[float, Quantile]) -> list[object]:
    n, cut = group[f"{name}_known"], group[f"{name}_cut"]
    shown = next((found[q] for q in reversed(SHOWN) if n >= LEAST_ROWS[q]), Quantile(None, None, None))
    values = [one.value for one in found.values()]
    return [group["vantage"], group["model"], group["stream"], name, n, cut, *values, shown.low, shown.high]


def _whole(store: Store, source: str, counts: Mapping[str, int]) -> dict[str, dict[float, Quantile]]:
    """The quantiles of columns of which no value is cut, by their count, in one query and without sorting."""
    ranks = {name: [rank for q in SHOWN if n >= LEAST_ROWS[q] for rank in _ranks(n, q)] for name, n in counts.items()}
    # Half a rank less, for the rank meant must come of rounding up, whatever the floats do.
    shares = {name: [(rank - 0.5) / counts[name] for rank in own if rank] for name, own in ranks.items()}
    asked = ", ".join(f"quantile_disc({name}, {own}::double[]) as {name}" for name, own in shares.items() if own)
    answer = store.rows(f"select {asked} {source}")[0] if asked else {}
    found = {}
    for name, own in ranks.items():
        values = iter(answer[name] if own else ())
        ends = [next(values) if rank else None for rank in own]
        found[name] = dict.fromkeys(SHOWN, Quantile(None, None, None))
        threes = zip(ends[::3], ends[1::3], ends[2::3], strict=True)
        found[name] |= {q: Quantile(*three) for q, three in zip(SHOWN, threes, strict=False)}
    return found


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return "'" + str(value).replace("'", "''") + "'"


# --- slices: which value of a column holds the slow or failed attempts


def _write_slices(store: Store, vantages: Sequence[str], alone: bool) -> None:
    store.script(
        "create table slices (vantage varchar, kind varchar, dimension varchar, value varchar, rows_in bigint,"
        " bad_in bigint, rows_out bigint, bad_out bigint, lift double, lower_bound double, calm_lift double,"
        " p_value double, significant boolean, p99_ms double, removed_p99_ms double, explained_share double)"
    )
    for vantage in vantages:
        set_front(store, vantage, alone)
        store.script(f"create or replace temp view judged as {JUDGED}")
        own = "" if alone else " where attempt_id in (select attempt_id from front)"
        tested = _slices(store, vantage, store.run(SLOW_FROM + own)[0][0])
        _mark_significant(tested)
        store.insert("slices", list(tested[0]) if tested else [], [list(row.values()) for row in tested])
    store.script("drop view if exists judged")


# Which attempts can be slow or failed, and which are. Slow: the slowest tenth by what they took against what their
# tokens take in the quiet part of this log, at least half as much again; from three times on always, for where half of
# all are slow the slowest tenth of them would point at a bystander. Null: not judged.
JUDGED = f"""
select {", ".join(f"f.{name}" for name in DIMENSIONS)}, f.total_ms, e.load <> 'busy' as calm, e.times,
       case when f.outcome not in ('unknown', 'cancelled', 'rate_limited')
            then f.outcome in ('failed', 'timeout', 'incomplete', 'empty') end as failed
from   front f
join   expected e on e.attempt_id = f.attempt_id
"""
COUNTED = ("rows", "bad", "calm", "calm_bad")
SLOW_FROM = "select greatest(least(percentile_disc(0.9) within group (order by times), 3), 1.5) from expected"


def _slices(store: Store, vantage: str, slow_from: float | None) -> list[Row]:
    kinds = {"slow": f"times >= {slow_from!r}" if slow_from else "cast(null as boolean)", "failed": "failed"}
    counts = ", ".join(
        f"count({bad}) as {kind}_rows, count(*) filter ({bad}) as {kind}_bad,"
        f" count(*) filter (({bad}) is not null and calm) as {kind}_calm,"
        f" count(*) filter ({bad} and calm) as {kind}_calm_bad"
        for kind, bad in kinds.items()
    )
    sums = ", ".join(f"sum({kind}_{name})::bigint as {kind}_{name}" for kind in kinds for name in COUNTED)
    names, sets = ", ".join(DIMENSIONS), ", ".join(f"({name})" for name in DIMENSIONS)
    # First by all columns together, once over all rows, then the few groups by each.
    frame = pl.DataFrame(
        store.arrow(
            f"with counted as (select {names}, {counts} from judged group by {names})"
            f" select coalesce({names}) as value, {_which(DIMENSIONS)} as dimension, {sums}"
            f" from counted group by grouping sets ({sets})"
        )
    ).sort("dimension", "value")
    found = []
    for kind, bad in kinds.items():
        for (dimension,), part in frame.group_by("dimension", maintain_order=True):
            if 2 <= part["value"].count() <= MAX_VALUES and part[f"{kind}_bad"].sum() >= 3:
                rows = _slices_of(part, vantage, kind, str(dimension))
                found += [_with_removed(store, row, bad) for row in rows]
    return found


def _slices_of(part: pl.DataFrame, vantage: str, kind: str, dimension: str) -> list[Row]:
    """The values of one column that hold three bad attempts or more, but not all attempts that were judged."""
    renamed = (pl.col(f"{kind}_{name}").alias(name) for name in COUNTED)
    counts = part.select(pl.col("value").fill_null("(missing)"), *renamed).sort("value")
    totals = {name: int(counts[name].sum()) for name in COUNTED}
    return [
        _slice_row(vantage, kind, dimension, count, totals)
        for count in counts.iter_rows(named=True)
        if count["bad"] >= 3 and count["rows"] < totals["rows"]
    ]


def _which(dimensions: Sequence[str]) -> str:
    """SQL for the name of the column that a row of the grouping sets stands for."""
    cases = " ".join(f"when grouping({name}) = 0 then '{name}'" for name in dimensions)
    return f"case {cases} end"


def _slice_row(vantage: str, kind: str, dimension: str, count: Row, totals: dict[str, int]) -> Row:
    a, b = count["bad"], count["rows"] - count["bad"]
    c, d = totals["bad"] - a, totals["rows"] - totals["bad"] - b
    log_odds = math.log((a + 0.5) / (b + 0.5)) - math.log((c + 0.5) / (d + 0.5))
    error = math.sqrt(sum(1 / (cell + 0.5) for cell in (a, b, c, d)))
    calm_in, calm_out = count["calm"], totals["calm"] - count["calm"]
    calm_lift = None
    if calm_in >= 10 and calm_out >= 10 and totals["calm_bad"] >= 5:
        calm_lift = ((count["calm_bad"] + 0.5) / calm_in) / ((totals["calm_bad"] - count["calm_bad"] + 0.5) / calm_out)
    share_out = (c + 0.5) / (c + d)
    return {
        "vantage": vantage,
        "kind": kind,
        "dimension": dimension,
        "value": count["value"],
        "rows_in": a + b,
        "bad_in": a,
        "rows_out": c + d,
        "bad_out": c,
        "lift": ((a + 0.5) / (a + b)) / share_out,
        "lower_bound": log_odds - 1.96 * error,
        "calm_lift": calm_lift,
        "p_value": math.erfc(abs(log_odds / error) / math.sqrt(2)),
        "significant": False,
        "p99_ms": None,
        "removed_p99_ms": None,
        "explained_share": max(0.0, a - (a + b) * c / (c + d)) / totals["bad"],
    }


def _with_removed(store: Store, row: Row, bad: str) -> Row:
    """What the P99 of all would be without this value; only where the value stands out and there are rows enough."""
    if row["lower_bound"] <= 0 or row["lift"] < 1.5 or row["rows_out"] < LEAST_ROWS[0.99]:
        return row
    p99, removed = store.run(
        "select quantile_disc(total_ms, 0.99),"
        f" quantile_disc(total_ms, 0.99) filter (coalesce({row['dimension']}, '(missing)') <> ?)"
        f" from judged where ({bad}) is not null",
        [row["value"]],
    )[0]
    return row | {"p99_ms": p99, "removed_p99_ms": removed}


def _mark_significant(rows: Sequence[Row]) -> None:
    """Benjamini-Hochberg at 0.05 over everything that was tried; only values that are worse than the rest."""
    ordered = sorted(rows, key=lambda row: row["p_value"])
    ranked = enumerate(ordered, 1)
    passed = max((rank for rank, row in ranked if row["p_value"] <= 0.05 * rank / len(ordered)), default=0)
    for row in ordered[:passed]:
        row["significant"] = row["lower_bound"] > 0 and row["lift"] >= 1.5


# --- walls: durations on which failures pile up


def _write_walls(store: Store) -> None:
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
