"""The numbers behind the charts, aggregated in SQL over the sealed store: a few passes, whatever the log's size."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.pictures import (
    COARSE,
    FINE,
    Distribution,
    Heat,
    Instance,
    Instances,
    Pictures,
    Relation,
    Step,
    Wall,
)
from llmdoctor.diagnose.values import Symptom, Timeline, six
from llmdoctor.rulebook import Rulebook
from llmdoctor.store import Store

MOST_COLUMNS = 60
MOST_INSTANCES = 8
MOST_CELLS = 160  # of a distribution: eight decades
MOST_STEPS = 14

# A latency as the percentiles take it: what was given up before its first token waited "at least" so long.
LATENCY = {
    "ttft_ms": "case when stream is distinct from false then coalesce(ttft_ms, case when outcome in ('timeout',"
    " 'cancelled') then total_ms end) end",
    "total_ms": "case when outcome in ('completed', 'timeout', 'cancelled', 'unknown') then total_ms end",
}
CUT = {
    "ttft_ms": "ttft_ms is null",
    "total_ms": "outcome in ('timeout', 'cancelled')",
}
FAILED = "outcome in ('failed', 'timeout', 'incomplete', 'empty', 'rate_limited')"


def pictures(store: Store, fronts: Fronts, book: Rulebook, findings: Sequence[Symptom], timeline: Timeline) -> Pictures:
    """The charts' numbers: latency at the vantage of the worst finding about latency (else the outermost one), the
    heat map at the timeline's. Nothing of a probe, whose few requests have their own pictures."""
    if not fronts.vantages or fronts.vantages[0] == "probe":
        return Pictures()
    heat, instances = None, None
    if timeline.bins and timeline.vantage:
        heat, instances = _heat(store, fronts, timeline), _instances(store, fronts, timeline)
    lead = _about_latency(book, findings)
    vantage = lead.vantage if lead and lead.vantage else fronts.vantages[0]
    fronts.use(vantage)
    name = _latency(store)
    return Pictures(
        shown_with=(lead.id, vantage) if lead else None,
        distributions=tuple(_distributions(store, vantage)),
        relations=tuple(_relations(store, fronts, vantage, name)) if name else (),
        heat=heat,
        instances=instances,
    )


def _about_latency(book: Rulebook, findings: Sequence[Symptom]) -> Symptom | None:
    timed = {rule.id for rule in book.symptoms if rule.excess}
    return next((one for one in findings if one.id in timed and one.vantage), None)


def _latency(store: Store) -> str | None:
    """The first token where any attempt of the front has one, else the whole, None where nothing was timed."""
    first, whole = store.run("select count(ttft_ms), count(total_ms) from front")[0]
    return "ttft_ms" if first else "total_ms" if whole else None


def _cell(value: str, per_decade: int) -> str:
    return f"cast(floor({per_decade} * log10(greatest({value}, 0.1))) as integer)"


# --- how a latency spreads


def _distributions(store: Store, vantage: str) -> Iterable[Distribution]:
    """First token and whole of the largest population that has percentiles."""
    populations = store.rows(
        "select model, stream from quantiles where vantage = ? order by n desc, model, stream limit 1", [vantage]
    )
    for population in populations:
        # Both latencies in one pass, by both together; they are parted here.
        measured = ", ".join(f"{ms} as {name}, {CUT[name]} as {name}_cut" for name, ms in LATENCY.items())
        cells = ", ".join(f"case when {name} is not null then {_cell(name, FINE)} end, {name}_cut" for name in LATENCY)
        rows = store.run(
            f"with measured as (select {measured} from front"
            " where coalesce(cache_hit, false) = false and outcome is not null"
            " and model is not distinct from $model and stream is not distinct from $stream)"
            f" select {cells}, count(*) from measured group by all",
            population,
        )
        for place, name in enumerate(LATENCY):
            counts = [(row[2 * place], row[2 * place + 1], row[-1]) for row in rows if row[2 * place] is not None]
            if counts:
                yield _distribution(store, vantage, name, population, counts)


def _distribution(
    store: Store, vantage: str, name: str, population: dict[str, Any], counts: Sequence[tuple[int, bool, int]]
) -> Distribution:
    """`counts`: cell, whether cut, how many."""
    last = max(cell for cell, *_ in counts)
    first = max(min(cell for cell, *_ in counts), last - MOST_CELLS + 1)
    ended, cut = [0] * (last - first + 1), [0] * (last - first + 1)
    for cell, was_cut, count in counts:
        (cut if was_cut else ended)[max(cell - first, 0)] += count
    return Distribution(
        vantage=vantage,
        model=population["model"],
        stream=population["stream"],
        name=name,
        first=first,
        ended=tuple(ended),
        cut=tuple(cut) if any(cut) else (),
        walls=tuple(_walls(store, vantage)) if name == "total_ms" else (),
    )


def _walls(store: Store, vantage: str) -> Iterable[Wall]:
    """The timeout that most callers had set, where the log says it, and the two durations on which most were cut."""
    limits = store.run(
        "select timeout_ms, count(*) from front where timeout_ms is not null group by 1 order by 2 desc, 1 limit 1"
    )
    yield from (Wall(six(at) or 0.0, int(n), "limit") for at, n in limits)
    found = store.run(
        "select wall_ms, hits, outcome from walls where vantage = ? order by hits desc, wall_ms, outcome limit 2",
        [vantage],
    )
    yield from (Wall(six(at) or 0.0, int(n), str(outcome)) for at, n, outcome in found)


# --- what a latency goes with


