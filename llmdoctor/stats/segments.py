"""Where latency or failures change for good: the table `segments`.

Binary segmentation with a rank test. Of the attempts of one vantage, in order of their start, the split is taken at
which the mean rank of the durations, or the share above their P90, differs most between what comes before and after
(Mann-Whitney, exceedances). It counts where the difference is CERTAIN standard errors: with every moment tried, chance
alone gives that less than once in a thousand logs (Andrews' bound for the largest of all splits). The standard error
comes from blocks of time, for neighbours are alike: one burst must not pass for a change. Ranks do not care how far out
a tail lies, and nothing is drawn at random. A peak that passes again is no lasting change, and mostly none at all here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import polars as pl

from llmdoctor.stats.front import set_front
from llmdoctor.stats.quantiles import Quantile, nearest_rank, quantiles
from llmdoctor.store import Store

MOST_ROWS = (
    100_000  # of larger logs a fixed sample is looked at, spread by a multiplicative hash of the attempt's number
)
MOST_BINS = 1_000
BLOCKS = 30
CERTAIN = 4.5
LEAST_SIDE, LEAST_SHARE = 10, 0.05  # a stretch has as many attempts, and that share of all
LEAST_HITS = 5  # failures, or long durations, that a change has more or fewer than its share
MOST_CHANGES = 4
RAMP = 0.1  # share of the variance of the ranks (1/12 of each) that a straight line must explain
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# As `measured` in quantiles.py: what was cut off counts as "at least", failures have a share and no latency.
SAMPLED = """
select attempt_id, epoch_us(started_at) as at_us,
       case when not coalesce(stream, ttft_ms is not null) then null
            when ttft_ms is not null then ttft_ms
            when outcome in ('timeout', 'cancelled') then total_ms end as ttft_ms,
       ttft_ms is null as ttft_ms_cut,
       case when outcome in ('completed', 'timeout', 'cancelled', 'unknown') then total_ms end as total_ms,
       outcome in ('timeout', 'cancelled') as total_ms_cut,
       case when outcome not in ('unknown', 'cancelled', 'rate_limited')
            then cast(outcome in ('failed', 'timeout', 'incomplete', 'empty') as double) end as failed
