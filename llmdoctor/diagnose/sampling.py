"""Store -> Sample: what a report keeps of its attempts, so that it can be compared with another one later."""

import math
from collections.abc import Mapping, Sequence

from llmdoctor.diagnose import blocks
from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.sample import (
    COURSE,
    GRID,
    QUANTILES,
    SHARES,
    Course,
    Curve,
    Endings,
    Figure,
    Kind,
    Known,
    Sample,
    Trait,
)
from llmdoctor.diagnose.values import six
from llmdoctor.stats.quantiles import LEAST_ROWS, MEASURED, TAKEN, curve
from llmdoctor.store import Row, Store

MOST_VANTAGES = 3
MOST_KINDS = 40
MOST_VALUES = 12
BAD = "('failed', 'incomplete', 'empty', 'rate_limited')"


def take_samples(store: Store, fronts: Fronts) -> tuple[Sample, ...]:
    """One sample for each of the outermost vantages. The requests of a probe are experiments, not traffic: none."""
    found = []
    for vantage in [one for one in fronts.vantages if one != "probe"][:MOST_VANTAGES]:
        found.append(_sample(store, vantage, fronts.thin(vantage)))
    return tuple(found)


def _sample(store: Store, vantage: str, step: int) -> Sample:
    n, first, last = store.run("select count(*), min(attempt_id), max(attempt_id) from front")[0]
    count = blocks.count_blocks(n)
    # An attempt's number is its rank by start: equal stretches of it are stretches of time with about as many rows.
    block = f"(attempt_id - {first}) * {max(count, 1)} // {last - first + 1}"
    kinds = {name: _kinds(store, name, step) for name in TAKEN}
    times, curves, slow = _times(store, block)
    outcomes, failed, endings = _outcomes(store, block)
    return Sample(
        vantage=vantage,
        n=n,
        blocks=count,
        clustered=six(max(slow, failed)) or 1.0,
        figures=(*times, *outcomes),
        totals=kinds["total_ms"][0],
        total_kinds=kinds["total_ms"][1],
        firsts=kinds["ttft_ms"][0],
        first_kinds=kinds["ttft_ms"][1],
        paces=kinds["tpot_ms"][0],
        pace_kinds=kinds["tpot_ms"][1],
        endings=_endings(store),
        traits=(*_numbers(store, step), *_values(store, step)),
        curves=curves,
        courses=(*_courses(store, block, step), *endings) if count else (),
    )


# --- figures


def _times(store: Store, block: str) -> tuple[list[Figure], tuple[Curve, ...], float]:
    """The figures of durations, their curves, and how much their slow twentieth comes in episodes."""
    source, some = (f"from ({MEASURED.format(rows=rows)}) as m where true" for rows in ("front", "thinned"))
    asked = ", ".join(
        f"count({name}) as {name}_n, count_if({name} is not null and {name}_cut) as {name}_cut" for name in TAKEN
    )
    counts = store.rows(f"select {asked} {source}")[0]
    curves = {
        name: curve(store, some, name, counts[f"{name}_cut"] > 0, SHARES) for name in TAKEN if counts[f"{name}_n"]
    }
    wanted = [
        (name, q, word, value)
        for name, values in curves.items()
        for word, q in QUANTILES.items()
        if counts[f"{name}_n"] >= LEAST_ROWS[q] and (value := values[SHARES.index(q)]) is not None
    ]
    tests = "".join(
        f", count_if({name} <= {value!r} and not {name}_cut) as below_{place},"
        f" count_if({name} is not null and not ({name}_cut and {name} < {value!r})) as known_{place}"
        for place, (name, _, _, value) in enumerate(wanted)
    )
    rows = store.rows(f"select {block} as block{tests} {source} group by 1 order by 1")
    found, worth, slow = [], dict[str, list[Known]](), 1.0
    for place, (name, q, word, value) in enumerate(wanted):
        below, known = [row[f"below_{place}"] for row in rows], [row[f"known_{place}"] for row in rows]
        ends = _ends(curves[name], q, below, known)
        clustered, further = blocks.clustering(q, below, known), blocks.further(below, known)
        worth.setdefault(name, []).append(Known(word, six(clustered) or 1.0, six(further) or 0.0))
        if word == "p95" and name != "tpot_ms":
            slow = max(slow, clustered)
        found.append(Figure(f"{name}.{word}", six(value), six(ends[0]), six(ends[1]), counts[f"{name}_n"]))
    made = [
        Curve(name, counts[f"{name}_n"], tuple(map(six, values)), tuple(worth[name]))
        for name, values in curves.items()
        if name in worth
    ]
    return found, tuple(made), slow


