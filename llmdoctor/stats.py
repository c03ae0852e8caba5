"""What is computed once from the filled tables, before the store is sealed; the only module that imports polars.

`prepare` makes the derived tables and the views, and writes `quantiles`, `slices` and `walls`, small tables that rules
read too. Definitions: nearest rank (the value at rank ceil(q n), a real request); the 95 % interval of a quantile from
order statistics (binomial ranks); Kaplan-Meier where some attempts were cut ("at least"); log odds with a lower bound
for slices, Benjamini-Hochberg over all that were tried.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

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
    vantages = [vantage for (vantage,) in store.run("select distinct vantage from attempts order by 1") if vantage]
    for vantage in vantages:
        store.run(package_sql("derived/in_flight.sql"), {"vantage": vantage})
    store.script(package_sql("derived/expected.sql"))
    store.script(package_sql("derived/tried.sql"))
    if len(vantages) > 1:
        for kind in ("response", "request", "trace"):
            store.run(package_sql("derived/pairs.sql"), {"kind": kind})
    set_front(store, vantages[0] if vantages else "client")
    store.script(package_sql("views.sql"))
    _write_quantiles(store)
    _write_slices(store, vantages)
    _write_walls(store)


def set_front(store: Store, vantage: str) -> None:
    """Points the view `front` at the attempts of one vantage."""
    literal = vantage.replace("'", "''")
    store.script(f"create or replace view front as select * from attempts where vantage = '{literal}'")


# --- quantiles


def quantile(values: pl.Series, cut: pl.Series, q: float) -> Quantile:
    """Nearest-rank quantile of `values` (ms) where `cut` marks those that are only known to be "at least".

    Kaplan-Meier: S(t) is the product of 1 - 1/r over the observed values up to t, r the rows still at risk; the
    quantile is the first observed t with S(t) <= 1 - q. Without cut rows this is the nearest rank."""
    n = len(values)
    if n < LEAST_ROWS[q]:
        return Quantile(None, None, None)
    frame = pl.DataFrame({"t": values, "cut": cut}).sort("t", "cut")
    if not frame["cut"].any():
        low, high = interval_ranks(n, q)
        ranked = frame["t"]
        return Quantile(ranked[math.ceil(q * n) - 1], ranked[low - 1], ranked[high - 1] if high <= n else None)
    risk = n - pl.int_range(n, eager=True)
    drop = pl.select(pl.when(frame["cut"]).then(0.0).otherwise(-(1.0 / risk))).to_series()
    survival = drop.log1p().cum_sum().exp()
    frame = frame.with_columns(survival.alias("s")).filter(~pl.col("cut"))
    spread = 1.96 * math.sqrt(q * (1 - q) / n)
    return Quantile(*(_first_at_or_below(frame, 1 - edge) for edge in (q, q - spread, q + spread)))


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
    rows = [
        _quantile_row(store, group, name)
        for group in groups
        for name in ("ttft_ms", "total_ms", "tpot_ms")
        if group[f"{name}_known"]
    ]
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
MEASURED_COUNTS = ", ".join(
    f"count({name}) as {name}_known, count_if({name} is not null and {name}_cut) as {name}_cut"
    for name in ("ttft_ms", "total_ms", "tpot_ms")
)


def _quantile_row(store: Store, group: Row, name: str) -> list[object]:
    where = " and ".join(f"{key} is not distinct from {_literal(group[key])}" for key in ("vantage", "model", "stream"))
    source = f"from measured where {name} is not null and {where}"
    n, cut = group[f"{name}_known"], group[f"{name}_cut"]
    wanted = [q for q in (0.5, 0.95, 0.99) if n >= LEAST_ROWS[q]]
    if cut:
        frame = pl.DataFrame(store.arrow(f"select {name} as t, {name}_cut as cut {source}"))
        found = {q: quantile(frame["t"], frame["cut"], q) for q in wanted}
    else:
        found = _ranked(store, name, source, n, wanted)
    shown = found[wanted[-1]] if wanted else Quantile(None, None, None)
    values = [found[q].value if q in found else None for q in (0.5, 0.95, 0.99)]
    return [group["vantage"], group["model"], group["stream"], name, n, cut, *values, shown.low, shown.high]


def _ranked(store: Store, name: str, source: str, n: int, wanted: Sequence[float]) -> dict[float, Quantile]:
    """Nearest ranks and their intervals, found by DuckDB: `quantile_disc(x, (r - 0.5) / n)` is the value of rank r."""
    ranks = [rank for q in wanted for rank in (math.ceil(q * n - 1e-9), *interval_ranks(n, q))]
    if not ranks:
        return {}
    asked = ", ".join(repr((min(rank, n) - 0.5) / n) for rank in ranks)
    values = store.run(f"select quantile_disc({name}, [{asked}]) {source}")[0][0]
    return {
        q: Quantile(values[3 * i], values[3 * i + 1], values[3 * i + 2] if ranks[3 * i + 2] <= n else None)
        for i, q in enumerate(wanted)
    }


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return "'" + str(value).replace("'", "''") + "'"


# --- slices: which value of a column holds the slow or failed attempts


def _write_slices(store: Store, vantages: Sequence[str]) -> None:
    store.script(
        "create table slices (vantage varchar, kind varchar, dimension varchar, value varchar, rows_in bigint,"
        " bad_in bigint, rows_out bigint, bad_out bigint, lift double, lower_bound double, calm_lift double,"
        " p_value double, significant boolean, p99_ms double, removed_p99_ms double, explained_share double)"
    )
    for vantage in vantages:
        dimensions = _dimensions(store, vantage)
        tested = [row for kind in JUDGED if dimensions for row in _slices(store, vantage, kind, dimensions)]
        _mark_significant(tested)
        store.insert("slices", list(tested[0]) if tested else [], [list(row.values()) for row in tested])
    store.script("drop table if exists judged")


# Which attempts can be slow or failed, and which are. Slow: the slowest tenth by what they took against what their
# tokens take in the quiet part of this log, at least half as much again; from three times on always, for where half of
# all are slow the slowest tenth of them would point at a bystander.
JUDGED = {
    "slow": """
        with ratio as (
            select a.attempt_id, e.load,
                   greatest(a.total_ms / nullif(e.expected_total_ms, 0),
                            coalesce(a.ttft_ms / nullif(e.expected_ttft_ms, 0), 0)) as ratio
            from   attempts a
            join   expected e using (attempt_id)
            where  a.vantage = {vantage} and a.outcome = 'completed' and coalesce(a.cache_hit, false) = false
        )
        select attempt_id, load <> 'busy' as calm,
               ratio >= greatest(least((select percentile_disc(0.9) within group (order by ratio) from ratio), 3), 1.5)
                   as bad
        from   ratio
        where  ratio is not null
    """,
    "failed": """
        select a.attempt_id, e.load <> 'busy' as calm,
               a.outcome in ('failed', 'timeout', 'incomplete', 'empty') as bad
        from   attempts a
        join   expected e using (attempt_id)
        where  a.vantage = {vantage} and a.outcome not in ('unknown', 'cancelled', 'rate_limited')
    """,
}


def _slices(store: Store, vantage: str, kind: str, dimensions: Sequence[str]) -> list[Row]:
    store.script(f"create or replace table judged as {JUDGED[kind].format(vantage=_literal(vantage))}")
    if store.run("select count(*) from judged where bad")[0][0] < 3:
        return []
    sets = ", ".join(f"({name})" for name in dimensions)
    frame = pl.DataFrame(
        store.arrow(
            f"select coalesce({', '.join(dimensions)}, '(missing)') as value, {_which(dimensions)} as dimension,"
            " count(*) as rows, count(*) filter (bad) as bad, count(*) filter (calm) as calm,"
            " count(*) filter (bad and calm) as calm_bad"
            f" from judged join attempts using (attempt_id) group by grouping sets ({sets})"
        )
    )
    found = []
    for (dimension,), counts in frame.sort("dimension", "value").group_by("dimension", maintain_order=True):
        totals = {name: int(counts[name].sum()) for name in ("rows", "bad", "calm", "calm_bad")}
        found += [
            _slice_row(vantage, kind, str(dimension), count, totals)
            for count in counts.iter_rows(named=True)
            if count["bad"] >= 3 and count["rows"] < totals["rows"]
        ]
    return [_with_removed(store, row) for row in found]


def _which(dimensions: Sequence[str]) -> str:
    """SQL for the name of the column that a row of the grouping sets stands for."""
    cases = " ".join(f"when grouping({name}) = 0 then '{name}'" for name in dimensions)
    return f"case {cases} end"


def _dimensions(store: Store, vantage: str) -> list[str]:
    """The columns with at least two and at most MAX_VALUES values at this vantage."""
    counts = ", ".join(f"count(distinct {name})" for name in DIMENSIONS)
    found = store.run(f"select {counts} from attempts where vantage = ?", [vantage])[0]
    return [name for name, values in zip(DIMENSIONS, found, strict=True) if 2 <= values <= MAX_VALUES]


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


def _with_removed(store: Store, row: Row) -> Row:
    """What the P99 of all would be without this value; only where the value stands out and there are rows enough."""
    if row["lower_bound"] <= 0 or row["lift"] < 1.5 or row["rows_out"] < LEAST_ROWS[0.99]:
        return row
    p99, removed = store.run(
        "select quantile_disc(total_ms, 0.99),"
        f" quantile_disc(total_ms, 0.99) filter (coalesce({row['dimension']}, '(missing)') <> ?)"
        " from judged join attempts using (attempt_id)",
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
