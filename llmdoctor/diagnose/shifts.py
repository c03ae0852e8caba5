"""The moments at which a latency rose for good, and what changed there.

The stretch of the log right before the moment is held against the one right after it, up to a tenth of the log each:
which value of a column became more or less usual, which sizes and rates changed. What is said is a coincidence in time,
which names a suspect and proves nothing.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from llmdoctor.diagnose.course import Change, Figure, Shift
from llmdoctor.diagnose.values import Symptom, instant, six
from llmdoctor.rulebook import Rulebook
from llmdoctor.store import Row, Store

NAMES = (
    *("app_version", "prompt_version", "provider", "model", "instance", "region", "route", "operation"),
    *("template_id", "tenant", "caller"),
)
SIZES = {
    "input_tokens": "prompts (median tokens)",
    "output_tokens": "answers (median tokens)",
    "max_tokens": "max_tokens",
}
LEAST, MOST = 50, 2000
SHARE_MOVED, SIZE_TIMES, RATE_TIMES, CACHED_MOVED = 0.3, 1.3, 1.5, 0.2
SURE = 4.0  # standard errors, for a dozen things are compared
MOST_SHIFTS, MOST_CHANGES = 3, 4
NEAR = 0.05  # steps of two figures closer than this share of the log are one moment


def find_shifts(store: Store, book: Rulebook, findings: Sequence[Symptom]) -> tuple[Shift, ...]:
    """The steps behind the finding `latency_shift`, in order of time; none without it."""
    rule = next((one for one in book.symptoms if one.id == "latency_shift"), None)
    vantages = {one.vantage for one in findings if one.id == "latency_shift"}
    if rule is None or not vantages:
        return ()
    limits = {name: limit.value for name, limit in rule.limits.items()}
    rows = [row for row in store.rows("select * from steps") if row["vantage"] in vantages and _risen(row, limits)]
    rows.sort(key=lambda row: (-_times(row), row["first_id"], row["name"]))
    chosen: list[Row] = []
    for row in rows:
        room = NEAR * (row["rows_before"] + row["rows_onwards"])
        if all(abs(row["first_id"] - one["first_id"]) > room or row["vantage"] != one["vantage"] for one in chosen):
            chosen.append(row)
    chosen = sorted(chosen[:MOST_SHIFTS], key=lambda row: (row["from_at"], row["vantage"]))
    return tuple(_shift(store, row, limits) for row in chosen)


def _times(row: Row) -> float:
    return max(row["p50_times"] or 0, row["p95_times"] or 0)


def _risen(row: Row, limits: dict[str, float]) -> bool:
    """As the page of the symptom has it."""
    return _by_median(row, limits) or (
        (row["p95_times"] or 0) >= limits["times"] and row["p95_ms"] - row["p95_before_ms"] >= 4 * limits["least_ms"]
    )


def _by_median(row: Row, limits: dict[str, float]) -> bool:
    enough = (row["p50_times"] or 0) >= limits["times"]
    return bool(enough and row["p50_ms"] - row["p50_before_ms"] >= limits["least_ms"])


def _shift(store: Store, row: Row, limits: dict[str, float]) -> Shift:
    level = "p50" if _by_median(row, limits) else "p95"
    before, after = six(row[f"{level}_before_ms"]) or 0.0, six(row[f"{level}_ms"]) or 0.0
    changed = tuple(_changes(store, row))[:MOST_CHANGES]
    figure = {"ttft_ms": "first token"}.get(row["name"], "whole answer")
    at = instant(row["from_at"]) or ""
    text = f"At {at[11:19]} the {level.upper()} of the {figure} went from {_seconds(before)} to {_seconds(after)}"
    text += (
        "; then " + ", and ".join(one.text for one in changed)
        if changed
        else "; nothing else in these logs changed then"
    )
    return Shift(row["vantage"], at, row["name"], level, before, after, changed, text)


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.3g} s"


# --- what changed


def _changes(store: Store, row: Row) -> Iterator[Change]:
    before, after = _around(store, row, "<"), _around(store, row, ">=")
    if not before or not after:
        return
    for name in NAMES:
        yield from _renamed(name, [one[name] for one in before], [one[name] for one in after])
    yield from _cached(before, after)
    for name, words in SIZES.items():
        sides = [[float(one[name]) for one in side if one[name] is not None] for side in (before, after)]
        yield from _resized(name, words, *sides)
    yield from _rate(before, after)


def _around(store: Store, row: Row, side: str) -> list[Row]:
    """The attempts of one side of a step that are nearest to it."""
    rows = min(row["rows_before"], row["rows_onwards"])
    count = min(max(LEAST, math.ceil(0.1 * (row["rows_before"] + row["rows_onwards"]))), rows, MOST)
    columns = ", ".join((*NAMES, *SIZES, "cached_tokens", "epoch_us(started_at) as at_us"))
    return store.rows(
        f"select {columns} from attempts where vantage = $vantage and attempt_id {side} $first"
        f" and started_at is not null order by attempt_id {'desc' if side == '<' else ''} limit {count}",
        {"vantage": row["vantage"], "first": row["first_id"]},
    )


def _renamed(name: str, before: Sequence[str | None], after: Sequence[str | None]) -> Iterator[Change]:
    """A value took another's place, or became far more or less usual. Missing values count as none."""
    old, new = Counter(one for one in before if one), Counter(one for one in after if one)
    if sum(old.values()) < 0.5 * len(before) or sum(new.values()) < 0.5 * len(after):
        return
    shares = {value: (old[value] / old.total(), new[value] / new.total()) for value in sorted({*old, *new})}
    moved = {value: (round(abs(was - became), 9), became > was) for value, (was, became) in shares.items()}
    value = max(moved, key=moved.__getitem__)
    was, became = shares[value]
    mixed = (old[value] + new[value]) / (old.total() + new.total())
    error = math.sqrt(max(mixed * (1 - mixed), 0.01) * (1 / old.total() + 1 / new.total()))
    new_or_gone = min(was, became) <= 0.02 and max(was, became) >= 0.1
    if abs(became - was) < (SURE * error if new_or_gone else max(SHARE_MOVED, SURE * error)):
        return
    first, last = (max(sorted(side), key=side.__getitem__) for side in (old, new))
    if first != last and shares[first][0] >= 0.5 and shares[last][1] >= 0.5:
        text = f"{name} changed from {first} to {last}"
        yield _change(text, {name: first, "share": shares[first][0]}, {name: last, "share": shares[last][1]})
    else:
        text = f"{name} {value} went from {was:.0%} to {became:.0%} of the requests"
        yield _change(text, {name: value, "share": was}, {name: value, "share": became})


