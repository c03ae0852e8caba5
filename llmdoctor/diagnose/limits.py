"""Limits that the log itself suggests: how many calls at a time, how many retries, how long an answer may be.

Calls at a time: up to where the typical answer takes twice its time in the quiet part of the log (`SLOWED`; on an
engine that batches, 1.5 times is usual between little and much load). Retries: a tenth of the first tries, the budget
of Google's SRE book ("Handling Overload"), and what it would have let through here. Length: the quantile that the
answers that ended by themselves can carry, a third more.
"""

from collections.abc import Iterator, Mapping, Sequence

from llmdoctor.diagnose.advice import QUANTILES, carried, round_up
from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.replay import ABOUT, what_if
from llmdoctor.diagnose.values import Advice, Symptom, six
from llmdoctor.store import Row, Store

SLOWED = 2.0
LEAST_AT_A_LEVEL = 20
BUDGET = 0.1
BUDGET_S = 10
LEAST_RETRIES = 10
MARGIN = 1.3
LEAST_ANSWERS = 72
LEAST_CAP = 16
MOST_ROUTES = 5
CUT_OFF = 0.05
"""Share of answers cut off at their cap from which on the log cannot tell how long answers want to be."""

LEVELS = """
with slowed as (
    select f.others, floor(2 * log2(f.others + 1)) as level,
           case when f.outcome in ('timeout', 'cancelled') then f.total_ms / nullif(f.expected_total_ms, 0)
                else f.times end as times
    from   thinned f
    where  f.others is not null and coalesce(f.cache_hit, false) = false
)
select min(others) as low, max(others) as high, count(*) as n, quantile_disc(times, 0.5) as times
from   slowed
where  times is not null
group  by level
having count(*) >= $least
order  by low
"""

RETRIES = """
with placed as (
    select coalesce(f.caller, '') as caller, floor(epoch_us(f.started_at) / 1e6 / $seconds) as stretch,
           coalesce(t.retry, f.attempt > 1, false) as retry, f.outcome
    from   front f
    left   join tries t on t.attempt_id = f.attempt_id
    where  f.started_at is not null
), stretches as (
    select caller, stretch, count_if(not retry) as first_tries, count_if(retry) as retries,
           count_if(retry and outcome = 'completed') as helped
    from   placed
    group  by caller, stretch
)
select cast(sum(first_tries) as bigint) as first_tries, cast(sum(retries) as bigint) as retries,
       cast(sum(helped) as bigint) as helped,
       cast(sum(least(retries, greatest(1, floor($budget * first_tries)))) as bigint) as allowed
from   stretches
"""

LENGTHS = f"""
with answers as (
    select model, route, output_tokens, max_tokens,
           coalesce(finish_reason in ('length', 'max_tokens', 'MAX_TOKENS', 'max_output_tokens'), false)
               or coalesce(output_tokens >= max_tokens, false) as cut
    from   front
    where  outcome = 'completed' and output_tokens > 0 and coalesce(cache_hit, false) = false
)
select model, route, count(*) as n, count_if(cut) as cut, count(max_tokens) as capped,
       quantile_disc(max_tokens, 0.5) as asked, sum(output_tokens) as tokens,
       quantile_disc(output_tokens, {list(QUANTILES)}) filter (not cut) as lengths
from   answers
group  by model, route
having count(*) >= $least
order  by n desc, model, route
limit  $most
"""

BEYOND = """
select count(*) as n, coalesce(sum(output_tokens), 0) as tokens
from   front
where  outcome = 'completed' and output_tokens > $cap and coalesce(cache_hit, false) = false
and    model is not distinct from $model and route is not distinct from $route
"""


def advise_limits(store: Store, fronts: Fronts, findings: Sequence[Symptom]) -> tuple[Advice, ...]:
    """What the outermost vantage suggests, then what would have been (`replay`). Nothing of a probe, and nothing for
    which the rows are too few."""
    if not fronts.vantages or fronts.vantages[0] == "probe":
        return ()
    vantage = fronts.vantages[0]
    fronts.thin(vantage)
    waited = any(one.id in ABOUT for one in findings)
    own = [*_at_a_time(store, vantage, waited), *_retries(store, vantage), *_lengths(store, vantage)]
    return (*own, *what_if(store, fronts, findings))


