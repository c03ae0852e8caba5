"""Advised timeouts: four clocks, four answers, each with the share of successful requests that it would have cut.

First token and total: the highest quantile that the successes can carry (99.9 % from 3,000 on, 99 % from 368, 95 % from
72, else 90 %), a third more. Idle: three times that quantile of the longest gap, at least 5 s. Connect: three times, at
least 1 s. Rounded up to two digits. Attempts that were given up count as "at least" (Kaplan-Meier), and as what the
server took where it is known: today's limits must not argue for themselves. Where the answer lies above them there is
none, and the warning says so.
"""

import math
from collections.abc import Mapping, Sequence

from llmdoctor.diagnose.front import ENOUGH, Fronts, one_in
from llmdoctor.diagnose.values import TimeoutAdvice, six
from llmdoctor.stats import cut_quantiles
from llmdoctor.stats.front import literal
from llmdoctor.store import Row, Store

MAX_ADVICE = 12
LEAST = 20
# Successes needed for a quantile: nothing rarer than about 3 in n can be seen, and an interval needs as many.
QUANTILES = (0.9, 0.95, 0.99, 0.999)
CARRIED = ((3000, 0.999), (368, 0.99), (72, 0.95), (0, 0.9))
# Clock -> the column it is read from, the margin on the quantile, the least that makes sense.
CLOCKS = {
    "connect_ms": ("connect_ms", 3.0, 1_000),
    "first_token_ms": ("ttft_ms", 1.3, 1_000),
    "idle_ms": ("max_gap_ms", 3.0, 5_000),
    "total_ms": ("total_ms", 1.3, 1_000),
}
SUCCESS = "f.outcome = 'completed' and f.total_ms is not null and coalesce(f.cache_hit, false) = false"
GIVEN_UP = "f.outcome = 'timeout' and f.total_ms is not null"

GROUPS = f"""
select vantage, model, route, count(*) filter ({SUCCESS}) as n, count(*) filter ({GIVEN_UP}) as given_up,
       quantile_disc(total_ms, 0.5) filter ({GIVEN_UP}) as wall_ms,
       {", ".join(f"count({column}) filter ({SUCCESS}) as n_{column}" for column, *_ in CLOCKS.values())},
       {", ".join(f"quantile_disc({column}, {list(QUANTILES)}) filter ({SUCCESS}) as q_{column}"
                  for column, *_ in CLOCKS.values())}
from   front f
group  by vantage, model, route
having n >= {LEAST}
order  by n desc, model, route
limit  {MAX_ADVICE}
"""  # fmt: skip

# What a call of each group took, or would at least have taken: the server's own total where the caller had left.
WITH_GIVEN_UP = f"""
with left_there as (
    select f.attempt_id, f.total_ms, {{number}} as number from front f where {GIVEN_UP}
), told as (
    select f.number, f.total_ms, c.server_total_ms,
           c.server_outcome = 'completed' and c.server_total_ms > f.total_ms as later
    from   left_there f
    join   calls c on c.attempt_id = f.attempt_id
    where  f.number is not null
), succeeded as (
    select {{number}} as number, f.total_ms from front f where {SUCCESS}
)
select number, total_ms as t, false as cut from succeeded where number is not null
union all
select number, case when later then server_total_ms else total_ms end, later is distinct from true from told
"""


def advise_timeouts(store: Store, fronts: Fronts, incident: bool) -> tuple[TimeoutAdvice, ...]:
    """Advice for the outermost vantage, per model and route with at least 20 successes, the busiest first. `incident`:
    something is wrong in these logs, so their successes are slower than those of a usual day, and the basis says so.
    None from a probe, which asks for short answers."""
    if not fronts.vantages or fronts.vantages[0] == "probe":
        return ()
    fronts.use(fronts.vantages[0])
    groups = store.rows(GROUPS)
    totals = _totals(store, groups)
    limits = [
        {clock: _limit(group, clock, totals.get(number)) for clock in CLOCKS} for number, group in enumerate(groups)
    ]
    shares = _cut_shares(store, groups, limits)
    doubt = "; of an incident: take a usual day's log for limits to keep" if incident else ""
    return tuple(_advice(*each, doubt) for each in zip(groups, limits, shares, strict=True))


def _advice(group: Row, limits: Mapping[str, float | None], shares: Mapping[str, float], doubt: str) -> TimeoutAdvice:
    return TimeoutAdvice(
        vantage=group["vantage"],
        model=group["model"],
        route=group["route"],
        connect_ms=limits["connect_ms"],
        first_token_ms=limits["first_token_ms"],
        idle_ms=limits["idle_ms"],
        total_ms=limits["total_ms"],
        n=int(group["n"]),
        basis=_basis(group) + doubt,
        cut_share={clock: share for clock, share in shares.items() if limits[clock] is not None},
        warning=_warning(group, limits["total_ms"]),
    )


