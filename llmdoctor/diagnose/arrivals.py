"""How a probe's answers came over each hop: one stream a hop, the one in the middle, on one axis."""

from collections.abc import Sequence

from llmdoctor.diagnose.values import Arrival, six
from llmdoctor.store import Store

MOST_PLACES = 160
"""Places along the axis; events that fall on one of them are drawn as one lump."""

_SHOWN = ["http_version", "content_type", "content_encoding", "transfer_encoding", "content_length"]
_SHOWN += ["cache_control", "x_accel_buffering", "via", "server", "age", "cert_issuer"]


def arrivals(store: Store) -> tuple[Arrival, ...]:
    """From the innermost hop outwards; () where nothing was probed. Of the usual streams of a hop that one is taken
    whose first token is the median (nearest rank)."""
    found = store.rows(
        "with streams as (select *, row_number() over (partition by hop order by ttft_ms, attempt_id) as rank, "
        "count(*) over (partition by hop) as n from attempts "
        "where vantage = 'probe' and hop is not null and variant = 'stream') "
        "select s.* from streams s join hops h on h.hop = s.hop where s.rank = (s.n + 1) // 2 order by h.place"
    )
    longest = max((row["total_ms"] or 0.0 for row in found), default=0.0)
    return tuple(_arrival(store, row, longest) for row in found)


def _arrival(store: Store, row: dict[str, object], longest: float) -> Arrival:
    attempt_id = row["attempt_id"]
    times = [
        at
        for (at,) in store.run(
            "select at_ms from chunks where attempt_id = ? and kind in ('text', 'reasoning', 'tool') "
            "order by at_ms, seq",
            [attempt_id],
        )
    ]
    facts = dict(store.run("select name, value from facts where attempt_id = ? order by name", [attempt_id]))
    names = ("dns_ms", "connect_ms", "tls_ms", "header_ms", "first_byte_ms", "ttft_ms", "total_ms")
    return Arrival(
        hop=str(row["hop"]),
        outcome=str(row["outcome"]),
        http_status=row["http_status"],  # type: ignore[arg-type]  # a row is what the schema says
        phases={name: six(row[name]) for name in names},  # type: ignore[arg-type]
        chunks=len(times),
        lumps=_lumps(times, longest),
        facts={name: facts[name] for name in _SHOWN if name in facts},
    )


def _lumps(times: Sequence[float], longest: float) -> tuple[tuple[float, int], ...]:
    """(time, chunks) for each place of the axis where something came."""
    step = longest / MOST_PLACES if longest > 0 else 1.0
    found: dict[int, tuple[float, int]] = {}
    for at in times:
        first, count = found.get(int(at / step), (at, 0))
        found[int(at / step)] = (first, count + 1)
    return tuple((round(at, 1), count) for at, count in found.values())
