"""Nearest-rank quantiles with intervals, cut attempts counted as "at least", and the table `quantiles`.

The nearest rank is the value at rank ceil(q n), a real request; the 95 % interval comes from order statistics (binomial
ranks); Kaplan-Meier where some attempts were cut."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from llmdoctor.stats.front import literal
from llmdoctor.store import Row, Store

# Fewest rows for which the two-sided 95 % interval of a quantile has an upper end: ln(0.025) / ln(q).
LEAST_ROWS = {0.5: 6, 0.9: 36, 0.95: 72, 0.99: 368, 0.999: 3688}
MAX_GROUPS = 24


@dataclass(frozen=True)
class Quantile:
    """One quantile of n attempts with the 95 % interval of its order statistics, None where n is too small or the
    cut attempts leave it open."""

    value: float | None
    low: float | None
    high: float | None


def quantile(values: pl.Series, cut: pl.Series, q: float) -> Quantile:
    """Nearest-rank quantile of `values` (ms) where `cut` marks those that are only known to be "at least".

    Kaplan-Meier: S(t) is the product of 1 - 1/r over the observed values up to t, r the rows still at risk; the
    quantile is the first observed t with S(t) <= 1 - q. Without cut rows this is the nearest rank."""
    return quantiles(values, cut, [q])[q]


def quantiles(values: pl.Series, cut: pl.Series, wanted: Sequence[float]) -> dict[float, Quantile]:
    """`quantile` for several q, sorted once."""
    n = len(values)
    enough = [q for q in wanted if n >= LEAST_ROWS[q]]
    found = dict.fromkeys(wanted, Quantile(None, None, None))
    if not cut.any():
        ranked = values.sort()
        return found | {q: Quantile(*(rank and ranked[rank - 1] for rank in _ranks(n, q))) for q in enough}
    frame = pl.DataFrame({"t": values, "cut": cut}).sort("t", "cut")
    frame = _survival(frame)
    for q in enough:
        spread = 1.96 * math.sqrt(q * (1 - q) / n)
        found[q] = Quantile(*(_first_at_or_below(frame, 1 - edge) for edge in (q, q - spread, q + spread)))
    return found


def _survival(frame: pl.DataFrame) -> pl.DataFrame:
    """Of rows sorted by `t` and `cut` those that were observed, with the share `s` that takes longer than each."""
    risk = len(frame) - pl.int_range(len(frame), eager=True)
    drop = pl.select(pl.when(frame["cut"]).then(0.0).otherwise(-(1.0 / risk))).to_series()
    return frame.with_columns(drop.log1p().cum_sum().exp().alias("s")).filter(~pl.col("cut"))


def curve(store: Store, source: str, name: str, cut: bool, shares: Sequence[float]) -> list[float | None]:
    """The values (ms) of one column of TAKEN at ascending shares, nearest rank, from a query over MEASURED; `cut`:
    some values are "at least" (Kaplan-Meier: None where callers did not wait for so long)."""
    if not cut:
        return list(store.run(f"select quantile_disc({name}, {list(shares)}::double[]) {source}")[0][0])
    frame = pl.DataFrame(store.arrow(f"select {name} as t, {name}_cut as cut {source} and {name} is not null"))
    frame = _survival(frame.sort("t", "cut"))
    return [_first_at_or_below(frame, 1 - share) for share in shares]


def nearest_rank(n: int, q: float) -> int:
    """The 1-based rank of quantile q among n values: the least k with k >= q n, whatever q n is rounded to."""
    return math.ceil(q * n - 1e-9)


def _ranks(n: int, q: float) -> tuple[int, int, int | None]:
    """1-based ranks of quantile q among n values, and of the ends of its interval; None where that is open."""
    low, high = interval_ranks(n, q)
    return nearest_rank(n, q), low, high if high <= n else None


def cut_quantiles(store: Store, sql: str, wanted: Mapping[int, float]) -> dict[int, float | None]:
    """The value of `quantile` for each `number` of a query that returns `number`, `t` (ms) and `cut`."""
    parts = pl.DataFrame(store.arrow(sql)).partition_by("number", as_dict=True)
    return {number: quantile(part["t"], part["cut"], wanted[number]).value for (number,), part in parts.items()}


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


def write_quantiles(store: Store) -> None:
    store.script(
        "create table quantiles (vantage varchar, model varchar, stream boolean, name varchar, n bigint,"
        " censored bigint, p50 double, p95 double, p99 double, low double, high double, p50_low double,"
        " p50_high double, p95_low double, p95_high double, p99_low double, p99_high double)"
    )
    store.script(f"create view measured as {MEASURED.format(rows='attempts')}")
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
select attempt_id, vantage, model, stream,
       case when not stream then null
            when ttft_ms is not null then ttft_ms
            when outcome in ('timeout', 'cancelled') then total_ms end as ttft_ms,
       ttft_ms is null as ttft_ms_cut,
       case when outcome in ('completed', 'timeout', 'cancelled', 'unknown') then total_ms end as total_ms,
       outcome in ('timeout', 'cancelled') as total_ms_cut,
       case when outcome = 'completed' and output_tokens > 1 then (total_ms - ttft_ms) / (output_tokens - 1) end
           as tpot_ms,
       false as tpot_ms_cut
from   {rows}
where  coalesce(cache_hit, false) = false and outcome is not null
"""
TAKEN = ("ttft_ms", "total_ms", "tpot_ms")
SHOWN = (0.5, 0.95, 0.99)
MEASURED_COUNTS = ", ".join(
    f"count({name}) as {name}_known, count_if({name} is not null and {name}_cut) as {name}_cut" for name in TAKEN
)


def _quantile_rows(store: Store, group: Row) -> list[list[object]]:
    same = " and ".join(f"{key} is not distinct from {literal(group[key])}" for key in ("vantage", "model", "stream"))
    source = f"from measured where {same}"
    found = _whole(store, source, {name: group[f"{name}_known"] for name in TAKEN if not group[f"{name}_cut"]})
    for name in TAKEN:
        if group[f"{name}_cut"]:
            frame = pl.DataFrame(store.arrow(f"select {name}, {name}_cut {source} and {name} is not null"))
            found[name] = quantiles(frame[name], frame[f"{name}_cut"], SHOWN)
    return [_quantile_row(group, name, found[name]) for name in TAKEN if group[f"{name}_known"]]


def _quantile_row(group: Row, name: str, found: Mapping[float, Quantile]) -> list[object]:
    n, cut = group[f"{name}_known"], group[f"{name}_cut"]
    shown = next((found[q] for q in reversed(SHOWN) if n >= LEAST_ROWS[q]), Quantile(None, None, None))
    values = [one.value for one in found.values()]
    ends = [end for one in found.values() for end in (one.low, one.high)]
    return [group["vantage"], group["model"], group["stream"], name, n, cut, *values, shown.low, shown.high, *ends]


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
