"""Where a log holds no record for far longer than usual: the table `silences`."""

from collections.abc import Sequence
from datetime import timedelta

import polars as pl

from llmdoctor.stats.front import literal
from llmdoctor.stats.quantiles import nearest_rank
from llmdoctor.stats.segments import EPOCH
from llmdoctor.store import Store

LEAST_STARTS = 50
TIMES_USUAL, LEAST_MS = 10, 1000.0
MOST = 20


def write_silences(store: Store, vantages: Sequence[str]) -> None:
    """The longest gaps between two neighbouring starts at one vantage, of TIMES_USUAL times the usual one and a second
    at least. Usual is the P95 (nearest rank): calls come in bursts, and the median gap of a burst is nothing. `beside`
    counts the attempts of other vantages that began within the gap: there it was the log that was silent."""
    for vantage in vantages:
        starts = pl.DataFrame(
            store.arrow(
                f"select epoch_us(started_at) as at_us from attempts where vantage = {literal(vantage)}"
                " and started_at is not null and time_basis is distinct from 'relative' and hop is null"
            )
        )["at_us"].sort()
        store.insert("silences", list(store.columns("silences")), _silences(store, vantage, starts))


def _silences(store: Store, vantage: str, starts: pl.Series) -> list[list[object]]:
    if len(starts) < LEAST_STARTS:
        return []
    gaps = starts.diff().slice(1)
    usual_ms = gaps.sort()[nearest_rank(len(gaps), 0.95) - 1] / 1000
    long = pl.DataFrame({"from": starts.head(-1), "to": starts.slice(1), "gap": gaps}).with_row_index("before", 1)
    long = long.filter(pl.col("gap") >= 1000 * max(TIMES_USUAL * usual_ms, LEAST_MS))
    rows = []
    for number, before, after, gap in long.sort(["gap", "from"], descending=[True, False]).head(MOST).iter_rows():
        instants = [(EPOCH + timedelta(microseconds=at)).isoformat() for at in (before, after)]
        beside = store.run(
            "select count(*) from attempts where vantage <> ? and hop is null"
            " and time_basis is distinct from 'relative' and epoch_us(started_at) between ? and ?",
            [vantage, before + 1, after - 1],
        )[0][0]
        rows.append([vantage, *instants, gap / 1000, usual_ms, number, len(starts) - number, beside])
    return rows