from   front
where  started_at is not null and outcome is not null and coalesce(cache_hit, false) = false
and    time_basis is distinct from 'relative' and hop is null
"""


@dataclass(frozen=True)
class Change:
    """A change between two neighbouring values: the place of the first one after it, how many standard errors it is,
    and whether it came at one moment, not little by little."""

    place: int
    errors: float
    abrupt: bool


def write_segments(store: Store, vantages: Sequence[str], alone: bool) -> None:
    """One row for each stretch between two changes, by vantage and by what changes: ttft_ms, total_ms, failed."""
    for vantage in vantages:
        set_front(store, vantage, alone)
        frame = _sample(store, vantage)
        rows = [row for name in ("ttft_ms", "total_ms", "failed") for row in _segments(frame, vantage, name)]
        store.insert("segments", list(store.columns("segments")), rows)


def _sample(store: Store, vantage: str) -> pl.DataFrame:
    count = int(store.run("select count(*) from attempts where vantage = ?", [vantage])[0][0])
    chosen = "true"
    if count > MOST_ROWS:
        chosen = f"(attempt_id * 2654435761) % 4294967296 < {2**32 * MOST_ROWS // count}"
    return pl.DataFrame(store.arrow(f"{SAMPLED} and {chosen}")).sort("attempt_id")


def _segments(frame: pl.DataFrame, vantage: str, name: str) -> Iterator[list[object]]:
    known = frame.filter(pl.col(name).is_not_null())
    if known.is_empty():
        return
    changes = find_changes(known[name], flags=name == "failed")
    starts = [0, *(one.place for one in changes), len(known)]
    for number, (start, stop) in enumerate(pairwise(starts), 1):
        part = known.slice(start, stop - start)
        middle = high = Quantile(None, None, None)
        if name != "failed":
            found = quantiles(part[name], part[f"{name}_cut"], (0.5, 0.95))
            middle, high = found[0.5], found[0.95]
        instants = [(EPOCH + timedelta(microseconds=part["at_us"][end])).isoformat() for end in (0, -1)]
        share = _mean(part[name]) if name == "failed" else None
        abrupt = changes[number - 2].abrupt if number > 1 else None
        ids = (part["attempt_id"][0], part["attempt_id"][-1])
        yield [vantage, name, number, *instants, *ids, len(part), middle.value, high.value, share, abrupt]


def find_changes(values: pl.Series, flags: bool = False) -> list[Change]:
    """The changes in a series of values in order of time, at most MOST_CHANGES, the first one first. `flags`: the
    values are 0 or 1, and their share is looked at instead of ranks."""
    least = max(LEAST_SIDE, math.ceil(LEAST_SHARE * len(values)))
    places: list[int] = []
    open_ones = [(0, len(values), _change(values, least, flags))]
    while len(places) < MOST_CHANGES and any(one for _, _, one in open_ones):
        sure = [(start, stop, one) for start, stop, one in open_ones if one]
        start, stop, best = max(sure, key=lambda one: (one[2].errors, -one[0]))
        place = start + best.place
        places.append(place)
        halves = [(a, b, _change(values[a:b], least, flags)) for a, b in ((start, place), (place, stop))]
        open_ones = [one for one in sure if one[0] != start] + halves
    return list(_confirmed(values, sorted(places), least, flags))


def _confirmed(values: pl.Series, places: Sequence[int], least: int, flags: bool) -> Iterator[Change]:
    """Each change once more, between its neighbours only: the first splits were made while others lay within."""
    ends = [0, *places, len(values)]
    before = 0
    for place, after in zip(places, ends[2:], strict=True):
        if place - before >= least and (one := _change(values[before:after], least, flags)):
            before += one.place
            yield Change(before, one.errors, one.abrupt)


def _change(values: pl.Series, least: int, flags: bool) -> Change | None:
    """The change that stands out most, None where none is certain."""
    if len(values) < 2 * least:
        return None
    if flags:
        return _step(values, least, LEAST_HITS)
    high = values.sort()[nearest_rank(len(values), 0.9) - 1]
    ranks = values.rank() / len(values)
    body = _step(ranks, least, 0)
    tail = _step((values > high).cast(pl.Float64), least, LEAST_HITS)
    best = max((one for one in (body, tail) if one), key=lambda one: (one.errors, -one.place), default=None)
    # Of a ramp the share of long ones rises late and steeply: there the ranks tell.
    return replace(best, abrupt=best.abrupt and not _is_ramp(ranks, best.place)) if best else None


def _step(score: pl.Series, least: int, hits: int) -> Change | None:
    """The split at which the mean of the score changes most. None where it is not certain or moves less than `hits`."""
    n = len(score)
    width = math.ceil(n / MOST_BINS)
    sums = (score - _mean(score)).cum_sum().gather_every(width, width - 1)
    ends = (pl.int_range(len(sums), eager=True) + 1) * width
    stands = sums.abs() / (ends * (n - ends).clip(1) / n).sqrt()
    stands = stands * ((ends >= least) & (ends <= n - least)).cast(pl.Float64)
    best = int(stands.arg_max() or 0)
    place = int(ends[best])
    if not least <= place <= n - least or abs(sums[best]) < hits:
        return None
    rest = pl.concat([part - _mean(part) for part in (score[:place], score[place:])])
    error = _error(rest)
    errors = float(stands[best]) / error if error else math.inf if stands[best] > 0 else 0.0
    return Change(place, errors, _is_abrupt(score, place, error)) if errors >= CERTAIN else None


def _error(rest: pl.Series) -> float:
    """Standard deviation of one value of a series around its level, or what it must be for the means of blocks to vary
    as they do, whichever is larger: neighbours that are alike tell less."""
    n = len(rest)
    width = max(1, n // BLOCKS)
    means = rest.head(n // width * width).reshape((-1, width)).arr.mean() if width > 1 else rest
    square = _mean(means * means)
    alike = min(max(_mean((means * means.shift(1)).drop_nulls()) / square, 0.0), 0.9) if square else 0.0
    return math.sqrt(max(_mean(rest * rest), width * square * (1 + alike) / (1 - alike)))


def _is_abrupt(score: pl.Series, place: int, error: float) -> bool:
    """Whether a step explains more of the differences (sum of squares) than a straight line does, by two standard
    errors: the place of the step was chosen for explaining most."""
    return _by_step(score, place) > _by_line(score) + (2 * error) ** 2


def _is_ramp(ranks: pl.Series, place: int) -> bool:
    """Whether a straight line explains a good part of the ranks, and more than the step does."""
    line = _by_line(ranks)
    return line > RAMP * len(ranks) / 12 and line > _by_step(ranks, place)


def _by_step(score: pl.Series, place: int) -> float:
    n = len(score)
    return place * (n - place) / n * (_mean(score[place:]) - _mean(score[:place])) ** 2


def _by_line(score: pl.Series) -> float:
    along = pl.int_range(len(score), eager=True) - (len(score) - 1) / 2
    return float((along * score).sum()) ** 2 / float((along * along).sum())


def _mean(values: pl.Series) -> float:
    return float(values.sum()) / len(values) if len(values) else 0.0