def _ends(
    values: Sequence[float | None], q: float, below: Sequence[int], known: Sequence[int]
) -> tuple[float | None, float | None]:
    low, high = blocks.share_interval(q, below, known)
    return blocks.read_off(SHARES, values, max(low, 0.0)), blocks.read_off(SHARES, values, high)


def _courses(store: Store, block: str, step: int) -> list[Course]:
    """How the durations went from block to block."""
    asked = ", ".join(
        f"count({name}) as {name}_n, quantile_disc({name}, {list(COURSE)}::double[]) as {name}" for name in TAKEN
    )
    rows = store.rows(
        f"select {block} as block, {asked} from ({MEASURED.format(rows='thinned')}) as m group by 1 order by 1"
    )
    return [
        Course(
            name,
            tuple(row[f"{name}_n"] * step for row in known),
            grids=tuple(tuple(float(f"{value:.4g}") for value in row[name]) for row in known),
        )
        for name in TAKEN
        if (known := [row for row in rows if row[f"{name}_n"]])
    ]


def _outcomes(store: Store, block: str) -> tuple[list[Figure], float, list[Course]]:
    """The figures of failures, retries and costs, how much failures come in episodes, and how they went over time."""
    priced = store.run("select count(cost_usd) * 2 >= count(*) from front where outcome = 'completed'")[0][0]
    done = "count(distinct case when outcome = 'completed' then coalesce(task_id, cast(attempt_id as varchar)) end)"
    rows = store.rows(
        f"""
        select {block} as block, count(outcome) as known, count_if(outcome = 'timeout') as timeouts,
               count_if(outcome in {BAD}) as bad, count(coalesce(task_id, trace_id, prompt_hash)) as named,
               count_if(attempt_id in (select attempt_id from tried where retry)) as retries, count(*) as n,
               {"cast(sum(cast(cost_usd as decimal(18, 6))) as double)" if priced else "null"} as cost,
               {done if priced else "0"} as done
        from   front
        group  by 1
        order  by 1
        """
    )
    known, n = [row["known"] for row in rows], sum(row["n"] for row in rows)
    found, clustered, courses = [], 1.0, []
    if sum(known):
        for name, part in (("timeout_share", "timeouts"), ("error_share", "bad")):
            parts = [row[part] for row in rows]
            found.append(_figure(name, blocks.of_share(parts, known), sum(known)))
            clustered = max(clustered, blocks.clustering(sum(parts) / sum(known), parts, known))
            courses.append(Course(name, tuple(known), tuple(parts)))
    tasks = [row["n"] - row["retries"] for row in rows]
    if sum(row["named"] for row in rows) * 2 >= n and sum(tasks):
        found.append(_figure("retries_per_task", blocks.of_ratio([row["retries"] for row in rows], tasks), n))
    done_rows = [row["done"] for row in rows]
    if priced and sum(done_rows):
        costs = [row["cost"] or 0.0 for row in rows]
        found.append(_figure("cost_per_task", blocks.of_ratio(costs, done_rows), sum(done_rows)))
    return found, clustered, courses


def _figure(name: str, values: tuple[float, float | None, float | None], n: int) -> Figure:
    return Figure(name, six(values[0]), six(values[1]), six(values[2]), n)


# --- kinds and traits


PROMPT, ANSWER = "input_tokens", "output_tokens"
# Of each duration: what it is, of which attempts, bands of the prompt and of the answer that make a kind (so many of
# them in one, none where it does not count), and the length that it follows within a kind.
KINDS = {
    "ttft_ms": ("ttft_ms", "stream", 1, 0, PROMPT),
    "total_ms": ("total_ms", "true", 2, 1, ANSWER),
    "tpot_ms": (f"(total_ms - ttft_ms) / nullif({ANSWER} - 1, 0)", f"{ANSWER} > 1", 2, 0, "cast(null as integer)"),
}