def carried(n: int) -> float:
    """The highest quantile of `QUANTILES` that so many successes can carry."""
    return next(quantile for least, quantile in CARRIED if n >= least)


def _every(group: Row) -> int:
    """One in so many attempts of a group is looked at where some were given up."""
    return max(1, int(group["n_total_ms"]) // ENOUGH)


def _basis(group: Row) -> str:
    n = int(group["n"])
    doubt = "" if n >= 368 else "; few rows: at best a rough guide"
    some = f"; the total from one in {_every(group)} of them" if group["given_up"] and _every(group) > 1 else ""
    return f"{carried(n) * 100:g} % quantile of {n} successful requests, with a margin{doubt}{some}"


def _totals(store: Store, groups: Sequence[Row]) -> dict[int, float | None]:
    """By its number, the quantile of the whole time of each group of which some were given up; of one that is large,
    from one attempt in k."""
    wanted = {
        number: carried(int(group["n_total_ms"]))
        for number, group in enumerate(groups)
        if group["given_up"] and group["n_total_ms"] >= LEAST
    }
    if not wanted:
        return {}
    cases = " ".join(
        f"when f.model is not distinct from {literal(groups[number]['model'])}"
        f" and f.route is not distinct from {literal(groups[number]['route'])}"
        f" and {one_in(_every(groups[number]), 'f.')} then {number}"
        for number in wanted
    )
    return cut_quantiles(store, WITH_GIVEN_UP.format(number=f"case {cases} end"), wanted)


def _limit(group: Row, clock: str, total: float | None) -> float | None:
    """`total` is the quantile of the whole time where some were given up."""
    column, margin, least = CLOCKS[clock]
    n = int(group[f"n_{column}"])
    if n < LEAST:
        return None
    known = group[f"q_{column}"][QUANTILES.index(carried(n))]
    value = total if group["given_up"] and clock == "total_ms" else known
    return None if value is None else round_up(max(float(value) * margin, least))


def round_up(value: float) -> float:
    """Up to two significant digits: nobody sets a timeout of 12,347 ms."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return six(math.ceil(value / step - 1e-9) * step) or value


def _cut_shares(
    store: Store, groups: Sequence[Row], limits: Sequence[Mapping[str, float | None]]
) -> list[dict[str, float]]:
    """The share of each group's successes above each limit, for all groups in one pass."""
    if not groups:
        return []
    store.script(
        "create or replace temp table advised (number integer, model varchar, route varchar, "
        + ", ".join(f"{clock} double" for clock in CLOCKS)
        + ")"
    )
    rows = [
        [number, group["model"], group["route"], *found.values()]
        for number, (group, found) in enumerate(zip(groups, limits, strict=True))
    ]
    store.insert("advised", ["number", "model", "route", *CLOCKS], rows)
    counted = ", ".join(
        f"count(*) filter (f.{column} > a.{clock}) as {clock}" for clock, (column, *_) in CLOCKS.items()
    )
    # Only what is above the lowest limit of all can be above its own: few rows, where a join of all by names is slow.
    given = {clock: [limit for row in limits if (limit := row[clock]) is not None] for clock in CLOCKS}
    above = " or ".join(f"f.{CLOCKS[clock][0]} > {min(some)!r}" for clock, some in given.items() if some)
    found = store.rows(
        f"select a.number, {counted} from advised a join front f on f.model is not distinct from a.model"
        f" and f.route is not distinct from a.route where {SUCCESS} and ({above or 'false'}) group by a.number"
    )
    over = {int(row["number"]): row for row in found}
    return [
        {clock: _share(over.get(number), clock, group[f"n_{column}"]) for clock, (column, *_) in CLOCKS.items()}
        for number, group in enumerate(groups)
    ]


def _share(over: Row | None, clock: str, of: int) -> float:
    return (six(over[clock] / of) or 0.0) if over and of else 0.0


def _warning(group: Row, total_ms: float | None) -> str | None:
    """Where today's limits hide the rest of the distribution."""
    if not group["given_up"]:
        return None
    share = group["given_up"] / (group["given_up"] + group["n"])
    hidden = "so no total can be advised from it" if total_ms is None else "the advice allows for them as far as it can"
    return (
        f"{group['given_up']} attempts ({share:.1%}) were given up, half of them by {group['wall_ms'] / 1000:.3g} s."
        f" This log cannot show how long they would have taken, {hidden}: ask the server's log, or try a longer limit"
        " on a few callers."
    )