def _at_a_time(store: Store, vantage: str, waited: bool) -> Iterator[Advice]:
    """`waited`: calls waited somewhere; then a log without a slowed level has no quiet part to hold them against."""
    levels = store.rows(LEVELS, {"least": LEAST_AT_A_LEVEL})
    slow = _slowed_from(levels)
    if len(levels) < 2 or slow == 0 or (slow is None and waited):
        return
    n, last = sum(int(level["n"]) for level in levels), levels[-1]
    basis = f"median of {n} calls by how many others ran at their start, against the quiet part of the log"
    if slow is None:
        limit, worst = None, max(float(level["times"]) for level in levels)
        text = f"No limit is seen: with up to {last['high'] + 1} calls at a time the typical one takes at most"
        text += f" {_times(worst)} its quiet time"
    else:
        good, bad = levels[slow - 1], levels[slow]
        limit = float(good["high"] + 1)
        text = f"Up to {limit:.0f} calls at a time the typical one takes {_times(good['times'])} its quiet time,"
        text += f" from {bad['low'] + 1} on {_times(bad['times'])}"
        text += f", with {last['high'] + 1} {_times(last['times'])}" if last is not bad else ""
    yield Advice("concurrency", vantage, None, None, limit, "calls", text, basis, False, n)


def _slowed_from(levels: Sequence[Row]) -> int | None:
    """The first level from which on every one is slowed; None where none is, 0 where no lower level tells less."""
    slow = [float(level["times"]) >= SLOWED for level in levels]
    if not any(slow):
        return None
    return next((place for place in range(len(slow)) if all(slow[place:])), 0)


def _times(ratio: float) -> str:
    return f"{ratio:.{1 if ratio < 10 else 0}f} times"


def _retries(store: Store, vantage: str) -> Iterator[Advice]:
    (row,) = store.rows(RETRIES, {"seconds": BUDGET_S, "budget": BUDGET})
    first, retries = int(row["first_tries"] or 0), int(row["retries"] or 0)
    if retries < LEAST_RETRIES or not first:
        return
    text = (
        f"{retries} retries beside {first} first tries ({_percent(retries / first)}), {row['helped']} of them"
        f" successful. A budget of {_percent(BUDGET)} for each caller and {BUDGET_S} s, and one retry at least, lets"
        f" {row['allowed']} through"
    )
    basis = "a tenth of the first tries, three tries at most (Google SRE book, Handling Overload)"
    yield Advice("retries", vantage, None, None, BUDGET, "share", text, basis, False, first + retries)


def _lengths(store: Store, vantage: str) -> Iterator[Advice]:
    for row in store.rows(LENGTHS, {"least": LEAST_ANSWERS, "most": MOST_ROUTES}):
        n = int(row["n"])
        if row["cut"] > CUT_OFF * n:
            continue
        quantile = carried(n)
        usual = int(row["lengths"][QUANTILES.index(quantile)])
        cap = int(round_up(max(usual * MARGIN, LEAST_CAP)))
        if row["asked"] is not None and 2 * row["capped"] >= n and row["asked"] <= 2 * cap:
            continue
        over = store.rows(BEYOND, {"cap": cap, "model": row["model"], "route": row["route"]})[0]
        yield _length(vantage, row, (quantile, usual, cap), over)


def _length(vantage: str, row: Row, limit: tuple[float, int, int], over: Mapping[str, int]) -> Advice:
    quantile, usual, cap = limit
    n = int(row["n"])
    most = 2 * row["capped"] >= n
    asked = f"{row['asked']} at the median" if most else "mostly no cap" if row["capped"] else "no cap"
    text = (
        f"{quantile * 100:g} % of the answers have at most {usual} tokens, asked for is {asked}. A cap of {cap} cuts"
        f" {_percent(over['n'] / n)} of them, which hold {_percent(over['tokens'] / row['tokens'])} of all output"
        " tokens"
    )
    basis = f"{n} answers, {row['cut']} of them cut off at their cap"
    return Advice("max_tokens", vantage, row["model"], row["route"], six(cap), "tokens", text, basis, False, n)


def _percent(share: float) -> str:
    return f"{share * 100:.{3 if share < 1 else 4}g} %"