def _kinds(store: Store, name: str, step: int) -> tuple[int, tuple[Kind, ...]]:
    """Completed attempts by model, streaming and length, the most frequent first."""
    value, which, prompt, answer, tokens = KINDS[name]
    bands = [
        f"cast({f'floor(log2(1 + greatest({column}, 0)) / {width})' if width else 'null'} as integer)"
        for column, width in ((PROMPT, prompt), (ANSWER, answer))
    ]
    rows = store.rows(
        f"""
        select model, stream, {bands[0]} as input_band, {bands[1]} as output_band,
               count(*) as n, quantile_disc({tokens}, 0.5) as tokens,
               {"cast(avg(cast(cost_usd as decimal(18, 6))) as double)" if answer else "null"} as cost,
               quantile_disc({value}, {list(GRID)}::double[]) as grid
        from   thinned
        where  outcome in ('completed', 'unknown') and coalesce(cache_hit, false) = false and {value} is not null
               and {which}
        group  by all
        order  by n desc, model nulls last, stream nulls last, input_band nulls last, output_band nulls last
        """
    )
    made = [_kind(row, step) for row in rows[:MOST_KINDS]]
    return sum(row["n"] for row in rows) * step, tuple(made)


def _kind(row: Row, step: int) -> Kind:
    grid = tuple(float(f"{value:.4g}") for value in row["grid"])
    bands = row["input_band"], row["output_band"]
    return Kind(row["model"], row["stream"], *bands, row["n"] * step, six(row["tokens"]), grid, six(row["cost"]))


def _endings(store: Store) -> tuple[Endings, ...]:
    """How the attempts at each model ended, the most frequent models first."""
    rows = store.run(
        f"""
        select model, count(*) as n, count_if(outcome = 'timeout'), count_if(outcome in {BAD})
        from   front
        where  model is not null and outcome is not null
        group  by 1
        order  by n desc, 1
        limit  {MOST_KINDS}
        """
    )
    return tuple(Endings(*row) for row in rows)


NUMBERS = {
    "input_tokens": "quantile_disc(input_tokens, 0.5)",
    "output_tokens": "quantile_disc(output_tokens, 0.5)",
    "cached_share": "sum(case when input_tokens > 0 then cached_tokens end)"
    " / nullif(sum(case when cached_tokens is not null then input_tokens end), 0)",
    "max_tokens": "quantile_disc(max_tokens, 0.5)",
    "limited_share": "case when count(max_tokens) > 0 then count(max_tokens) / count(*) end",
    "stream_share": "count_if(stream) / nullif(count(stream), 0)",
    "in_flight": "quantile_disc(others + 1, 0.5)",
}


def _numbers(store: Store, step: int) -> tuple[Trait, ...]:
    asked = ", ".join(f"{sql} as {name}" for name, sql in NUMBERS.items())
    row: Mapping[str, float | None] = store.rows(f"select {asked} from thinned")[0]
    # First tries only: a storm of retries is no more demand. The middle nine tenths of them, for one wrong clock would
    # stretch the log over years.
    spans = store.run(
        f"select count(*) * {step} * 0.9"
        " / nullif(epoch(quantile_disc(started_at, 0.95)) - epoch(quantile_disc(started_at, 0.05)), 0)"
        " from thinned where attempt_id not in (select attempt_id from tried where retry)"
        " and time_basis is distinct from 'relative'"
    )[0][0]
    per_minute = spans * 60 if spans and math.isfinite(spans) else None
    return tuple(
        Trait(name, six(value)) for name, value in {**row, "per_minute": per_minute}.items() if value is not None
    )


def _values(store: Store, step: int) -> tuple[Trait, ...]:
    names = ("model", "app_version", "prompt_version", "instance", "region", "route")
    which = " ".join(f"when grouping({name}) = 0 then '{name}'" for name in names)
    sets = ", ".join(f"({name})" for name in names)
    rows = store.run(
        f"select case {which} end, coalesce({', '.join(names)}) as value, count(*) * {step} as n from thinned"
        f" group by grouping sets ({sets}) order by n desc, value"
    )
    found = {name: [(value, n) for of, value, n in rows if of == name and value is not None] for name in names}
    return tuple(
        Trait(name, None, tuple((f"{name}={value}", n) for value, n in values[:MOST_VALUES]))
        for name, values in found.items()
        if values
    )
