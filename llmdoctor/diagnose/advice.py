"""Advised timeouts: four clocks, four answers, each with the share of successful requests that it would have cut.

First token: the 99.9 % quantile of the successful distribution (99 % where there are too few rows for it), a third
more. Idle: three times the same quantile of the longest gap, at least 5 s. Total: as the first token. Connect: three
times the quantile, at least 1 s. Rounded up to two digits. The log's own longest value is never the answer, and where
attempts were cut at a limit the warning says that the log cannot show what lies above it.
"""

import math
from collections.abc import Mapping

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.values import TimeoutAdvice, six
from llmdoctor.store import Row, Store

MAX_ADVICE = 12
LEAST = 20

GROUPS = """
select vantage, model, route, count(*) as n,
       count(ttft_ms) as n_first, count(max_gap_ms) as n_idle, count(connect_ms) as n_connect
from   front
where  outcome = 'completed' and total_ms is not null and coalesce(cache_hit, false) = false
group  by all
having count(*) >= {least}
order  by n desc, model, route
limit  {limit}
"""
# Clock -> the column it is read from, the margin on the quantile, the least that makes sense.
CLOCKS = {
    "connect_ms": ("connect_ms", 3.0, 1_000),
    "first_token_ms": ("ttft_ms", 1.3, 1_000),
    "idle_ms": ("max_gap_ms", 3.0, 5_000),
    "total_ms": ("total_ms", 1.3, 1_000),
}
SAME = "outcome = 'completed' and coalesce(cache_hit, false) = false and {column} is not null and {group}"


def advise_timeouts(store: Store, fronts: Fronts) -> tuple[TimeoutAdvice, ...]:
    """Advice for the outermost vantage, per model and route with at least 20 successes, the busiest first."""
    if not fronts.vantages:
        return ()
    fronts.use(fronts.vantages[0])
    groups = store.rows(GROUPS.format(least=LEAST, limit=MAX_ADVICE))
    return tuple(_advice(store, group) for group in groups)


def _advice(store: Store, group: Row) -> TimeoutAdvice:
    limits = {clock: _limit(store, group, *how) for clock, how in CLOCKS.items()}
    return TimeoutAdvice(
        vantage=group["vantage"],
        model=group["model"],
        route=group["route"],
        connect_ms=limits["connect_ms"],
        first_token_ms=limits["first_token_ms"],
        idle_ms=limits["idle_ms"],
        total_ms=limits["total_ms"],
        n=int(group["n"]),
        basis=_basis(int(group["n"])),
        cut_share={
            clock: _cut_share(store, group, CLOCKS[clock][0], limit)
            for clock, limit in limits.items()
            if limit is not None
        },
        warning=_warning(store, group),
    )


def _quantile(n: int) -> float:
    """The highest quantile that n successes can carry: with n rows nothing rarer than about 3 in n can be seen."""
    return 0.999 if n >= 3000 else 0.99 if n >= 368 else 0.95 if n >= 72 else 0.9


def _basis(n: int) -> str:
    quantile = _quantile(n)
    return (
        f"{quantile * 100:g} % quantile of {n} successful requests, with a margin"
        f"{'' if n >= 368 else '; few rows: at best a rough guide'}"
    )


def _limit(store: Store, group: Row, column: str, margin: float, least: float) -> float | None:
    where, values = _where(group, column)
    n, value = store.run(
        f"select count(*), quantile_disc({column}, {_quantile(int(group['n']))}) from front where {where}", values
    )[0]
    if n < LEAST or value is None:
        return None
    return _round_up(max(float(value) * margin, least))


def _round_up(value: float) -> float:
    """Up to two significant digits: nobody sets a timeout of 12,347 ms."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return six(math.ceil(value / step - 1e-9) * step) or value


def _cut_share(store: Store, group: Row, column: str, limit: float) -> float:
    where, values = _where(group, column)
    sql = f"select count(*) filter ({column} > $limit), count(*) from front where {where}"
    over, n = store.run(sql, {**values, "limit": limit})[0]
    return six(over / n) or 0.0


def _where(group: Row, column: str) -> tuple[str, Mapping[str, object]]:
    same = "model is not distinct from $model and route is not distinct from $route"
    return SAME.format(column=column, group=same), {"model": group["model"], "route": group["route"]}


def _warning(store: Store, group: Row) -> str | None:
    """Where today's limits hide the rest of the distribution."""
    where, values = _where(group, "total_ms")
    where = where.replace("outcome = 'completed'", "outcome = 'timeout'")
    cut, wall = store.run(f"select count(*), quantile_disc(total_ms, 0.5) from front where {where}", values)[0]
    if not cut:
        return None
    share = cut / (cut + int(group["n"]))
    return (
        f"{cut} attempts ({share:.1%}) were given up, half of them by {wall / 1000:.3g} s: this log cannot show how long"
        " they would have taken. Ask the server's log, or try a longer limit on a few callers."
    )