def _cached(before: Sequence[Row], after: Sequence[Row]) -> Iterator[Change]:
    known = [
        [one for one in side if one["cached_tokens"] is not None and one["input_tokens"]] for side in (before, after)
    ]
    if min(map(len, known)) < LEAST:
        return
    was, became = (
        sum(one["cached_tokens"] for one in side) / sum(one["input_tokens"] for one in side) for side in known
    )
    if abs(became - was) >= CACHED_MOVED:
        text = f"the cached share of the prompts went from {was:.0%} to {became:.0%}"
        yield _change(text, {"cached_share": was}, {"cached_share": became})


def _resized(name: str, words: str, before: Sequence[float], after: Sequence[float]) -> Iterator[Change]:
    if min(len(before), len(after)) < LEAST // 2:
        return
    was, became = median(before), median(after)
    times = (became + 1) / (was + 1)
    if max(times, 1 / times) >= SIZE_TIMES and abs(_rank_errors(before, after)) >= SURE:
        yield _change(f"{words} went from {was:,.0f} to {became:,.0f}", {name: was}, {name: became})


def _rank_errors(before: Sequence[float], after: Sequence[float]) -> float:
    """By how many standard errors the second is the larger one (Mann-Whitney, midranks, no correction for ties)."""
    ordered = sorted([*before, *after])
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for place, value in enumerate(ordered, 1):
        first.setdefault(value, place)
        last[value] = place
    ranks = sum((first[value] + last[value]) / 2 for value in after)
    n, m = len(before), len(after)
    return (ranks - m * (n + m + 1) / 2) / math.sqrt(n * m * (n + m + 1) / 12)


def _rate(before: Sequence[Row], after: Sequence[Row]) -> Iterator[Change]:
    """Starts a minute. Bursts make counts vary half as much again as independent starts would."""
    spans = [max(one["at_us"] for one in side) - min(one["at_us"] for one in side) for side in (before, after)]
    if min(len(before), len(after)) < LEAST // 2 or min(spans) <= 0:
        return
    was, became = ((len(side) - 1) * 60e6 / span for side, span in zip((before, after), spans, strict=True))
    sure = math.exp(SURE * 1.5 * math.sqrt(1 / len(before) + 1 / len(after)))
    if max(became / was, was / became) >= max(RATE_TIMES, sure):
        text = f"requests a minute went from {was:,.0f} to {became:,.0f}"
        yield _change(text, {"requests_a_minute": was}, {"requests_a_minute": became})


def _change(text: str, before: dict[str, Figure], after: dict[str, Figure]) -> Change:
    sides = (
        {key: six(value) if isinstance(value, float) else value for key, value in side.items()}
        for side in (before, after)
    )
    return Change(text, *sides)