def _relations(store: Store, fronts: Fronts, vantage: str, name: str) -> Iterable[Relation]:
    every = fronts.thin(vantage)
    latency = LATENCY[name].replace("ttft_ms", "f.ttft_ms").replace("total_ms", "f.total_ms")
    tokens = "input_tokens" if name == "ttft_ms" else "output_tokens"
    store.keep(
        "related",
        f"with looked_at as (select f.{tokens} as tokens, f.others, f.load, {latency} as ms"
        " from thinned f where coalesce(f.cache_hit, false) = false) select * from looked_at where ms is not null",
        {},
    )
    most = store.run("select max(others) from related")[0][0] or 0
    # One step for each number where there are few, else half an octave.
    half = "others" if most < MOST_STEPS else "case when others = 0 then -1 else floor(2 * log2(others)) end"
    for by, column, step in ((tokens, "tokens", "floor(log2(greatest(tokens, 1)))"), ("others", "others", half)):
        steps = tuple(_steps(store, by, column, step))
        if len(steps) > 1:
            yield Relation(vantage, name, by, every, steps)


def _steps(store: Store, by: str, column: str, step: str) -> Iterable[Step]:
    rows = store.rows(
        f"select min({column}) as low, max({column}) as high, count(*) as n, quantile_disc(ms, [0.5, 0.9, 1.0]) as q,"
        " quantile_disc(ms, 0.5) filter (load = 'calm') as calm, count(*) filter (load = 'calm') as n_calm,"
        " quantile_disc(ms, 0.5) filter (load = 'busy') as busy, count(*) filter (load = 'busy') as n_busy"
        f" from related where {column} is not null group by {step}"
        # The steps that hold most, in their order.
        f" order by n desc, low limit {MOST_STEPS}"
    )
    for row in sorted(rows, key=lambda row: int(row["low"])):
        p50, p90, highest = (six(value) or 0.0 for value in row["q"])
        yield Step(
            low=int(row["low"]),
            high=int(row["high"]),
            n=int(row["n"]),
            p50_ms=p50,
            p90_ms=p90,
            max_ms=highest,
            calm_p50_ms=six(row["calm"]) if by != "others" and row["n_calm"] >= 5 else None,
            busy_p50_ms=six(row["busy"]) if by != "others" and row["n_busy"] >= 5 else None,
        )


# --- over time


def _column(timeline: Timeline) -> tuple[int, int, str]:
    """How many bins a column joins, how many columns there are, and the SQL for the column of an attempt."""
    join = math.ceil(len(timeline.bins) / MOST_COLUMNS)
    columns = math.ceil(len(timeline.bins) / join)
    start = f"epoch_us(timestamptz '{timeline.bins[0].at}')"
    return join, columns, f"(epoch_us(started_at) - {start}) // {int(timeline.bin_ms * 1000) * join}"


def _heat(store: Store, fronts: Fronts, timeline: Timeline) -> Heat | None:
    fronts.use(timeline.vantage or "")
    name = "ttft_ms" if any(one.p50_ttft_ms is not None for one in timeline.bins) else "total_ms"
    join, columns, column = _column(timeline)
    rows = store.run(
        f"with measured as (select {column} as place, {LATENCY[name]} as ms from front where started_at is not null)"
        f" select place, {_cell('ms', COARSE)}, count(*) from measured"
        f" where ms is not null and place >= 0 and place < {columns} group by all"
    )
    if not rows:
        return None
    first, last = min(cell for _, cell, _ in rows), max(cell for _, cell, _ in rows)
    counts = [[0] * (last - first + 1) for _ in range(columns)]
    for place, cell, count in rows:
        counts[place][cell - first] = count
    return Heat(name, join, first, tuple(map(tuple, counts)))


def _instances(store: Store, fronts: Fronts, timeline: Timeline) -> Instances | None:
    """The replicas at the outermost vantage that saw two or more and how long they took."""
    for vantage in fronts.vantages:
        fronts.use(vantage)
        if name := _latency(store):
            found = store.run(
                f"select instance, count(*) as n, count(*) filter ({FAILED}), quantile_disc({LATENCY[name]}, 0.5),"
                " count(*) over () from front where instance is not null group by 1"
                f" order by n desc, instance limit {MOST_INSTANCES}"
            )
            if len(found) > 1:
                return _replicas(store, vantage, name, timeline, found)
    return None


def _replicas(store: Store, vantage: str, name: str, timeline: Timeline, found: Sequence[tuple[Any, ...]]) -> Instances:
    """`found`: name, attempts, failures and median of each that is shown, and how many there are."""
    ms = LATENCY[name]
    known = int(found[0][-1])
    join, columns, column = _column(timeline)
    names = [instance for instance, *_ in found]
    shown = "instance is not null" if known == len(found) else "list_contains($names, instance)"
    places: dict[str, dict[int, tuple[int, float | None, float | None]]] = {instance: {} for instance in names}
    for instance, place, n, p50, highest in store.run(
        f"select instance, {column}, count(*), quantile_disc({ms}, 0.5), max({ms})"
        f" from front where {shown} and started_at is not null group by 1, 2",
        {"names": names} if known > len(found) else (),
    ):
        places[instance][place] = (int(n), six(p50), six(highest))
    rows = tuple(
        Instance(
            instance, int(n), int(failures), six(p50), tuple(places[instance].get(i, _NONE) for i in range(columns))
        )
        for instance, n, failures, p50, _ in sorted(found)
    )
    return Instances(vantage, name, join, rows, known - len(rows))


_NONE = (0, None, None)
